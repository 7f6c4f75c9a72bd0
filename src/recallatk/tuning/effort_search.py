"""Search for the lowest effort of one build that meets the targets, with as few queries as possible."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from recallatk.analysis.betting import SequentialVerdict
from recallatk.analysis.distribution import scored_values, weighted_mean
from recallatk.goals.decisions import bounds_clear, sequential_verdict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from recallatk.core import Weights
    from recallatk.goals import Target
    from recallatk.tuning.index_client import ScoredAnswers
    from recallatk.tuning.search_space import Ladder

_FIRST_BATCH = 64
# Above the generous effort, each try multiplies the effort by this factor.
_HIGHER = 4.0
# In standard errors; high because many pairs are compared.
_BEYOND_CHANCE = 4.0


class EffortQueries(Protocol):
    """The queries to choose by, as far as a search for effort needs them."""

    @property
    def weights(self) -> Weights | None:
        """How much each query counts; None if all count the same."""

    def order(self, seed: int) -> NDArray[np.int64]:
        """The queries in random order."""


class EffortStudy(Protocol):
    """The queries, targets and time limit of a search for effort."""

    @property
    def side(self) -> Any:
        """The queries to choose by: `EffortQueries`, in the form that the index takes."""

    @property
    def targets(self) -> Sequence[Target]:
        """The targets."""

    @property
    def seed(self) -> int:
        """Random seed of the order of queries."""

    def over(self) -> bool:
        """Whether the time for choosing is over."""


class EffortIndex(Protocol):
    """An index that answers at any setting: one that was built, or a collection in use."""

    def ask(
        self,
        side: Any,
        targets: Sequence[Target],
        search: dict[str, Any],
        which: NDArray[np.int64],
        *,
        warm: bool = False,
        purpose: str = "look",
    ) -> ScoredAnswers:
        """Answers to some queries, scored for each target."""


@dataclass(frozen=True, eq=False)
class Look:
    """One setting with its answers so far, and the verdict on them."""

    effort: float
    search: dict[str, Any]
    answers: tuple[ScoredAnswers, ...] = ()
    verdict: SequentialVerdict = SequentialVerdict.UNDECIDED
    bound: float | None = None
    """Lower confidence bound of the first target's mean, once settled."""
    settled: bool = False
    """Whether the answers cover all queries, sent after a warm-up."""

    @property
    def asked(self) -> int:
        """Number of queries sent."""
        return sum(len(each.which) for each in self.answers)

    def values(self, target: int) -> NDArray[np.float64]:
        """Values of a target scaled to 0 to 1, in query order; NaN where it does not apply."""
        return np.concatenate([each.values[target] for each in self.answers])

    @property
    def weights(self) -> NDArray[np.float64] | None:
        """How much each query counts, in the same order; None if all count the same."""
        found = [each.weights for each in self.answers if each.weights is not None]
        return np.concatenate(found) if found else None

    def raw(self, target: int) -> NDArray[np.float64]:
        """The measure or loss per query that a target covers."""
        return np.concatenate([each.raw[target] for each in self.answers])

    @property
    def latencies_ns(self) -> NDArray[np.int64]:
        """Latency of each call."""
        return np.concatenate([each.latencies_ns for each in self.answers])

    @property
    def mean(self) -> float:
        """Mean of the first target's values."""
        values, weights = scored_values(self.values(0), self.weights)
        return weighted_mean(values, weights) if len(values) else 0.0

    @property
    def passed(self) -> bool:
        """Whether the setting meets every target, as far as known."""
        return self.verdict is SequentialVerdict.PASS


@dataclass(frozen=True, eq=False)
class Chosen:
    """Outcome of the search on one ladder, with every look to continue from."""

    ladder: Ladder
    looks: Mapping[float, Look]
    """Every setting that was tried, by effort."""
    alpha: float
    """Error probability of the bounds on this ladder."""
    top: float
    """The effort above which recall falls again; higher efforts are ignored."""
    look: Look | None = None
    """The setting with the lowest effort that meets every target; None if none does."""
    violated: bool = False
    """Whether some setting failed although one with less effort had passed."""

    @property
    def by_effort(self) -> list[Look]:
        """Looks by ascending effort."""
        return [self.looks[each] for each in sorted(self.looks)]

    @property
    def counted(self) -> list[Look]:
        """Looks by ascending effort, up to the effort where recall falls again."""
        return [look for look in self.by_effort if look.effort <= self.top]


class OutOfTime(Exception):  # noqa: N818 - not an error
    """The time limit for choosing has passed."""


