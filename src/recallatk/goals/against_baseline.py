"""Goals of a setting beside its baseline: non-inferiority of quality, and ratios of costs."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from recallatk.analysis.build_variance import build_error, shared_build_error
from recallatk.analysis.cost_ratios import cost_over_builds, cost_ratios, latency_over_builds
from recallatk.analysis.distribution import scored_values, weighted_mean
from recallatk.analysis.intervals import quantile
from recallatk.analysis.measures import Robustness
from recallatk.analysis.paired_bounds import paired_bounds, queries_to_exclude, unseen_share
from recallatk.analysis.sides import same_indexes, same_measurement
from recallatk.analysis.unpaired import percentile_difference
from recallatk.core.judgments import GoalResult, Outcome
from recallatk.errors import UsageError
from recallatk.goals.budget import LATENCIES, Budget
from recallatk.goals.evaluation import CONFIDENCE, GoalEstimate, decided, target_estimate
from recallatk.goals.gated import GatedGoal
from recallatk.goals.relative import RelativeGoal, require_reachable
from recallatk.units import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from recallatk.analysis.intervals import Interval
    from recallatk.analysis.sides import ComparedSide, SideSetting
    from recallatk.goals.grammar import Goal
    from recallatk.goals.target import Target

    Floats = NDArray[np.float64]

# Beyond this many more queries, the value lies at the limit.
_MOST_NEEDED = 1_000_000
_ONE_ROUND = "one round has no interval: measure several, as `[measure] rounds = 5` does"
SAME = "the same measurement as the baseline"
_ACROSS = "measured across runs, where the pace of the machine differs: measure both settings in one run"


@dataclass(frozen=True, eq=False)
class SettingBesideBaseline:
    """Measurements of one setting and of the same in the baseline.

    Args:
        described: the side that knows columns and weights of the queries.
        baseline: the setting of the baseline.
        candidate: the setting that is judged.
    """

    described: ComparedSide
    baseline: SideSetting
    candidate: SideSetting
    confidence: float = CONFIDENCE
    """Of each bound on quality."""

    def judged(self, goal: Goal | RelativeGoal) -> GatedGoal:
        """One goal; NOT_MEASURED where a side lacks its measure, or there is no baseline to compare with."""
        if isinstance(goal, RelativeGoal):
            found = self._ratio(goal) if isinstance(goal.goal, Budget) else self._difference(goal, goal.goal)
        elif isinstance(goal, Budget):
            found = self._cost(goal)
        else:
            found = self._target(goal)
        missing = GatedGoal(self.candidate.label, GoalResult(str(goal), Outcome.NOT_MEASURED))
        return missing if found is None else replace(found, setting=self.candidate.label)

    def values_of(self, setting: SideSetting, target: Target) -> Floats | None:
        """(builds, queries) values of a target, NaN outside its segment."""
        values = setting.by_build(str(target.measure))
        if values is None and isinstance(target.measure, Robustness):
            recalls = setting.by_build(f"recall@{target.measure.k}")
            values = None if recalls is None else target.measure.of_recalls(recalls)
        if values is None or target.relevance is not None:
            return None
        if target.segment is None:
            return values
        side = self.described
        inside = target.members(side.columns, values.shape[1], side.facts)
        return np.where(inside[None], values, np.nan)

    @property
    def _weights(self) -> Floats | None:
        return None if self.described.weights is None else self.described.weights.values

    def _target(self, target: Target) -> GatedGoal | None:
        """An absolute target, of values averaged over builds, with the error of builds.

        A percentile of averages is that of no index, so that of the worst build counts.
        """
        values = self.values_of(self.candidate, target)
        if values is not None and target.percentile is not None:
            values = self._worst_build(target, values)
        found = (
            None
            if values is None
            else target_estimate(target, _averaged(values), self._weights, self.confidence)
        )
        if values is None or found is None:
            return None
        if target.percentile is None and len(values) > 1:
            found = _widened(found, values, self._weights)
        scored = int((~np.isnan(values).any(axis=0)).sum())
        result = decided(target, found)
        needed = _needed(found, target.limit, scored, at_least=target.at_least)
        return GatedGoal(
            "", result, None, target.limit, scored, needed if result.outcome is Outcome.UNDECIDED else None
        )

    def _worst_build(self, target: Target, values: Floats) -> Floats:
        """The values of the build whose percentile is the worst."""
        found = [target_estimate(target, each, self._weights) for each in values]
        known = [(each.value, place) for place, each in enumerate(found) if each and each.value is not None]
        if not known:
            return values[:1]
        _, place = min(known) if target.at_least else max(known)
        return values[place : place + 1]

    def _difference(self, goal: RelativeGoal, target: Target) -> GatedGoal | None:
        """Non-inferiority: the mean of candidate - factor x baseline - shift, query by query."""
        one, other = self.values_of(self.baseline, target), self.values_of(self.candidate, target)
        if one is None or other is None or one.shape[1] != other.shape[1]:
            return None
        unanswered = int((~np.isnan(one).any(axis=0) & np.isnan(other).any(axis=0)).sum())
        both = ~(np.isnan(one).any(axis=0) | np.isnan(other).any(axis=0))
        one, other = one[:, both], other[:, both]
        weights = None if self._weights is None else self._weights[both]
        if not both.any():
            return None
        if target.percentile is not None:
            return _whole(self._percentile(goal, target, one, other, weights), unanswered)
        means = [weighted_mean(*scored_values(_averaged(each), weights)) for each in (one, other)]
        require_reachable(goal, means[0])
        limit = goal.limit(means[0])
        if same_measurement(self.baseline, self.candidate):
            return _identical(goal, means[0], limit, int(both.sum()))
        low, high = self._bounds(goal, target, one, other, weights) or (None, None)
        distance = means[1] - limit
        shared = same_indexes(self.baseline, self.candidate)
        margin = _build_margin(goal.factor * one, other, weights, shared=shared)
        low = None if low is None else limit + distance - math.hypot(distance - low, margin)
        high = None if high is None else limit + distance + math.hypot(high - distance, margin)
        found = GoalEstimate(means[1], low, high, sampled=True)
        result = decided(goal.goal, found, text=str(goal), limit=limit)
        gated = _gated(goal, result, found, means[0], limit, int(both.sum()))
        return _whole(_unseen(gated, goal, one, other, self.confidence), unanswered)

    def _bounds(
        self, goal: RelativeGoal, target: Target, one: Floats, other: Floats, weights: Floats | None
    ) -> Interval | None:
        """Bounds of candidate - factor x baseline - shift, of values averaged over builds."""
        first, _ = scored_values(_averaged(one), weights)
        second, counts = scored_values(_averaged(other), weights)
        return paired_bounds(
            first, second, self.confidence, counts,
            factor=goal.factor, shift=goal.shift, lower_is_better=not target.at_least,
        )  # fmt: skip

    def _percentile(
        self, goal: RelativeGoal, target: Target, one: Floats, other: Floats, weights: Floats | None
    ) -> GatedGoal:
        """A percentile, by the paired bootstrap; only of one build each, without weights."""
        if weights is not None or len(one) > 1 or len(other) > 1 or target.percentile is None:
            raise UsageError(
                f"{goal}: a percentile relative to a baseline needs one build each, without weights"
            )
        share = target.percentile / 100
        first, second = quantile(one[0], share), quantile(other[0], share)
        require_reachable(goal, first)
        limit, queries = goal.limit(first), one.shape[1]
        if same_measurement(self.baseline, self.candidate):
            return _identical(goal, first, limit, queries)
        ends = percentile_difference(
            goal.factor * one[0] + goal.shift, other[0], share, 2 * self.confidence - 1
        )
        low, high = (None if each is None else limit + each for each in (ends.low, ends.high))
        if (other[0] >= one[0]).all():
            # Queries that lost, of which the sample may show none, would come first in the order of values.
            unseen = unseen_share(queries, self.confidence)
            least = quantile(other[0], share - unseen) if share > unseen else 0.0
            low = min(least, second if low is None else low)
            if np.array_equal(one, other):
                high = quantile(other[0], share + unseen) if share + unseen < 1 else 1.0
        found = GoalEstimate(second, low, high, sampled=True)
        result = decided(goal.goal, found, text=str(goal), limit=limit)
        return _gated(goal, result, found, first, limit, queries)

    def _ratio(self, goal: RelativeGoal) -> GatedGoal | None:
        found = {each.name: each for each in cost_ratios(self.baseline, self.candidate)}.get(goal.goal.name)
        if found is None:
            return self._same_index_cost(goal)
        limit, scale = goal.limit(found.first), found.first
        if found.interleaved and found.low is not None and found.high is not None:
            ends = GoalEstimate(found.ratio * scale, found.low * scale, found.high * scale, sampled=True)
        elif found.name in LATENCIES and found.timed:
            known = found.low is not None and found.high is not None
            low, high = ((found.low or 0) * scale, (found.high or 0) * scale) if known else (None, None)
            ends = GoalEstimate(found.second, low, high, sampled=True)
        else:
            ends = GoalEstimate(found.second)
        result = decided(goal.goal, ends, text=str(goal), limit=limit)
        if found.timed and not found.interleaved and result.outcome is not Outcome.MET:
            # A busy machine must not flip a verdict.
            result = replace(result, outcome=Outcome.UNDECIDED, note=_ACROSS)
        elif found.timed and found.interleaved and found.low is None:
            result = replace(result, outcome=Outcome.UNDECIDED, note=_ONE_ROUND)
        return GatedGoal("", result, found.first, limit)

    def _same_index_cost(self, goal: RelativeGoal) -> GatedGoal | None:
        """Memory, size and build time of settings that searched the same index."""
        name = goal.goal.name
        one, other = (cost_over_builds(name, each.builds) for each in (self.baseline, self.candidate))
        if one is None or other is None:
            return None
        limit = goal.limit(one)
        result = decided(goal.goal, GoalEstimate(other), text=str(goal), limit=limit)
        return GatedGoal("", result, one, limit)

    def _cost(self, budget: Budget) -> GatedGoal | None:
        # A setting counts by its worst build, as everywhere.
        found = None
        for each in self.candidate.builds:
            if budget.name in LATENCIES:
                ends = latency_over_builds(budget.name, [each])
                known = None if ends is None else GoalEstimate(*ends, sampled=True)
            else:
                value = cost_over_builds(budget.name, [each])
                known = None if value is None else GoalEstimate(value)
            if known is None or known.value is None:
                return None
            worse = found is None or found.value is None or (known.value < found.value) == budget.at_least
            found = known if worse else found
        return None if found is None else GatedGoal("", decided(budget, found), None, budget.limit)


def _identical(goal: RelativeGoal, value: float, limit: float, queries: int) -> GatedGoal:
    """A goal of one and the same measurement: nothing differs, in no other query either."""
    result = decided(goal.goal, GoalEstimate(value), text=str(goal), limit=limit)
    return GatedGoal("", replace(result, low=value, high=value, note=SAME), value, limit, queries)


def _gated(
    goal: RelativeGoal, result: GoalResult, found: GoalEstimate, baseline: float, limit: float, queries: int
) -> GatedGoal:
    """The goal with the number of queries that would decide it."""
    needed = None
    if result.outcome is Outcome.UNDECIDED:
        needed = _needed(found, limit, queries, at_least=goal.at_least)
    if not isinstance(goal.goal, Budget) and goal.goal.measure.bounded:
        low = None if result.low is None else max(result.low, 0.0)
        result = replace(result, low=low, high=None if result.high is None else min(result.high, 1.0))
    return GatedGoal("", result, baseline, limit, queries, needed)


def _unseen(found: GatedGoal, goal: RelativeGoal, one: Floats, other: Floats, confidence: float) -> GatedGoal:
    """Where no query lost: the number of queries that would exclude a loss that none has shown."""
    result, queries = found.result, one.shape[1]
    if result.value is None or found.limit is None or result.outcome is not Outcome.UNDECIDED:
        return found
    sign = 1 if goal.at_least else -1
    good = sign * (result.value - found.limit)
    if good <= 0 or not (sign * (_averaged(other) - _averaged(one)) >= 0).all():
        return found
    worst = goal.factor + goal.shift if goal.at_least else 1.0 - goal.shift
    needed = queries_to_exclude(good / (good + worst), confidence) - queries
    note = f"no loss in any of these {queries:,} queries, which are too few to exclude one that is rare"
    return replace(found, result=replace(result, note=note), needed=needed if needed > 0 else found.needed)


def _whole(found: GatedGoal | None, unanswered: int) -> GatedGoal | None:
    """A goal that is met on the answered queries alone is not met."""
    if found is None or not unanswered:
        return found
    queries = counted(unanswered, "query", "queries")
    note = f"the candidate did not answer {queries} that the baseline answered"
    met = found.result.outcome is Outcome.MET
    outcome = Outcome.UNDECIDED if met else found.result.outcome
    return replace(found, result=replace(found.result, outcome=outcome, note=note))


def _averaged(values: Floats) -> Floats:
    return np.asarray(values.mean(axis=0), np.float64)


def _build_margin(first: Floats, second: Floats, weights: Floats | None, *, shared: bool) -> float:
    """Half the width of the interval that the choice of builds causes; 0 with one build each."""
    from scipy.special import stdtrit

    means = [[weighted_mean(*scored_values(each, weights)) for each in side] for side in (first, second)]
    error = shared_build_error(*means) if shared else build_error(*means)
    return 0.0 if error is None else float(stdtrit(error.freedom, CONFIDENCE)) * error.size


def _widened(found: GoalEstimate, values: Floats, weights: Floats | None) -> GoalEstimate:
    """The estimate of values averaged over builds, with the error of builds added to its bounds."""
    from scipy.special import stdtrit

    means = np.array([weighted_mean(*scored_values(each, weights)) for each in values])
    margin = float(np.std(means, ddof=1)) / math.sqrt(len(means)) * float(stdtrit(len(means) - 1, CONFIDENCE))
    if found.value is None:
        return found
    low = None if found.low is None else found.value - math.hypot(found.value - found.low, margin)
    high = None if found.high is None else found.value + math.hypot(found.high - found.value, margin)
    return replace(found, low=low, high=high)


def _needed(found: GoalEstimate, limit: float, queries: int, *, at_least: bool) -> int | None:
    """About how many more queries would decide a goal, if the value stays as it is."""
    if found.value is None or found.low is None or found.high is None:
        return None
    distance = abs(found.value - limit)
    good = (found.value >= limit) == at_least
    width = found.value - found.low if good == at_least else found.high - found.value
    if distance * math.sqrt(_MOST_NEEDED) <= width:
        return None
    more = math.ceil(queries * (width / distance) ** 2) - queries
    return max(1, more) if more <= _MOST_NEEDED else None


def judged_settings(
    goals: Sequence[Goal | RelativeGoal], settings: Sequence[SettingBesideBaseline]
) -> tuple[GatedGoal, ...]:
    """Every goal of every setting; a goal that nothing measured is an error and never a pass."""
    found = tuple(each.judged(goal) for each in settings for goal in goals)
    require_measured(found, [each.candidate for each in settings])
    return found


def require_measured(found: Sequence[GatedGoal], candidates: Sequence[SideSetting]) -> None:
    """Refuse a goal that nothing measured."""
    missing = dict.fromkeys(each.result.text for each in found if each.result.outcome is Outcome.NOT_MEASURED)
    if missing:
        known = dict.fromkeys(name for each in candidates for name in each.measures)
        raise UsageError(
            f"not measured on both sides: {', '.join(missing)}. Measured: {', '.join(known) or 'nothing'}"
        )
