"""The least effort with which an existing collection meets its targets, validated on held-out queries."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.adapters.base import Engine
from recallatk.adapters.probe_limits import RateLimit
from recallatk.adapters.target_schemes import collection_in_use
from recallatk.analysis.betting import lower_bound
from recallatk.analysis.filtered import SELECTIVE, named_grouping
from recallatk.core import Metric
from recallatk.core.probed import EffortBucket, EffortLook, TunedEffort
from recallatk.datasets.sampling import HELD_OUT
from recallatk.errors import UsageError
from recallatk.goals import sort_goals
from recallatk.goals.decisions import broken_budget, confirms
from recallatk.probing.decision import latency_percentiles, require_measurable
from recallatk.probing.live_client import LiveClient, LiveStudy, QuerySide
from recallatk.probing.probe import DEFAULT_RATE, cutoff
from recallatk.probing.probe_queries import probe_queries
from recallatk.probing.query_groups import filter_counts
from recallatk.probing.references import made_from, reference_for
from recallatk.tuning.effort_search import least_effort, settled_above
from recallatk.tuning.full_builds import ALPHA
from recallatk.tuning.search_space import Ladder, Shape
from recallatk.units import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from recallatk.adapters.collection import Collection, Discovery
    from recallatk.filters import Filter
    from recallatk.goals import Budget, Target
    from recallatk.goals.grammar import Goal
    from recallatk.probing.probe_queries import ProbeQueries
    from recallatk.tuning.effort_search import Chosen, Look
    from recallatk.tuning.index_client import ScoredAnswers

_MOST_VALIDATIONS = 5
_FIRST_STEP = 0.1
# Too few held-out queries confirm anything.
_FEWEST_QUERIES = 20


def tune_effort(
    target: str | Collection,
    queries: Any,
    goals: Sequence[str | Goal],
    *,
    at: int | None = None,
    where: Filter | str | None = None,
    search: Mapping[str, Any] | None = None,
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
        search: search parameters that stay fixed; the first effort that is not among them is tuned.
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
        corpus = made_from(opened, corpus, truth)
        opened.configure(search or {}, settings)
        if on_discovery is not None:
            on_discovery(opened.discovery())
        ladder = _ladder(opened, k, search or {})
        asked = probe_queries(opened, queries, where, 0, seed)
        usable = _usable(opened, asked)
        reference = reference_for(opened, asked, k, truth, corpus)
        pace = RateLimit(max_rate)
        client = LiveClient(opened, asked, reference, k, pace, search or {}, settings, progress)
        client.facts = filter_counts(opened, asked, reference, np.arange(len(asked)), pace)
        task = EffortTask(client, ladder, tuple(targets), tuple(budgets), seed)
        split = round(len(usable) * (1 - HELD_OUT))
        found = task.tuned(QuerySide(usable[:split]), QuerySide(usable[split:]))
        return replace(found, buckets=task.buckets(found, usable[:split], usable[split:]), sent=client.sent)


def _ladder(collection: Collection, k: int, fixed: Mapping[str, Any]) -> Ladder:
    """The settings of one effort; all other parameters stay as they are in force."""
    found, knobs = collection.discovery(), collection.knobs()
    moving = [each for each in knobs if each.effort and each.name not in fixed][:1]
    if not moving:
        several = any(each.effort for each in knobs)
        why = "--search fixes every effort" if several else collection.without_effort()
        raise UsageError(f"{found.target}: {why}; there is no effort to tune")
    parts = {
        "name": found.engine,
        "search_knobs": tuple(moving),
        "metrics": frozenset(Metric),
        "constraints": collection.constraints(),
    }
    kind: type[Engine] = type("AttachedCollection", (Engine,), parts)
    return Ladder(kind, {}, Shape(found.rows or 10**9, found.dimension or 1, k), {})


def _usable(collection: Collection, queries: ProbeQueries) -> NDArray[np.int64]:
    """The queries whose filter the collection can run, in random order."""
    reasons = [None if each is None else collection.refusal(each) for each in queries.filters]
    refused = np.array([each is not None for each in reasons])
    usable: NDArray[np.int64] = queries.order[~refused[queries.order]]
    if len(usable) < _FEWEST_QUERIES:
        why = next((each for each in reasons if each is not None), None)
        among = "" if why is None else f" of {len(queries):,}, because {why}"
        raise UsageError(
            f"{counted(len(usable), 'query', 'queries')} can be asked{among}: too few to choose by and to "
            f"validate. Accepted: at least {_FEWEST_QUERIES}, better hundreds"
        )
    return usable


@dataclass(frozen=True, eq=False)
class EffortTask:
    """What is tuned: a collection, the ladder of its effort, and the goals."""

    client: LiveClient
    ladder: Ladder
    targets: tuple[Target, ...]
    budgets: tuple[Budget, ...]
    seed: int

    def tuned(self, choose: QuerySide, held_out: QuerySide) -> TunedEffort:
        """Choose by some queries and validate on the others."""
        study = LiveStudy(choose, self.targets, self.seed)
        chosen = least_effort(study, self.client, self.ladder, ALPHA)
        look, validations = chosen.look, 0
        validated: ScoredAnswers | None = None
        confirmed = False
        while look is not None and validations < _MOST_VALIDATIONS:
            validations += 1
            whole = np.arange(len(held_out.numbers))
            validated = self.client.ask(held_out, self.targets, look.search, whole, purpose="validate")
            confirmed = confirms(self.targets, validated.values, ALPHA)
            if confirmed:
                break
            factor = 1 + _FIRST_STEP * 2 ** (validations - 1)
            look, chosen = settled_above(study, self.client, chosen, look.effort, factor)
        return self._result(chosen, look if confirmed else None, validated, validations)

    def _result(
        self, chosen: Chosen, look: Look | None, validated: ScoredAnswers | None, validations: int
    ) -> TunedEffort:
        found, target = self.client.collection.discovery(), self.targets[0]
        latency = {} if validated is None else latency_percentiles(validated.latencies_ns / 1e6)
        broken = None if look is None else broken_budget(self.budgets, latency)
        scored = np.empty(0) if validated is None else validated.values[0][~np.isnan(validated.values[0])]
        return TunedEffort(
            target=found.target,
            engine=found.engine,
            goals=tuple(str(each) for each in (*self.targets, *self.budgets)),
            met=look is not None and broken is None,
            why=_why(chosen, look, validations, broken),
            search={} if look is None else self.client.whole(look.search),
            snippet="" if look is None else self.client.collection.snippet(self.client.whole(look.search)),
            k=self.client.k,
            recall=None if validated is None else target.mean(validated.values[0]),
            bound=lower_bound(scored) if len(scored) else None,
            latency_ms=latency,
            truth_source=self.client.reference.description,
            looks=tuple(_look(each) for each in chosen.by_effort),
            sent=self.client.sent,
            validations=validations,
        )

    def buckets(
        self, whole: TunedEffort, choose: NDArray[np.int64], held_out: NDArray[np.int64]
    ) -> tuple[EffortBucket, ...]:
        """One setting per filter selectivity, if the setting for all does not serve every selectivity.

        Args:
            whole: the result for all queries.
            choose: the queries to choose by.
            held_out: the queries to validate on.
        """
        if self.client.facts is None or any(each.segment is not None for each in self.targets):
            return ()
        grouping = named_grouping(SELECTIVE, self.client.facts)
        if grouping is None:
            return ()
        sides = {
            name: (choose[grouping.labels[choose] == name], held_out[grouping.labels[held_out] == name])
            for name in grouping.order or ()
            if (grouping.labels == name).any()
        }
        if len(sides) < 2 or (whole.met and all(self._served(whole, each) for _, each in sides.values())):
            return ()
        return tuple(self._bucket(name, *each) for name, each in sides.items())

    def _served(self, whole: TunedEffort, places: NDArray[np.int64]) -> bool:
        """Whether the held-out queries of a selectivity reach the targets with the setting for all."""
        if not len(places):
            return True
        every = np.arange(len(places))
        found = self.client.ask(QuerySide(places), self.targets, dict(whole.search), every)
        return all(
            bool(np.isnan(values).all()) or float(np.nanmean(values)) >= target.goal
            for target, values in zip(self.targets, found.values, strict=True)
        )

    def _bucket(self, name: str, choose: NDArray[np.int64], held_out: NDArray[np.int64]) -> EffortBucket:
        count = len(choose) + len(held_out)
        if count < _FEWEST_QUERIES or not len(held_out) or not len(choose):
            why = f"{counted(count, 'query', 'queries')}: too few to choose by and to validate"
            return EffortBucket(name, count, {}, None, why)
        found = self.tuned(QuerySide(choose), QuerySide(held_out))
        return EffortBucket(name, count, found.search if found.met else {}, found.recall, found.why)


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