def least_effort(study: EffortStudy, index: EffortIndex, ladder: Ladder, alpha: float) -> Chosen:
    """Start at full effort, bisect down, then step up until the bound meets the targets."""
    prober = Prober(study, index, Chosen(ladder, {}, alpha, ladder.most), limited=True)
    try:
        look, violated = _choose(prober)
    except OutOfTime:
        look, violated = _rescued(prober), False
    return replace(prober.known, look=look, violated=violated)


def settled_above(
    study: EffortStudy, index: EffortIndex, chosen: Chosen, effort: float, factor: float
) -> tuple[Look | None, Chosen]:
    """The next effort, at least `factor` times higher, whose bound meets every target; None at the top.

    Also returns the search with the added looks. The time limit does not apply.
    """
    prober = Prober(study, index, chosen)
    higher = chosen.ladder.above(effort, factor)
    safer = None if higher is None or effort >= chosen.top else min(higher, chosen.top)
    while safer is not None:
        look = prober.settle(safer)
        if look.passed:
            return look, prober.known
        safer = _next_safer(prober, safer)
    return None, prober.known


def settled_at(
    study: EffortStudy, index: EffortIndex, chosen: Chosen, search: dict[str, Any], least: float
) -> Look | None:
    """The look at a setting over all queries.

    None if its effort is off the ladder, below `least` or above the effort where recall falls again, and
    when time is over and the setting was not settled before.
    """
    knob = chosen.ladder.knob
    known = (each.effort for each in chosen.by_effort if each.search == search)
    effort = next(known, 0.0 if knob is None else float(search.get(knob.name, 0)))
    if chosen.ladder.search(effort) != search or not least <= effort <= chosen.top:
        return None
    before = chosen.looks.get(effort)
    if study.over() and (before is None or not before.settled):
        return None
    return Prober(study, index, chosen).settle(effort)


class Prober:
    """Tries settings of one ladder during one search, and records their looks."""

    def __init__(
        self, study: EffortStudy, index: EffortIndex, known: Chosen, *, limited: bool = False
    ) -> None:
        self.study, self.index, self.ladder, self.limited = study, index, known.ladder, limited
        queries: EffortQueries = study.side
        self.order = queries.order(study.seed)
        self.known = known

    def look(self, effort: float) -> Look:
        """Send growing batches until the sequential test decides or the queries run out."""
        if effort in self.known.looks:
            return self.known.looks[effort]
        look, size = Look(effort, self.ladder.search(effort)), _FIRST_BATCH
        while look.verdict is SequentialVerdict.UNDECIDED and look.asked < len(self.order):
            if self.limited and self.study.over():
                raise OutOfTime
            look = self._learned(self._asked(look, self.order[look.asked : look.asked + size]))
            size *= 2
        # Near 1 the sequential test may need more queries than exist, where the bound decides already.
        if look.verdict is SequentialVerdict.UNDECIDED and self._bounds(look)[0]:
            look = self._learned(replace(look, verdict=SequentialVerdict.PASS))
        return look

    def _learned(self, look: Look) -> Look:
        self.known = replace(self.known, looks={**self.known.looks, look.effort: look})
        return look

    def _asked(self, look: Look, batch: NDArray[np.int64]) -> Look:
        answers = self.index.ask(self.study.side, self.study.targets, look.search, batch)
        more = replace(look, answers=(*look.answers, answers))
        verdict = sequential_verdict(*self._evidence(more), self._weights(more), self._heaviest)
        return replace(more, verdict=verdict)

    def _evidence(self, look: Look) -> tuple[Sequence[Target], list[NDArray[np.float64]], float]:
        targets = self.study.targets
        return targets, [look.values(place) for place in range(len(targets))], self.known.alpha

    def _weights(self, look: Look) -> list[NDArray[np.float64]] | None:
        return None if look.weights is None else [look.weights] * len(self.study.targets)

    @property
    def _heaviest(self) -> float:
        weights = self.study.side.weights
        return 1.0 if weights is None else float(weights.values.max())

    def _bounds(self, look: Look) -> tuple[bool, NDArray[np.float64]]:
        return bounds_clear(*self._evidence(look), self._weights(look))

    def settle(self, effort: float) -> Look:
        """Send all queries after a warm-up: the bound decides, and the latencies count."""
        look = self.look(effort)
        if look.settled:
            return look
        answers = self.index.ask(
            self.study.side, self.study.targets, look.search, self.order, warm=True, purpose="settle"
        )
        whole = replace(look, answers=(answers,), settled=True)
        # The bound over all queries decides; the sequential test only saves queries.
        cleared, bounds = self._bounds(whole)
        verdict = SequentialVerdict.PASS if cleared else SequentialVerdict.UNDECIDED
        return self._learned(replace(whole, bound=float(bounds[0]), verdict=verdict))


