"""The cheapest effort of one build that keeps the targets, decided with as few queries as each step needs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.analysis.betting import SequentialTest, SequentialVerdict, lower_bound

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from recallatk.goals import Target
    from recallatk.tune.asking import Answers, Index
    from recallatk.tune.sides import Side
    from recallatk.tune.space import Ladder

_FIRST_BATCH = 64
# Above full effort it goes on in such steps, as long as more effort is possible.
_HIGHER = 4.0
# Standard errors; many pairs are looked at.
_BEYOND_CHANCE = 4.0


@dataclass
class Look:
    """One setting, the queries that it was asked so far, and what these say."""

    effort: float
    search: dict[str, Any]
    verdict: SequentialVerdict = SequentialVerdict.UNDECIDED
    parts: list[Answers] = field(default_factory=list)
    whole: Answers | None = None
    """All queries of the side, after a warm-up."""
    bound: float | None = None
    noted: bool = False
    """Whether it is among the attempts already."""

    @property
    def asked(self) -> int:
        """How many queries it was asked."""
        return len(self.whole.which) if self.whole else sum(len(each.which) for each in self.parts)

    def values(self, target: int) -> NDArray[np.float64]:
        """The values of a target in the order asked, without those that have none."""
        parts = [self.whole] if self.whole else self.parts
        found: NDArray[np.float64] = np.concatenate([each.values[target] for each in parts])
        return np.asarray(found[~np.isnan(found)])

    def raw(self, target: int) -> NDArray[np.float64]:
        """The measure or loss of each query that a target is about."""
        return np.concatenate([each.raw[target] for each in ([self.whole] if self.whole else self.parts)])

    @property
    def latencies_ns(self) -> NDArray[np.int64]:
        """What each call took."""
        return np.concatenate([each.latencies_ns for each in ([self.whole] if self.whole else self.parts)])

    @property
    def mean(self) -> float:
        """Of the first target."""
        values = self.values(0)
        return float(values.mean()) if len(values) else 0.0

    @property
    def passed(self) -> bool:
        """Whether it may be recommended as far as is known."""
        return self.verdict is SequentialVerdict.PASS


class OutOfTime(Exception):  # noqa: N818 - nothing is wrong
    """Choosing has to end."""


class Prober:
    """Asks the settings of one ladder on one side, and remembers."""

    def __init__(
        self, index: Index, ladder: Ladder, side: Side, targets: Sequence[Target], alpha: float, seed: int,
        over: Callable[[], bool] = lambda: False,
    ) -> None:  # fmt: skip
        self.over = over
        self.index, self.ladder, self.side, self.targets, self.alpha = index, ladder, side, targets, alpha
        self.order = side.order(seed)
        self.looks: dict[float, Look] = {}
        self.top = ladder.most
        """Above it recall falls again, and nothing counts."""

    def counted(self) -> dict[float, Look]:
        """What was asked up to where recall falls again."""
        return {effort: look for effort, look in self.looks.items() if effort <= self.top}

    def look(self, effort: float) -> Look:
        """Ask growing batches until the sequential test decides, or there are no more queries."""
        if effort in self.looks:
            return self.looks[effort]
        look = self.looks[effort] = Look(effort, self.ladder.search(effort))
        done, size = 0, _FIRST_BATCH
        while look.verdict is SequentialVerdict.UNDECIDED and done < len(self.order):
            if self.over():
                raise OutOfTime
            which = self.order[done : done + size]
            look.parts.append(self.index.ask(self.side, self.targets, look.search, which))
            done += len(which)
            size *= 2
            look.verdict = self._verdict(look)
        if look.verdict is SequentialVerdict.UNDECIDED and self._clears(look):
            look.verdict = SequentialVerdict.PASS
        return look

    def _clears(self, look: Look) -> bool:
        """Whether the bound over all queries clears every target, though the test could not decide.

        Near 1 the test needs more queries than there may be: it spreads its bets, and the bound does not.
        """
        return all(
            lower_bound(look.values(place), 1 - self.alpha) >= target.threshold
            for place, target in enumerate(self.targets)
        )

    def _verdict(self, look: Look) -> SequentialVerdict:
        found = {self._decided(place, target, look) for place, target in enumerate(self.targets)}
        if SequentialVerdict.FAIL in found:
            return SequentialVerdict.FAIL
        return SequentialVerdict.PASS if found == {SequentialVerdict.PASS} else SequentialVerdict.UNDECIDED

    def _decided(self, place: int, target: Target, look: Look) -> SequentialVerdict:
        if target.threshold >= 1:
            return SequentialVerdict.FAIL if (look.values(place) < 1).any() else SequentialVerdict.UNDECIDED
        test = SequentialTest(target.threshold, self.alpha)
        return test.update(look.values(place))

    def settle(self, effort: float) -> Look:
        """Ask all queries after a warm-up: the bound to decide by, and the latency."""
        look = self.look(effort)
        if look.whole is None:
            look.whole = self.index.ask(
                self.side, self.targets, look.search, self.order, warm=True, purpose="settle"
            )
            bounds = [
                (lower_bound(look.values(place), 1 - self.alpha), target.threshold)
                for place, target in enumerate(self.targets)
            ]
            look.bound = bounds[0][0]
            # The bound over all queries is the verdict; the test was there to save queries.
            cleared = all(bound >= threshold for bound, threshold in bounds)
            look.verdict = SequentialVerdict.PASS if cleared else SequentialVerdict.UNDECIDED
        return look


@dataclass(frozen=True)
class Chosen:
    """What became of one ladder."""

    prober: Prober
    look: Look | None
    """The setting with the least effort that clears every target; None where none does."""
    ceiling: Look
    """At full effort."""
    violated: bool
    """Whether some setting failed though one of less effort had passed."""

    @property
    def looks(self) -> list[Look]:
        """All settings that were asked, by rising effort."""
        return [self.prober.looks[each] for each in sorted(self.prober.looks)]


def choose(prober: Prober) -> Chosen:
    """Full effort first, then down by bisection, then up again until the bound clears."""
    ceiling, fell = _ceiling(prober), False
    if not ceiling.passed and not prober.settle(ceiling.effort).passed:
        better = _better_below(prober, ceiling)
        if better is None:
            return Chosen(prober, None, ceiling, violated=falls(prober))
        ceiling, fell = better, True
    _bisect(prober, prober.ladder.least, ceiling.effort)
    _probe_below(prober)
    violated = _recheck(prober)
    return Chosen(prober, _cleared(prober), ceiling, violated or fell or falls(prober))


def rescued(prober: Prober) -> Chosen:
    """What is known when time is over: the least effort that stands so far, if its bound clears."""
    asked = {effort: look for effort, look in prober.looks.items() if look.parts or look.whole}
    prober.looks, prober.over = asked, lambda: False
    ceiling = prober.look(max(asked) if asked else prober.ladder.generous)
    effort = standing(prober)
    look = None if effort is None else prober.settle(effort)
    return Chosen(prober, look if look is not None and look.passed else None, ceiling, violated=False)


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
    """A lower effort that passes though full effort did not; on a curve that rises it fails with few queries.

    Whatever is claimed below such a fall is a claim of its own, and has half of the error.
    """
    for effort in prober.ladder.lower(ceiling.effort):
        if prober.look(effort).passed:
            prober.alpha /= 2
            if prober.settle(effort).passed:
                prober.top = effort
                return prober.looks[effort]
            prober.alpha *= 2
    return None


def _bisect(prober: Prober, low: float, high: float) -> None:
    """Between an effort that did not pass and one that did, until there is nothing between."""
    if low >= high or prober.look(low).passed:
        return
    while (middle := prober.ladder.between(low, high)) is not None:
        if prober.look(middle).passed:
            high = middle
        else:
            low = middle


def _probe_below(prober: Prober) -> None:
    """One setting below all that did not pass: on a curve that rises it fails with few queries."""
    failed = [effort for effort, look in prober.counted().items() if not look.passed]
    if failed:
        below = prober.ladder.between(prober.ladder.least, max(failed))
        if below is not None:
            prober.look(below)


def standing(prober: Prober) -> float | None:
    """The least effort such that it and all tried above it passed.

    Where recall rises with effort, "below target" at one effort is so at all lower ones: a claim that needs
    all tried settings above it to have passed is a closed test, and keeps its level however many were tried.
    """
    found = None
    for effort in sorted(prober.counted(), reverse=True):
        if not prober.looks[effort].passed:
            break
        found = effort
    return found


def _recheck(prober: Prober) -> bool:
    """Where a setting passed below one that did not, ask the latter everything: it may have been unlucky."""
    violated = False
    for effort in sorted(prober.counted()):
        lower = any(look.passed for other, look in prober.looks.items() if other < effort)
        if lower and not prober.looks[effort].passed:
            violated = not prober.settle(effort).passed or violated
    if violated:
        counted = prober.counted()
        least = max(effort for effort, look in counted.items() if not look.passed)
        above = [effort for effort, look in counted.items() if effort > least and look.passed]
        if above:
            _bisect(prober, least, min(above))
    return violated


def falls(prober: Prober) -> bool:
    """Whether some effort did worse than a lower one on the queries that both were asked, beyond chance."""
    efforts = sorted(prober.looks)
    for place, lower in enumerate(efforts):
        for higher in efforts[place + 1 :]:
            below, above = prober.looks[lower].values(0), prober.looks[higher].values(0)
            common = min(len(below), len(above))
            lost = below[:common] - above[:common]
            if common > 1 and lost.mean() > _BEYOND_CHANCE * lost.std() / np.sqrt(common):
                return True
    return False


def _cleared(prober: Prober) -> Look | None:
    """The standing effort, or the next above it whose bound clears."""
    effort = standing(prober)
    while effort is not None:
        look = prober.settle(effort)
        if look.passed:
            return look
        effort = next_safer(prober, effort)
    return None


def next_safer(prober: Prober, effort: float, factor: float = 1.08) -> float | None:
    """A little more effort, but no more than the next that passed."""
    higher = prober.ladder.above(effort, factor)
    if higher is None or effort >= prober.top:
        return None
    passed = [each for each, look in prober.counted().items() if each > effort and look.passed]
    return min([higher, prober.top, *passed])


def settled_above(prober: Prober, effort: float, factor: float) -> Look | None:
    """The next effort of at least so many times as much whose bound clears every target; None at the top."""
    higher = prober.ladder.above(effort, factor)
    prober.over = lambda: False
    safer = None if higher is None or effort >= prober.top else min(higher, prober.top)
    while safer is not None:
        look = prober.settle(safer)
        if look.passed:
            return look
        safer = next_safer(prober, safer)
    return None
