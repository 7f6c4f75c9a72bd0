"""The least effort with which an existing collection meets its targets, validated on held-out queries."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.adapters.base import Engine
from recallatk.adapters.probe_limits import RateLimit
from recallatk.adapters.target_schemes import collection_in_use
from recallatk.analysis.betting import lower_bound
from recallatk.analysis.listed_recall import listed_recall
from recallatk.core import Metric
from recallatk.core.probed import EffortLook, TunedEffort
from recallatk.datasets.sampling import HELD_OUT
from recallatk.errors import UsageError
from recallatk.goals import Target, sort_goals
from recallatk.goals.decisions import broken_budget, confirms
from recallatk.probing.decision import latency_percentiles, require_measurable
from recallatk.probing.probe import DEFAULT_RATE, cutoff
from recallatk.probing.probe_queries import probe_queries
from recallatk.probing.references import alike, plain_id, reference_for
from recallatk.tuning.effort_search import least_effort, settled_above
from recallatk.tuning.full_builds import ALPHA
from recallatk.tuning.index_client import ScoredAnswers
from recallatk.tuning.search_space import Ladder, Shape

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from recallatk.adapters.collection import Answer, Collection, Discovery, Neighbors
    from recallatk.core import Weights
    from recallatk.filters import Filter
    from recallatk.goals import Budget
    from recallatk.goals.grammar import Goal
    from recallatk.probing.probe_queries import ProbeQueries
    from recallatk.probing.references import Reference
    from recallatk.tuning.effort_search import Chosen, Look

_MOST_VALIDATIONS = 5
_FIRST_STEP = 0.1
# Too few held-out queries confirm anything.
_FEWEST_QUERIES = 20


@dataclass(frozen=True, eq=False)
class QuerySide:
    """Some of the queries of a tuning."""

    numbers: NDArray[np.int64]
    weights: Weights | None = None

    def order(self, seed: int) -> NDArray[np.int64]:
        """Its queries in random order."""
        return np.random.default_rng([seed, len(self.numbers)]).permutation(len(self.numbers))


@dataclass(frozen=True, eq=False)
class LiveStudy:
    """The queries to choose by, and the targets; without the held-out queries."""

    side: QuerySide
    targets: Sequence[Target]
    seed: int

    def over(self) -> bool:
        """False: a tuning of one parameter has no time limit."""
        return False


@dataclass
class LiveClient:
    """A collection as an index that answers at any setting, with exact neighbors taken once per query."""

    collection: Collection
    queries: ProbeQueries
    reference: Reference
    k: int
    pace: RateLimit
    settings: Mapping[str, str] | None = None
    progress: Callable[[int, int], None] | None = None
    sent: int = 0
    known: dict[int, Neighbors] = field(default_factory=dict)

    def ask(
        self,
        side: QuerySide,
        targets: Sequence[Target],
        search: dict[str, Any],
        which: NDArray[np.int64],
        *,
        warm: bool = False,
        purpose: str = "look",
    ) -> ScoredAnswers:
        """Ask some queries of a side with these parameters."""
        self.collection.configure(search, self.settings)
        answers = [self._one(int(side.numbers[each])) for each in which]
        recall = np.array([value for value, _ in answers])
        values = tuple(self._values(target, side.numbers[which], recall) for target in targets)
        shaped = tuple(target.shaped(each) for target, each in zip(targets, values, strict=True))
        latencies = np.array([answer.seconds * 1e9 for _, answer in answers]).astype(np.int64)
        return ScoredAnswers(which, shaped, values, latencies, recall)

    def _one(self, place: int) -> tuple[float, Answer]:
        self.pace.wait()
        if place in self.known:
            query, condition = self.queries.vectors[place], self.queries.filters[place]
            answer = self.collection.answer(query, self.k, condition)
        else:
            pair = self.reference.pair(self.collection, self.queries, place, self.k)
            if pair.exact is None:
                raise UsageError(f"query {place}: there are no exact neighbors to compare with")
            ids = [plain_id(each) for each in pair.exact.ids]
            self.known[place], answer = pair.exact._replace(ids=ids), pair.answer
        self.sent += 1
        if self.progress is not None:
            self.progress(self.sent, 0)
        exact = self.known[place]
        ids = alike(answer.ids, exact.ids)
        value = listed_recall(exact.ids, exact.distances, ids, self.k, complete=exact.complete).value
        return (np.nan if value is None else value), answer

    def _values(
        self, target: Target, numbers: NDArray[np.int64], recall: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        if target.segment is None:
            return recall
        inside = target.members(self.queries.columns, self.queries.queries.rows)[numbers]
        return np.where(inside, recall, np.nan)


def tune_effort(
    target: str | Collection,
    queries: Any,
    goals: Sequence[str | Goal],
    *,
    at: int | None = None,
    where: Filter | str | None = None,
    settings: Mapping[str, str] | None = None,
    truth: str | None = None,
    corpus: Any = None,
    max_rate: float | None = DEFAULT_RATE,
    timeout: float = 30.0,
    seed: int = 0,
    on_discovery: Callable[[Discovery], None] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> TunedEffort:
    """Find the least search effort of an existing collection that meets every target.

    The effort is set for single calls of this client alone; production keeps its setting.

    Args:
        target: a URL, or a collection that is open.
        queries: real queries in any form: some to choose by, the others held out.
        goals: targets such as `recall@10 >= 0.95` and budgets such as `p95 <= 20ms`.
        at: the cutoff k; by default that of the first target.
        where: a filter for all queries, in addition to their own.
        settings: settings of the engine by their own names, in every call.
        truth: `exact` or `stream`, as for a probe.
        corpus: the corpus that the collection was made from.
        max_rate: queries per second; None for no limit.
        timeout: time limit of each statement or call, in seconds.
        seed: random seed of the split and of the order.
        on_discovery: called with what the collection reports, before any query.
        progress: called with the number of queries sent so far, and 0.
    """
    targets, budgets = sort_goals(goals)
    if not targets:
        raise UsageError('no target. State one: --target "recall@10 >= 0.95"')
    k = cutoff(at, targets)
    measurable: list[Goal] = [*targets, *budgets]
    for goal in measurable:
        require_measurable(goal, k)
    with collection_in_use(target, timeout) as opened:
        if on_discovery is not None:
            on_discovery(opened.discovery())
        ladder = _ladder(opened, k)
        asked = probe_queries(opened, queries, where, 0, seed)
        usable = _usable(opened, asked)
        reference = reference_for(opened, asked, k, truth, corpus)
        client = LiveClient(opened, asked, reference, k, RateLimit(max_rate), settings, progress)
        return _tuned(client, usable, targets, budgets, ladder, seed)


def _ladder(collection: Collection, k: int) -> Ladder:
    found, knobs = collection.discovery(), collection.knobs()
    if not any(each.effort for each in knobs):
        raise UsageError(f"{found.target}: {collection.without_effort()}; there is no effort to tune")
    parts = {"name": found.engine, "search_knobs": knobs, "metrics": frozenset(Metric)}
    kind: type[Engine] = type("AttachedCollection", (Engine,), parts)
    others = {each.name: each.default for each in knobs if not each.effort}
    return Ladder(kind, {}, Shape(found.rows or 10**9, found.dimension or 1, k), others)


def _usable(collection: Collection, queries: ProbeQueries) -> NDArray[np.int64]:
    """The queries whose filter the collection can run, in random order."""
    refused = [each is not None and collection.refusal(each) is not None for each in queries.filters]
    usable: NDArray[np.int64] = queries.order[~np.array(refused)[queries.order]]
    if len(usable) < _FEWEST_QUERIES:
        raise UsageError(
            f"{len(usable):,} queries can be asked: too few to choose by and to validate. Accepted: at least "
            f"{_FEWEST_QUERIES}, better hundreds"
        )
    return usable


def _tuned(
    client: LiveClient,
    usable: NDArray[np.int64],
    targets: Sequence[Target],
    budgets: Sequence[Budget],
    ladder: Ladder,
    seed: int,
) -> TunedEffort:
    split = round(len(usable) * (1 - HELD_OUT))
    study, held_out = LiveStudy(QuerySide(usable[:split]), targets, seed), QuerySide(usable[split:])
    chosen = least_effort(study, client, ladder, ALPHA)
    look, validations = chosen.look, 0
    validated: ScoredAnswers | None = None
    confirmed = False
    while look is not None and validations < _MOST_VALIDATIONS:
        validations += 1
        whole = np.arange(len(held_out.numbers))
        validated = client.ask(held_out, targets, look.search, whole, purpose="validate")
        confirmed = confirms(targets, validated.values, ALPHA)
        if confirmed:
            break
        factor = 1 + _FIRST_STEP * 2 ** (validations - 1)
        look, chosen = settled_above(study, client, chosen, look.effort, factor)
    return _result(client, targets, budgets, chosen, look if confirmed else None, validated, validations)


def _result(
    client: LiveClient,
    targets: Sequence[Target],
    budgets: Sequence[Budget],
    chosen: Chosen,
    look: Look | None,
    validated: ScoredAnswers | None,
    validations: int,
) -> TunedEffort:
    found, target = client.collection.discovery(), targets[0]
    latency = {} if validated is None else latency_percentiles(validated.latencies_ns / 1e6)
    broken = None if look is None else broken_budget(budgets, latency)
    met = look is not None and broken is None
    mean = None if validated is None else target.mean(validated.values[0])
    scored = np.empty(0) if validated is None else validated.values[0][~np.isnan(validated.values[0])]
    return TunedEffort(
        target=found.target,
        engine=found.engine,
        goals=tuple(str(each) for each in (*targets, *budgets)),
        met=met,
        why=_why(chosen, look, validations, broken),
        search={} if look is None else dict(look.search),
        snippet="" if look is None else client.collection.snippet(look.search),
        k=client.k,
        recall=mean,
        bound=lower_bound(scored) if len(scored) else None,
        latency_ms=latency,
        truth_source=client.reference.description,
        looks=tuple(_look(each) for each in chosen.by_effort),
        sent=client.sent,
        validations=validations,
    )


def _look(look: Look) -> EffortLook:
    times = latency_percentiles(look.latencies_ns / 1e6)
    return EffortLook(dict(look.search), look.asked, look.mean, times["p50"], look.passed)


def _why(chosen: Chosen, look: Look | None, validations: int, broken: tuple[Budget, float] | None) -> str:
    if broken is not None:
        budget, value = broken
        return (
            f"the least effort that meets the targets takes {budget.shown(value)}, and {budget} is the limit"
        )
    if look is not None:
        return ""
    if validations:
        return "the held-out queries do not confirm any effort that was tried"
    best = max(chosen.by_effort, key=lambda each: each.mean)
    listed = ", ".join(f"{name}={value}" for name, value in best.search.items())
    return (
        f"no effort meets the targets: the best was {best.mean:.3f} at {listed}. The build limits it; build "
        "the index with more effort, or look for filters that lose rows"
    )
