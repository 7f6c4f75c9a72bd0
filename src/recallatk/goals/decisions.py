"""Decisions during a search: targets by mean, sequential test or bound, and budgets by their limit.

`evaluation` judges one setting at the end. A search tests many settings, each with a share `alpha` of the
error probability, and stops sending queries once a target is decided. Values come from `Target.shaped`, one
array per target; weights, if any, are one array per target too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from recallatk.analysis.betting import SequentialTest, SequentialVerdict, is_at_least, lower_bound
from recallatk.analysis.distribution import scored_values, weighted_mean

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from recallatk.goals.budget import Budget
    from recallatk.goals.target import Target

    Values = Sequence[NDArray[np.float64]]
    Counts = Sequence[NDArray[np.float64]] | None


def means_reach(targets: Sequence[Target], values: Values, weights: Counts = None) -> bool:
    """Whether every mean reaches its threshold; targets without any value are ignored."""
    return all(
        not len(scored) or weighted_mean(scored, counts) >= target.threshold
        for target, (scored, counts) in zip(targets, _scored(values, weights), strict=True)
    )


def sequential_verdict(
    targets: Sequence[Target], values: Values, alpha: float, weights: Counts = None, heaviest: float = 1.0
) -> SequentialVerdict:
    """The verdict of one sequential test per target: FAIL if one fails, PASS if all pass.

    Args:
        targets: the targets.
        values: for each, the values so far, in the random order in which the queries were sent.
        alpha: probability of an error.
        weights: how much each query counts; equally by default.
        heaviest: the largest weight of all queries, sent or not.
    """
    # Weights that are equal so far still count by the heaviest, which may come later.
    counts = [np.ones(len(each)) for each in values] if weights is None else weights
    found = {
        _tested(target, each[~np.isnan(each)], its[~np.isnan(each)], alpha, heaviest)
        for target, each, its in zip(targets, values, counts, strict=True)
    }
    if SequentialVerdict.FAIL in found:
        return SequentialVerdict.FAIL
    return SequentialVerdict.PASS if found == {SequentialVerdict.PASS} else SequentialVerdict.UNDECIDED


def _tested(
    target: Target,
    scored: NDArray[np.float64],
    weights: NDArray[np.float64],
    alpha: float,
    heaviest: float,
) -> SequentialVerdict:
    if target.threshold >= 1:
        return SequentialVerdict.FAIL if (scored[weights > 0] < 1).any() else SequentialVerdict.UNDECIDED
    return SequentialTest(target.threshold, alpha, heaviest).update(scored, weights)


def bounds_clear(
    targets: Sequence[Target], values: Values, alpha: float, weights: Counts = None
) -> tuple[bool, NDArray[np.float64]]:
    """Whether the lower bound of every mean reaches its threshold, and the bounds."""
    there = _scored(values, weights)
    bounds = np.array([lower_bound(scored, 1 - alpha, weights=counts) for scored, counts in there])
    return bool(np.all(bounds >= [each.threshold for each in targets])), bounds


def highest_bounds(queries: Sequence[int], alpha: float, weights: Counts = None) -> list[float]:
    """The lower bound that each target would have if every answer to its queries were right.

    Args:
        queries: the number of queries of each target.
        alpha: probability of an error.
        weights: how much each query of each target counts; equally by default.
    """
    counts = [None] * len(queries) if weights is None else weights
    pairs = zip(queries, counts, strict=True)
    return [lower_bound(np.ones(number), 1 - alpha, weights=its) for number, its in pairs]


def confirms(targets: Sequence[Target], values: Values, alpha: float, weights: Counts = None) -> bool:
    """Whether every mean reaches its threshold and no sequential test reports a miss."""
    for target, (scored, counts) in zip(targets, _scored(values, weights), strict=True):
        if not len(scored) or weighted_mean(scored, counts) < target.threshold:
            return False
        if (
            0 < target.threshold < 1
            and is_at_least(scored, target.threshold, alpha, counts)[0] is SequentialVerdict.FAIL
        ):
            return False
    return True


def broken_budget(
    budgets: Sequence[Budget], costs: Mapping[str, float | None], margin: float = 1.0
) -> tuple[Budget, float] | None:
    """The first exceeded budget and its cost; an unmeasured cost exceeds no budget.

    Args:
        budgets: the budgets, in order.
        costs: costs by the name of their budget, in its unit.
        margin: the factor by which a predicted cost may exceed its limit.
    """
    for budget in budgets:
        value = costs.get(budget.name)
        if value is None:
            continue
        if not budget.within(value * margin if budget.at_least else value / margin):
            return budget, value
    return None


def _scored(values: Values, weights: Counts) -> list[tuple[NDArray[np.float64], NDArray[np.float64] | None]]:
    """For each target the values that count, with their weights where these differ."""
    counts = [None] * len(values) if weights is None else weights
    return [scored_values(each, its) for each, its in zip(values, counts, strict=True)]
