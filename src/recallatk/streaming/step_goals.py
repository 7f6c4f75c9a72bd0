"""Goals of a replay, judged at one of its searches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from recallatk.analysis.latency import PERCENTILES, percentile, percentile_interval
from recallatk.core.judgments import Verdict
from recallatk.errors import UsageError
from recallatk.goals import Target, parse_goal
from recallatk.goals.evaluation import GoalEstimate, evaluate, target_estimate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from recallatk.analysis.measures import Measure
    from recallatk.goals import Goal
    from recallatk.streaming.step_scores import StepRecord


def read_goals(texts: Sequence[str]) -> tuple[Goal, ...]:
    """Parse goals; those that a replay cannot measure are refused."""
    found = tuple(parse_goal(each) for each in texts)
    for goal in found:
        if isinstance(goal, Target):
            if goal.relevance is not None or goal.segment is not None or goal.measure.needs_scores:
                raise UsageError(
                    f"{goal}: a replay judges recall over all queries. Accepted: recall@10 >= 0.9"
                )
        elif goal.name == "qps":
            raise UsageError(f"{goal}: a replay measures no throughput. Accepted: p95 <= 20ms and the like")
    return found


def measures_of(usual: Sequence[Measure], goals: Sequence[Goal]) -> tuple[Measure, ...]:
    """The measures to compute, the first of which decay and recovery are of."""
    wanted = [each.measure for each in goals if isinstance(each, Target)]
    return tuple({str(each): each for each in (*usual, *wanted)}.values())


def verdict_at(goals: Sequence[Goal], record: StepRecord, build_seconds: float | None) -> Verdict:
    """The goals at one search."""
    return Verdict(evaluate(goals, _StepEvidence(record, build_seconds)))


class _StepEvidence:
    def __init__(self, record: StepRecord, build_seconds: float | None) -> None:
        self.record, self.build_seconds = record, build_seconds

    def estimate(self, goal: Goal) -> GoalEstimate | None:
        """The value that a goal constrains; None if it was not measured."""
        record = self.record
        if isinstance(goal, Target):
            return target_estimate(goal, np.asarray(record.values[str(goal.measure)]))
        if goal.name in PERCENTILES:
            share, lasted = PERCENTILES[goal.name], record.latencies_ns
            return GoalEstimate(percentile(lasted, share), *percentile_interval(lasted, share), sampled=True)
        costs = {"memory": record.memory_bytes, "size": record.size_bytes, "build": self.build_seconds}
        return GoalEstimate(costs[goal.name])
