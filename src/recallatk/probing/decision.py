"""Goals of a probe: decided as soon as the queries say so, or at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from recallatk.analysis.betting import (
    BATCH,
    SequentialTest,
    SequentialVerdict,
    lower_bound,
    more_to_decide,
    upper_bound,
)
from recallatk.analysis.intervals import quantile, quantile_ranks
from recallatk.analysis.latency import PERCENTILES
from recallatk.analysis.measures import Recall
from recallatk.core.judgments import GoalResult, Outcome, Verdict
from recallatk.errors import UsageError
from recallatk.goals import Budget, Target
from recallatk.goals.evaluation import CONFIDENCE, GoalEstimate, evaluate, target_result
from recallatk.goals.sequential_goals import OUTCOMES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from recallatk.analysis.betting import Test
    from recallatk.core.filtering import FilterFacts
    from recallatk.goals.grammar import Goal

ROWS_AS_QUERIES = "rows of the collection are easier than real queries: give --queries for a PASS"


class RecallDecision:
    """The goals of one probe and their sequential tests.

    Args:
        goals: targets on recall@k, and latency budgets.
        k: the cutoff of the probe.
        sampled: whether rows of the collection serve as queries; they cannot pass a target.
        all_queries: whether all queries are asked, although the goals are decided.
    """

    def __init__(
        self, goals: Sequence[Goal], k: int, *, sampled: bool = False, all_queries: bool = False
    ) -> None:
        self.goals, self.k, self.sampled, self.all_queries = tuple(goals), k, sampled, all_queries
        for goal in self.goals:
            require_measurable(goal, k)
        self.tests = {
            goal: SequentialTest(goal.value)
            for goal in self.goals
            if isinstance(goal, Target) and _is_sequential(goal)
        }

    def take(self, value: float, place: int | None = None) -> None:
        """The recall of one more query.

        Args:
            value: its recall.
            place: which query it is, for decisions that compare it with another value of the same query.
        """
        for test in self.tests.values():
            test.update([value])

    @property
    def any_time(self) -> bool:
        """Whether tests may stop the probe, so that its interval has to hold at any time."""
        return bool(self.tests)

    @property
    def decided(self) -> bool:
        """Whether no more queries are asked, because they cannot change the verdict."""
        if self.all_queries or len(self.tests) < len(self.goals) or not self.goals:
            return False
        return all(test.verdict not in self.open_still for test in self.tests.values())

    def missed(self, verdict: Verdict) -> list[Target]:
        """The targets that a verdict finds missed."""
        return [
            goal
            for goal, result in zip(self.goals, verdict.goals, strict=True)
            if isinstance(goal, Target) and result.outcome is Outcome.MISSED
        ]

    @property
    def open_still(self) -> frozenset[SequentialVerdict]:
        """Verdicts of a test that do not end the probe.

        A sample that passes decides nothing: its other queries at least make the interval narrower.
        """
        passing = {SequentialVerdict.PASS} if self.sampled else set()
        return frozenset({SequentialVerdict.UNDECIDED} | passing)

    def verdict(
        self,
        values: NDArray[np.float64],
        milliseconds: NDArray[np.float64],
        columns: pa.Table | None,
        facts: FilterFacts | None = None,
    ) -> Verdict:
        """The verdict on all goals; rows of the collection as queries cannot pass a target."""
        return Verdict(tuple(self._result(goal, values, milliseconds, columns, facts) for goal in self.goals))

    def _result(
        self,
        goal: Goal,
        values: NDArray[np.float64],
        milliseconds: NDArray[np.float64],
        columns: pa.Table | None,
        facts: FilterFacts | None,
    ) -> GoalResult:
        if isinstance(goal, Budget):
            (result,) = evaluate([goal], Latencies(milliseconds))
            return result
        if not len(values):
            return GoalResult(str(goal), Outcome.NOT_MEASURED, note="no query could be scored")
        if goal in self.tests:
            low, high = (bound(values, CONFIDENCE, in_order=True) for bound in (lower_bound, upper_bound))
            outcome = OUTCOMES[self.tests[goal].verdict]
            # The test is a bound too: what it has decided, a bound that bets otherwise must not contradict.
            low = max(low, goal.value) if outcome is Outcome.MET else low
            high = min(high, goal.value) if outcome is Outcome.MISSED else high
            result = GoalResult(str(goal), outcome, float(values.mean()), low, high)
        else:
            inside = goal.members(columns, len(values), facts)
            result = target_result(goal, np.where(inside, values, np.nan))
        if self.sampled and result.outcome is Outcome.MET:
            return GoalResult(
                result.text, Outcome.UNDECIDED, result.value, result.low, result.high, ROWS_AS_QUERIES
            )
        return result

    def more_queries(self, values: NDArray[np.float64]) -> int | None:
        """About how many more queries would decide the targets that are open; None if none is or can be.

        Args:
            values: recall of the scored queries, which more of them are thought to resemble.
        """
        if not len(values):
            return None

        def advance(test: SequentialTest, random: np.random.Generator) -> None:
            test.update(random.choice(values, BATCH))

        return most_needed(self.tests.values(), advance)


def most_needed(tests: Iterable[Test], advance: Callable[[Test, np.random.Generator], object]) -> int | None:
    """What the slowest of the undecided tests needs; None if all are decided, or one never is."""
    undecided = [each for each in tests if each.verdict is SequentialVerdict.UNDECIDED]
    needed = [more_to_decide(each, advance) for each in undecided]
    return None if not needed or None in needed else max(each for each in needed if each is not None)


class Latencies:
    """Latencies of single calls as evidence for budgets."""

    def __init__(self, milliseconds: NDArray[np.float64]) -> None:
        self.milliseconds = milliseconds

    def estimate(self, goal: Goal) -> GoalEstimate | None:
        """A percentile with the order statistics that bound it; None for other costs."""
        if not isinstance(goal, Budget) or goal.name not in PERCENTILES or not len(self.milliseconds):
            return None
        share, in_order = PERCENTILES[goal.name], np.sort(self.milliseconds)
        lower, upper = quantile_ranks(len(in_order), share, 2 * CONFIDENCE - 1)
        low = None if lower is None else float(in_order[lower])
        high = None if upper is None else float(in_order[upper])
        return GoalEstimate(quantile(in_order, share), low, high, sampled=True)


def latency_percentiles(milliseconds: NDArray[np.float64]) -> dict[str, float | None]:
    """p50, p95 and p99; None for those that lie beyond the slowest of so few calls."""
    found: dict[str, float | None] = {}
    for name in ("p50", "p95", "p99"):
        share, n = PERCENTILES[name], len(milliseconds)
        found[name] = quantile(milliseconds, share) if n * (1 - share) >= 1 - 1e-9 else None
    return found


def _is_sequential(goal: Target) -> bool:
    return (
        goal.measure == Recall(goal.measure.k)
        and goal.percentile is None
        and goal.segment is None
        and 0 < goal.value < 1
    )


def require_measurable(goal: Goal, k: int) -> None:
    """Refuse goals that a probe with this k cannot judge."""
    if isinstance(goal, Budget):
        if goal.name not in PERCENTILES:
            raise UsageError(
                f"{goal}: a probe measures recall and latency. Accepted: p95 <= 20ms and the like"
            )
        return
    if goal.relevance is not None or goal.measure != Recall(goal.measure.k):
        raise UsageError(f"{goal}: a probe measures recall@k. Accepted: recall@{k} >= 0.95 and the like")
    if goal.measure.k != k:
        raise UsageError(f"{goal}: this probe measures recall@{k}. Add --at {goal.measure.k}")
