"""The goals of one setting, tested against its baselines while its queries are answered."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from recallatk.goals.against_baseline import SettingBesideBaseline
from recallatk.goals.budget import Budget
from recallatk.goals.relative import RelativeGoal, require_reachable
from recallatk.goals.sequential_goals import FINAL_CONFIDENCE, SequentialGoal, is_sequential

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from recallatk.analysis.sides import ComparedSide, SideSetting
    from recallatk.goals.gated import GatedGoal
    from recallatk.goals.grammar import Goal
    from recallatk.goals.target import Target


# What a build tells without any query; other costs need full trials.
_COSTS_OF_BUILDS = ("memory", "size", "build")


@dataclass(frozen=True, eq=False)
class BaselineSetting:
    """The setting of one baseline that a candidate is judged against."""

    side: ComparedSide
    setting: SideSetting
    label: str = ""
    """What to put before the names of settings; empty for the baseline itself."""


class SettingTests:
    """Goals of one setting against one baseline.

    Args:
        goals: the goals, absolute or relative.
        described: the side that knows columns and weights of the queries.
        baseline: the setting of the baseline; None if every goal is absolute.
    """

    def __init__(
        self, goals: Sequence[Goal | RelativeGoal], described: ComparedSide, baseline: BaselineSetting | None
    ) -> None:
        self.goals, self.described, self.baseline = tuple(goals), described, baseline
        weights = described.weights
        self.weights = None if weights is None else weights.values
        heaviest = 1.0 if self.weights is None else float(self.weights.max())
        self.tests = {
            goal: SequentialGoal(goal, heaviest=heaviest)
            for goal in self.goals
            if not isinstance(goal, Budget) and is_sequential(goal)
        }
        self._before = {goal: self._of_baseline(goal) for goal in self.tests}

    def _of_baseline(self, goal: Target | RelativeGoal) -> NDArray[np.float64] | None:
        """The baseline's values of a relative goal; one that cannot be met is refused before measuring."""
        if not isinstance(goal, RelativeGoal) or isinstance(goal.goal, Budget) or self.baseline is None:
            return None
        setting = self.baseline.setting
        found = SettingBesideBaseline(self.described, setting, setting).values_of(setting, goal.goal)
        if found is None or np.isnan(found).all():
            return None
        require_reachable(goal, float(np.nanmean(found)))
        return np.asarray(found[0], np.float64)

    @property
    def stops(self) -> bool:
        """Whether tests and the build can decide every goal, so that asking may end before the last query."""
        measured = all(
            self._before[each] is not None for each in self.tests if isinstance(each, RelativeGoal)
        )
        tested = all(
            each in self.tests or (isinstance(kind := _kind(each), Budget) and kind.name in _COSTS_OF_BUILDS)
            for each in self.goals
        )
        one_build = self.baseline is None or len(self.baseline.setting.builds) == 1
        return tested and measured and one_build

    @property
    def decided(self) -> bool:
        """Whether every goal is decided."""
        return self.stops and all(each.decided for each in self.tests.values())

    def take(self, candidate: SideSetting, which: NDArray[np.int64]) -> None:
        """The answers to further queries.

        Args:
            candidate: the setting with the values of all queries so far.
            which: the new ones, in the random order in which they were asked.
        """
        beside = SettingBesideBaseline(self.described, candidate, candidate)
        for goal, test in self.tests.items():
            target = _kind(goal)
            if isinstance(target, Budget):
                continue
            values, before = beside.values_of(candidate, target), self._before[goal]
            if values is None or test.decided or (isinstance(goal, RelativeGoal) and before is None):
                continue
            test.take(
                values[0][which],
                None if before is None else before[which],
                None if self.weights is None else self.weights[which],
            )

    def judged(self, candidate: SideSetting) -> tuple[GatedGoal, ...]:
        """Every goal: by its test if that decided, else by the bound over all queries that were asked."""
        known = candidate if self.baseline is None else self.baseline.setting
        whole = SettingBesideBaseline(self.described, known, candidate, FINAL_CONFIDENCE)
        label = "" if self.baseline is None else self.baseline.label
        found = []
        for goal in self.goals:
            test = None if isinstance(goal, Budget) else self.tests.get(goal)
            judged = whole.judged(goal) if test is None or not test.decided else test.judged()
            found.append(replace(judged, setting=f"{label}{candidate.label}"))
        return tuple(found)


def _kind(goal: Goal | RelativeGoal) -> Goal:
    return goal.goal if isinstance(goal, RelativeGoal) else goal
