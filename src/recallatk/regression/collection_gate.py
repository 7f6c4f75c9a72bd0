"""The gate of a collection in use: a probe that stops when every goal is decided against the baseline."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.adapters.target_schemes import collection_in_use
from recallatk.analysis.headline import recall_cutoffs
from recallatk.analysis.latency import PERCENTILES, Percentile
from recallatk.analysis.query_groupings import KnownQueries, usual_groupings
from recallatk.analysis.side_comparison import compare_sides, require_comparable
from recallatk.analysis.sides import (
    ComparedSide,
    SideBuild,
    SideKind,
    SideSetting,
    where_both,
    with_queries_of,
)
from recallatk.core.judgments import Outcome, Verdict
from recallatk.datasets.opening import open_queries
from recallatk.errors import MismatchError, UsageError
from recallatk.fingerprint import fingerprint_queries
from recallatk.goals.against_baseline import require_measured
from recallatk.goals.budget import Budget
from recallatk.goals.gated import Gated
from recallatk.goals.relative import RelativeGoal
from recallatk.probing.decision import Latencies, RecallDecision, require_measurable
from recallatk.probing.probe import DEFAULT_K, decided_probe
from recallatk.probing.references import made_from
from recallatk.regression.gating import default_goals, ordered_goals
from recallatk.regression.setting_tests import BaselineSetting, SettingTests

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from recallatk.adapters.collection import Collection
    from recallatk.core import QuerySet
    from recallatk.core.filtering import FilterFacts
    from recallatk.core.judgments import GoalResult
    from recallatk.core.probed import Probed
    from recallatk.goals.gated import GatedGoal
    from recallatk.goals.grammar import Goal
    from recallatk.regression.gating import AcceptedBaseline

    Progress = Callable[[int, int], None]

# Tests look after so many queries; the last few are asked in vain at most.
_BATCH = 8


@dataclass
class GateDecision(RecallDecision):
    """Stops a probe when the tests of a gate are decided; the gate judges, and not the probe."""

    k: int
    name: str
    queries: int
    gates: Sequence[SettingTests] = ()
    _waiting: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__((), self.k)
        self.values = np.full(self.queries, np.nan)

    def setting(self) -> SideSetting:
        """The setting in force, with what is known so far."""
        return SideSetting(self.name, (), (), "", (SideBuild({}, {f"recall@{self.k}": self.values}),))

    def take(self, value: float, place: int | None = None) -> None:
        """The recall of one more query."""
        assert place is not None  # noqa: S101 - a probe says which query it is
        self.values[place] = value
        self._waiting.append(place)
        if len(self._waiting) == _BATCH:
            self.look()

    def look(self) -> None:
        """Let the tests take the queries that wait."""
        which, self._waiting = np.array(self._waiting, np.int64), []
        if len(which):
            for each in self.gates:
                each.take(self.setting(), which)

    @property
    def any_time(self) -> bool:
        """Whether its tests may stop the probe."""
        return bool(self.gates)

    @property
    def decided(self) -> bool:
        """Whether every goal is decided."""
        return bool(self.gates) and all(each.decided for each in self.gates)

    def verdict(
        self,
        values: NDArray[np.float64],
        milliseconds: NDArray[np.float64],
        columns: pa.Table | None,
        facts: FilterFacts | None = None,
    ) -> Verdict:
        """None: the gate has one."""
        return Verdict()


def gate_collection(
    target: str | Collection,
    queries: Any,
    goals: Sequence[Goal | RelativeGoal],
    references: Sequence[AcceptedBaseline],
    *,
    at: int | None = None,
    timeout: float = 30.0,
    progress: Progress | None = None,
    **asked: Any,
) -> Gated:
    """Probe a collection until every goal is decided, and judge it.

    Args:
        target: what `probe` takes.
        queries: real queries.
        goals: the goals; none for the usual ones, which need a baseline.
        references: the baseline, and the first accepted one where it counts too; none for absolute goals.
        at: the cutoff k; by default that of the goals, else the deepest of the baseline.
        timeout: time limit of each statement or call, in seconds.
        progress: called with the number of queries asked, and of all.
        asked: further arguments of `probe`.
    """
    with collection_in_use(target, timeout) as opened:
        known = _known(queries)
        asked = _attached(opened, asked)
        side = _described(opened, known)
        for each in references:
            require_comparable(each.side, side)
            _require_one_setting(each.side)
        k = _cutoff(goals, references, at)
        pairs = [(each.side.settings[0], SideSetting(side.name, (), (), "", ())) for each in references]
        stated = ordered_goals(list(goals) or default_goals(pairs, [f"recall@{k}"]))
        tests = _tests(stated, references, side)
        # Without a test for each goal, all queries are asked.
        gates = tests if all(each.stops for each in tests) else []
        decision = GateDecision(k, side.name, known.rows, gates)
        found = decided_probe(decision, opened, queries, progress=progress, **asked)
        decision.look()
        candidate = _measured(side, decision, found)
        return _judged(candidate, decision, found, references, tests)


def measure_collection(
    target: str | Collection, queries: Any, k: int, *, timeout: float = 30.0, **asked: Any
) -> ComparedSide:
    """Probe a collection with all queries, as what a baseline is accepted from."""
    with collection_in_use(target, timeout) as opened:
        known = _known(queries)
        asked = _attached(opened, asked)
        side = _described(opened, known)
        decision = GateDecision(k, side.name, known.rows)
        found = decided_probe(decision, opened, queries, **asked)
        return _measured(side, decision, found)


def _known(queries: Any) -> QuerySet:
    if queries is None:
        raise UsageError(
            "a gate needs real queries, which stay the same: rows of the collection are easier, and others "
            "the next time. Give them: --queries FILE"
        )
    return open_queries(queries)


def _attached(opened: Collection, asked: dict[str, Any]) -> dict[str, Any]:
    """The arguments of the probe with the corpus opened: an index file tells nothing without one."""
    corpus = made_from(opened, asked.get("corpus"), asked.get("truth"))
    return asked if asked.get("corpus") is None else {**asked, "corpus": corpus}


def _described(opened: Collection, queries: QuerySet) -> ComparedSide:
    found = opened.discovery()
    columns = queries.metadata
    text = queries.text_column or "text"
    texts = columns[text].to_pylist() if text in columns.column_names else None
    return ComparedSide(
        found.target,
        SideKind.PROBE,
        (),
        found.metric,
        {"queries": fingerprint_queries(queries)},
        queries.rows,
        tuple(map(str, queries.ids.to_pylist())),
        None if texts is None else tuple(None if each is None else str(each) for each in texts),
        columns,
        groupings=tuple(usual_groupings((), KnownQueries(None, columns, queries))),
        data=found.target,
    )


def _require_one_setting(side: ComparedSide) -> None:
    if len(side.settings) != 1:
        raise MismatchError(
            f"{side.name} has {len(side.settings)} settings, and a collection one. Accept the collection as "
            "the baseline: recallatk gate TARGET --queries FILE --accept"
        )


def _cutoff(
    goals: Sequence[Goal | RelativeGoal], references: Sequence[AcceptedBaseline], at: int | None
) -> int:
    """The one k of all goals; without goals on quality that of the baseline."""
    kinds = [each.goal if isinstance(each, RelativeGoal) else each for each in goals]
    found = {each.measure.k for each in kinds if not isinstance(each, Budget)}
    if not found:
        measures = references[0].side.settings[0].measures if references else []
        found = {max(recall_cutoffs(measures), default=DEFAULT_K)}
    k = max(found) if at is None else at
    for each in kinds:
        require_measurable(each, k)
    return k


def _tests(
    goals: Sequence[Goal | RelativeGoal], references: Sequence[AcceptedBaseline], side: ComparedSide
) -> list[SettingTests]:
    if not references:
        return [SettingTests(goals, side, None)]
    found = []
    for each in references:
        known = with_queries_of(each.side, side)
        found.append(SettingTests(goals, known, BaselineSetting(known, each.side.settings[0], each.label)))
    return found


def _measured(side: ComparedSide, decision: GateDecision, found: Probed) -> ComparedSide:
    """The side with what the probe found."""
    name, milliseconds = f"recall@{decision.k}", found.per_query["latency_ms"]
    latencies = {}
    for each in PERCENTILES:
        ends = Latencies(milliseconds).estimate(Budget(each, 1.0))
        if ends is not None:
            latencies[each] = Percentile(ends.value, ends.low, ends.high)
    build = SideBuild({name: found.recall}, {name: decision.values}, latencies)
    search = tuple(sorted((key, str(value)) for key, value in found.settings.items()))
    setting = SideSetting(found.engine, (), search, "", (build,))
    return replace(side, settings=(setting,), notes=found.notes)


def _judged(
    candidate: ComparedSide,
    decision: GateDecision,
    found: Probed,
    references: Sequence[AcceptedBaseline],
    tests: Sequence[SettingTests],
) -> Gated:
    [setting] = candidate.settings
    goals = [goal for each in tests for goal in each.judged(setting)]
    require_measured(goals, [setting])
    name, compared = None, None
    if references:
        first = with_queries_of(references[0].side, candidate)
        known = replace(first, settings=(where_both(first.settings[0], setting),))
        [compared] = compare_sides([known, candidate]).comparisons
        name = first.name
    asked = found.counts.asked
    total = decision.queries if decision.decided else asked
    whole = tuple(_whole(each, found, references) if decision.decided else each for each in goals)
    return Gated(name, candidate.name, whole, compared, asked, total, measured=candidate)


def _whole(goal: GatedGoal, found: Probed, references: Sequence[AcceptedBaseline]) -> GatedGoal:
    """A goal that is met on the answered queries alone is not met."""
    refused = found.counts.refused
    if references:
        before = references[0].side.settings[0].by_build(f"recall@{found.k}")
        refused -= 0 if before is None else int(np.isnan(before[0]).sum())
    if refused <= 0 or goal.result.outcome is not Outcome.MET:
        return goal
    note = f"the collection did not answer {refused:,} queries, whose filters it refuses"
    result: GoalResult = replace(goal.result, outcome=Outcome.UNDECIDED, note=note)
    return replace(goal, result=result)
