"""The evaluation of goals: met, missed, undecided or not measured, and one verdict on all of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from recallatk.analysis.betting import lower_bound, upper_bound
from recallatk.analysis.distribution import plain_mean
from recallatk.analysis.intervals import mean_interval, quantile, quantile_interval
from recallatk.core.judgments import GoalResult, Outcome
from recallatk.goals.budget import Budget

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from recallatk.core.tuned import Candidate
    from recallatk.goals.grammar import Goal
    from recallatk.goals.target import Target

# Confidence of each of the two one-sided bounds that decide a goal.
CONFIDENCE = 0.95
_BOTH_SIDES = 2 * CONFIDENCE - 1
_ROUNDING = 1e-12


@dataclass(frozen=True)
class GoalEstimate:
    """A measured value with the bounds that decide a goal; None for a bound that the sample cannot give."""

    value: float | None
    low: float | None = None
    high: float | None = None
    sampled: bool = False
    """Whether the value is an estimate from a sample, so that its bounds decide instead of the value."""
    note: str = ""
    """What a reader must know about the value."""


class GoalEvidence(Protocol):
    """Measurements of one setting."""

    def estimate(self, goal: Goal) -> GoalEstimate | None:
        """The value that a goal constrains; None if not measured."""


@dataclass(frozen=True)
class Costs:
    """Costs of one tuning setting as evidence for budgets; latencies have no bounds here."""

    candidate: Candidate

    def estimate(self, goal: Goal) -> GoalEstimate | None:
        """The cost that a budget constrains; None for targets."""
        return GoalEstimate(goal.of(self.candidate)) if isinstance(goal, Budget) else None


def evaluate(goals: Iterable[Goal], evidence: GoalEvidence) -> tuple[GoalResult, ...]:
    """The outcome of every goal."""
    return tuple(_result(goal, evidence.estimate(goal)) for goal in goals)


def target_result(target: Target, values: NDArray[np.float64]) -> GoalResult:
    """The outcome of a target, from the measure or loss of each query."""
    return _result(target, target_estimate(target, values))


def _result(goal: Goal, found: GoalEstimate | None) -> GoalResult:
    if found is None or found.value is None:
        return GoalResult(str(goal), Outcome.NOT_MEASURED)
    outcome = _outcome(goal.limit, found, at_least=goal.at_least)
    return GoalResult(str(goal), outcome, found.value, found.low, found.high, found.note)


def _outcome(limit: float, found: GoalEstimate, *, at_least: bool) -> Outcome:
    low = found.low if found.sampled else found.value
    high = found.high if found.sampled else found.value
    worst, best = (low, high) if at_least else (high, low)
    # 0.6 has no exact binary form, and 6 of 10 must reach it.
    slack = limit * _ROUNDING * (-1 if at_least else 1)
    if worst is not None and (worst >= limit + slack if at_least else worst <= limit + slack):
        return Outcome.MET
    if best is not None and (best < limit + slack if at_least else best > limit + slack):
        return Outcome.MISSED
    return Outcome.UNDECIDED


def target_estimate(target: Target, values: NDArray[np.float64]) -> GoalEstimate | None:
    """The value of a target with its bounds, from the measure or loss of each query."""
    there = values[~np.isnan(values)]
    if not len(there):
        return None
    if target.percentile is not None:
        share = target.percentile / 100
        low, high = quantile_interval(there, share, _BOTH_SIDES) or (None, None)
        return GoalEstimate(quantile(there, share), low, high, sampled=True)
    mean = plain_mean(there)
    if target.relevance:
        kept = (1 - there) / 2
        bounds = (1 - 2 * upper_bound(kept, CONFIDENCE), 1 - 2 * lower_bound(kept, CONFIDENCE))
        return GoalEstimate(mean, *bounds, sampled=True)
    if target.measure.bounded:
        clipped = np.clip(there, 0.0, 1.0)
        return GoalEstimate(
            mean, lower_bound(clipped, CONFIDENCE), upper_bound(clipped, CONFIDENCE), sampled=True
        )
    low, high = mean_interval(there, _BOTH_SIDES) or (None, None)
    return GoalEstimate(mean, low, high, sampled=True)


def severity(goals: Sequence[Goal], results: Sequence[GoalResult]) -> tuple[list[int], list[float]]:
    """Sort key for several builds of one setting; the worst build has the greatest key.

    Outcomes are compared first, the worst outcome before others; ties are broken by the deciding values, goal
    by goal.
    """
    outcomes = sorted((_SEVERITY[each.outcome] for each in results), reverse=True)
    return outcomes, [_shortfall(goal, each) for goal, each in zip(goals, results, strict=True)]


def _shortfall(goal: Goal, result: GoalResult) -> float:
    bound = result.low if goal.at_least else result.high
    figure = result.value if bound is None else bound
    if figure is None:
        return 0.0
    return -figure if goal.at_least else figure


_SEVERITY = {Outcome.MET: 0, Outcome.NOT_MEASURED: 1, Outcome.UNDECIDED: 2, Outcome.MISSED: 3}