def _choose(prober: Prober) -> tuple[Look | None, bool]:
    ceiling, fell = _ceiling(prober), False
    if not ceiling.passed and not prober.settle(ceiling.effort).passed:
        better = _better_below(prober, ceiling)
        if better is None:
            return None, _falls(prober)
        ceiling, fell = better, True
    _bisect(prober, prober.ladder.least, ceiling.effort)
    _probe_below(prober)
    violated = _recheck(prober)
    look = _cleared(prober)
    return look, violated or fell or _falls(prober)


def _rescued(prober: Prober) -> Look | None:
    """The lowest effort that has passed when time runs out, if its bound meets the targets."""
    prober.limited = False
    if not prober.known.looks:
        prober.look(prober.ladder.generous)
    effort = _standing(prober)
    look = None if effort is None else prober.settle(effort)
    return look if look is not None and look.passed else None


def _ceiling(prober: Prober) -> Look:
    effort = prober.ladder.generous
    look = prober.look(effort)
    while not look.passed and effort < prober.ladder.most:
        before, effort = look, min(prober.ladder.most, effort * _HIGHER)
        look = prober.look(effort)
        if not look.passed and look.mean <= before.mean:
            break
    return look


def _better_below(prober: Prober, ceiling: Look) -> Look | None:
    """A lower effort that passes although full effort did not. On a rising curve, few queries rule it out.

    A claim below such a fall is a separate claim, so it gets half of the error probability.
    """
    for effort in prober.ladder.lower(ceiling.effort):
        if prober.look(effort).passed:
            alpha = prober.known.alpha
            prober.known = replace(prober.known, alpha=alpha / 2)
            look = prober.settle(effort)
            if look.passed:
                prober.known = replace(prober.known, top=effort)
                return look
            prober.known = replace(prober.known, alpha=alpha)
    return None


def _bisect(prober: Prober, low: float, high: float) -> None:
    """Bisect between an effort that failed and one that passed, until none is left between."""
    if low >= high or prober.look(low).passed:
        return
    while (middle := prober.ladder.between(low, high)) is not None:
        if prober.look(middle).passed:
            high = middle
        else:
            low = middle


def _probe_below(prober: Prober) -> None:
    """Try one setting below all that failed. On a rising curve, it fails after few queries."""
    failed = [look.effort for look in prober.known.counted if not look.passed]
    if failed:
        below = prober.ladder.between(prober.ladder.least, max(failed))
        if below is not None:
            prober.look(below)


def _standing(prober: Prober) -> float | None:
    """The lowest effort that passed together with all higher efforts tried.

    If recall rises with effort, a miss at one effort implies a miss at all lower ones. Requiring that all
    higher efforts passed is therefore a closed test: it keeps its level however many efforts are tried.
    """
    found = None
    for look in reversed(prober.known.counted):
        if not look.passed:
            break
        found = look.effort
    return found


def _recheck(prober: Prober) -> bool:
    """Whether a setting fails on all queries, not just on a batch, although one with less effort passed."""
    violated = False
    for look in prober.known.counted:
        lower = any(other.passed for other in prober.known.looks.values() if other.effort < look.effort)
        if lower and not prober.known.looks[look.effort].passed:
            violated = not prober.settle(look.effort).passed or violated
    if violated:
        counted = prober.known.counted
        least = max(look.effort for look in counted if not look.passed)
        above = [look.effort for look in counted if look.effort > least and look.passed]
        if above:
            _bisect(prober, least, min(above))
    return violated


def _falls(prober: Prober) -> bool:
    """Whether some effort did worse than a lower one on their common queries, beyond chance."""
    for lower, higher in combinations(prober.known.by_effort, 2):
        below, above = lower.values(0), higher.values(0)
        asked = min(len(below), len(above))
        lost = below[:asked] - above[:asked]
        lost = lost[~np.isnan(lost)]
        common = len(lost)
        if common > 1 and lost.mean() > _BEYOND_CHANCE * lost.std() / np.sqrt(common):
            return True
    return False


def _cleared(prober: Prober) -> Look | None:
    """The standing effort, or the next one above it whose bound meets the targets."""
    effort = _standing(prober)
    while effort is not None:
        look = prober.settle(effort)
        if look.passed:
            return look
        effort = _next_safer(prober, effort)
    return None


def _next_safer(prober: Prober, effort: float, factor: float = 1.08) -> float | None:
    """Slightly more effort, at most the next that passed."""
    higher, known = prober.ladder.above(effort, factor), prober.known
    if higher is None or effort >= known.top:
        return None
    passed = [look.effort for look in known.counted if look.effort > effort and look.passed]
    return min([higher, known.top, *passed])
