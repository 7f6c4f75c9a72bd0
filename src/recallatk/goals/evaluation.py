"""The evaluation of goals: met, missed, undecided or not measured, and one verdict on all of them."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from recallatk.analysis.betting import lower_bound, upper_bound
from recallatk.analysis.distribution import scored_values, weighted_mean
from recallatk.analysis.intervals import mean_interval, quantile, quantile_interval
from recallatk.core.judgments import GoalResult, Outcome
from recallatk.goals.budget import Budget

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from recallatk.core.tuned import Candidate
    from recallatk.goals.grammar import Goal
    from recallatk.goals.target import Target

# Confidence of each of the two one-sided bounds that decide a goal.
CONFIDENCE = 0.95
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


def target_result(
    target: Target, values: NDArray[np.float64], weights: NDArray[np.float64] | None = None
) -> GoalResult:
    """The outcome of a target, from the measure or loss of each query."""
    return _result(target, target_estimate(target, values, weights))


def _result(goal: Goal, found: GoalEstimate | None) -> GoalResult:
    return GoalResult(str(goal), Outcome.NOT_MEASURED) if found is None else decided(goal, found)


def decided(
    goal: Goal, found: GoalEstimate, *, text: str | None = None, limit: float | None = None
) -> GoalResult:
    """The outcome of a goal from its estimate.

    Args:
        goal: says whether more is better, and the limit.
        found: the value with its bounds.
        text: how the goal is written, if its value is relative.
        limit: the value to reach or stay within; by default that of the goal.
    """
    if found.value is None:
        return GoalResult(text or str(goal), Outcome.NOT_MEASURED)
    outcome = _outcome(goal.limit if limit is None else limit, found, at_least=goal.at_least)
    return GoalResult(text or str(goal), outcome, found.value, found.low, found.high, found.note)


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


def target_estimate(
    target: Target,
    values: NDArray[np.float64],
    weights: NDArray[np.float64] | None = None,
    confidence: float = CONFIDENCE,
) -> GoalEstimate | None:
    """The value of a target with its bounds, from the measure or loss of each query.

    Args:
        target: the target.
        values: one value per query; NaN for queries that do not count.
        weights: how much each query counts; equally by default.
        confidence: of each of the two bounds.
    """
    there, counts = scored_values(values, weights)
    if not len(there):
        return None
    if target.percentile is not None:
        share = target.percentile / 100
        if counts is not None:
            return _weighted_quantile(there, share, counts, confidence)
        low, high = quantile_interval(there, share, 2 * confidence - 1) or (None, None)
        return GoalEstimate(quantile(there, share), low, high, sampled=True)
    mean = weighted_mean(there, counts)
    if target.relevance:
        least, most = _bounds((1 - there) / 2, counts, confidence)
        return GoalEstimate(mean, 1 - 2 * most, 1 - 2 * least, sampled=True)
    if target.measure.bounded:
        return GoalEstimate(mean, *_bounds(np.clip(there, 0.0, 1.0), counts, confidence), sampled=True)
    low, high = mean_interval(there, 2 * confidence - 1, counts) or (None, None)
    return GoalEstimate(mean, low, high, sampled=True)


def _bounds(
    values: NDArray[np.float64], weights: NDArray[np.float64] | None, confidence: float
) -> tuple[float, float]:
    return lower_bound(values, confidence, weights=weights), upper_bound(values, confidence, weights=weights)


def _weighted_quantile(
    values: NDArray[np.float64], share: float, weights: NDArray[np.float64], confidence: float
) -> GoalEstimate:
    """The value that all but a share of the weight reaches, with bounds from those of the weight that does.

    The quantile is at least v if more than 1 - share of the weight has v or more.
    """
    distinct = np.unique(values)

    def reached(place: int) -> NDArray[np.float64]:
        return np.asarray(values >= distinct[place], np.float64)

    def last(enough: Callable[[int], bool]) -> int:
        """How many of the distinct values, from the lowest, are reached by enough of the weight."""
        return bisect_left(range(len(distinct)), True, key=lambda place: not enough(place))

    needed = 1 - share - _ROUNDING
    found = last(lambda place: weighted_mean(reached(place), weights) >= needed)
    sure = last(lambda place: lower_bound(reached(place), confidence, weights=weights) >= needed)
    possible = last(lambda place: upper_bound(reached(place), confidence, weights=weights) >= needed)
    return GoalEstimate(
        float(distinct[max(0, found - 1)]),
        0.0 if sure == 0 else float(distinct[sure - 1]),
        1.0 if possible == len(distinct) else float(distinct[max(0, possible - 1)]),
        sampled=True,
    )


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
