"""Decisions during a search: targets by mean, sequential test or bound, and budgets by their limit.

`evaluation` judges one setting at the end. A search tests many settings, each with a share `alpha` of the
error probability, and stops sending queries once a target is decided. Values come from `Target.shaped`, one
array per target.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from recallatk.analysis.betting import SequentialTest, SequentialVerdict, is_at_least, lower_bound

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from recallatk.goals.budget import Budget
    from recallatk.goals.target import Target

    Values = Sequence[NDArray[np.float64]]


def means_reach(targets: Sequence[Target], values: Values) -> bool:
    """Whether every mean reaches its threshold; targets without any value are ignored."""
    return all(
        np.isnan(each).all() or bool(np.nanmean(each) >= target.threshold)
        for target, each in zip(targets, values, strict=True)
    )


def sequential_verdict(targets: Sequence[Target], values: Values, alpha: float) -> SequentialVerdict:
    """The verdict of one sequential test per target: FAIL if one fails, PASS if all pass."""
    found = {_tested(*each, alpha) for each in zip(targets, map(_scored, values), strict=True)}
    if SequentialVerdict.FAIL in found:
        return SequentialVerdict.FAIL
    return SequentialVerdict.PASS if found == {SequentialVerdict.PASS} else SequentialVerdict.UNDECIDED


def _tested(target: Target, scored: NDArray[np.float64], alpha: float) -> SequentialVerdict:
    if target.threshold >= 1:
        return SequentialVerdict.FAIL if (scored < 1).any() else SequentialVerdict.UNDECIDED
    return SequentialTest(target.threshold, alpha).update(scored)


def bounds_clear(targets: Sequence[Target], values: Values, alpha: float) -> tuple[bool, NDArray[np.float64]]:
    """Whether the lower bound of every mean reaches its threshold, and the bounds."""
    bounds = np.array([lower_bound(_scored(each), 1 - alpha) for each in values])
    return bool(np.all(bounds >= [each.threshold for each in targets])), bounds


def confirms(targets: Sequence[Target], values: Values, alpha: float) -> bool:
    """Whether every mean reaches its threshold and no sequential test reports a miss."""
    for target, scored in zip(targets, map(_scored, values), strict=True):
        if not len(scored) or scored.mean() < target.threshold:
            return False
        if (
            0 < target.threshold < 1
            and is_at_least(scored, target.threshold, alpha)[0] is SequentialVerdict.FAIL
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


def _scored(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return values[~np.isnan(values)]
