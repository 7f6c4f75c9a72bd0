"""Goals on quality that are tested query by query, so that asking may stop as soon as they are decided."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from recallatk.analysis.betting import SequentialTest, SequentialVerdict, lower_bound, upper_bound
from recallatk.analysis.distribution import scored_values, weighted_mean
from recallatk.analysis.intervals import quantile
from recallatk.core.judgments import GoalResult, Outcome
from recallatk.goals.budget import Budget
from recallatk.goals.evaluation import CONFIDENCE
from recallatk.goals.gated import GatedGoal
from recallatk.goals.relative import RelativeGoal

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recallatk.goals.grammar import Goal
    from recallatk.goals.target import Target

    Floats = NDArray[np.float64]

OUTCOMES = {
    SequentialVerdict.PASS: Outcome.MET,
    SequentialVerdict.FAIL: Outcome.MISSED,
    SequentialVerdict.UNDECIDED: Outcome.UNDECIDED,
}
EARLY_ALPHA = 0.01
"""Error probability of a test that may stop before all queries are asked."""
FINAL_CONFIDENCE = CONFIDENCE + EARLY_ALPHA
"""Confidence of the bound over all queries, so that both together err in at most 5 %."""


def is_sequential(goal: Goal | RelativeGoal) -> bool:
    """Whether a goal can be decided query by query: a mean of values from 0 to 1, or a share of queries."""
    if isinstance(goal, Budget):
        return False
    if isinstance(goal, RelativeGoal):
        return (
            not isinstance(goal.goal, Budget)
            and goal.goal.measure.bounded
            and goal.at_least
            and goal.goal.percentile is None
            and -goal.factor < goal.shift < 1
        )
    return goal.measure.bounded and goal.relevance is None and goal.at_least and 0 < goal.threshold < 1


class SequentialGoal:
    """One goal and its test.

    The difference of a query to its limit, factor x baseline + shift, lies between -factor - shift and
    1 - shift; the test takes it scaled to the range from 0 to 1.

    Args:
        goal: a goal that `is_sequential`.
        alpha: probability that a verdict is wrong, of each of the two.
        heaviest: the largest weight of any query.
    """

    def __init__(
        self, goal: Target | RelativeGoal, alpha: float = EARLY_ALPHA, heaviest: float = 1.0
    ) -> None:
        self.goal = goal
        relative = isinstance(goal, RelativeGoal)
        # Most differences are 0, and only large bets gain on those.
        self.test = SequentialTest(_threshold(goal), alpha, heaviest, even=relative)
        self._taken: list[Floats] = []
        self._raw: list[Floats] = []
        self._before: list[Floats] = []
        self._weights: list[Floats] = []

    @property
    def decided(self) -> bool:
        """Whether more queries cannot change the verdict."""
        return self.test.verdict is not SequentialVerdict.UNDECIDED

    @property
    def outcome(self) -> Outcome:
        """What the test says so far."""
        return OUTCOMES[self.test.verdict]

    def take(self, values: Floats, baseline: Floats | None = None, weights: Floats | None = None) -> None:
        """The measure of further queries; NaN does not count.

        Args:
            values: one value per query, in the random order in which they were asked.
            baseline: those of the baseline, for a goal relative to it.
            weights: how much each query counts; equally by default.
        """
        there = ~np.isnan(values) if baseline is None else ~np.isnan(values) & ~np.isnan(baseline)
        counts = None if weights is None else weights[there]
        before = None if baseline is None else baseline[there]
        scaled = self._scaled(values[there], before)
        self._taken.append(scaled)
        self._raw.append(values[there])
        if before is not None:
            self._before.append(before)
        if counts is not None:
            self._weights.append(counts)
        self.test.update(scaled, counts)

    def _scaled(self, values: Floats, baseline: Floats | None) -> Floats:
        goal = self.goal
        if not isinstance(goal, RelativeGoal):
            return goal.shaped(np.clip(values, 0.0, 1.0))
        assert baseline is not None  # noqa: S101 - a relative goal has a baseline
        found = (values - goal.factor * baseline + goal.factor) / (1 + goal.factor)
        return np.asarray(np.clip(found, 0.0, 1.0), np.float64)

    def judged(self) -> GatedGoal:
        """The goal by its test, with bounds that hold whenever one looks."""
        goal, values = self.goal, np.concatenate(self._raw)
        weights = np.concatenate(self._weights) if self._weights else None
        taken, counts = scored_values(np.concatenate(self._taken), weights)
        if isinstance(goal, RelativeGoal):
            before = weighted_mean(*scored_values(np.concatenate(self._before), weights))
            limit, value = goal.limit(before), weighted_mean(*scored_values(values, weights))
        else:
            before, limit = None, goal.limit
            value = weighted_mean(*scored_values(values, weights))
            if goal.percentile is not None:
                # The test is of the share of queries, which bounds no value.
                value = quantile(values, goal.percentile / 100)
                result = GoalResult(str(goal), self.outcome, value)
                return GatedGoal("", result, None, limit, len(values))
        low, high = (
            limit + self._width * (bound(taken, CONFIDENCE, weights=counts, in_order=True) - self.test.target)
            for bound in (lower_bound, upper_bound)
        )
        # The test is a bound too: what it has decided, a bound that bets otherwise must not contradict.
        low = max(low, limit) if self.outcome is Outcome.MET else low
        high = min(high, limit) if self.outcome is Outcome.MISSED else high
        result = GoalResult(str(goal), self.outcome, value, max(0.0, low), min(1.0, high))
        return GatedGoal("", result, before, limit, len(values))

    @property
    def _width(self) -> float:
        return 1 + self.goal.factor if isinstance(self.goal, RelativeGoal) else 1.0


def _threshold(goal: Target | RelativeGoal) -> float:
    if isinstance(goal, RelativeGoal):
        return (goal.factor + goal.shift) / (1 + goal.factor)
    return goal.threshold
