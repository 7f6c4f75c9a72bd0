"""The verdict of a gate: every goal of every setting, with what decided it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from recallatk.core.judgments import GoalResult, Outcome, Verdict

if TYPE_CHECKING:
    from recallatk.analysis.compared_results import SideComparison
    from recallatk.analysis.sides import ComparedSide


@dataclass(frozen=True)
class GatedGoal:
    """One goal of one setting."""

    setting: str
    result: GoalResult
    baseline: float | None = None
    """The value of the baseline; None for goals without one."""
    limit: float | None = None
    """The value to reach or stay within."""
    queries: int | None = None
    """Number of queries that decided it; None for costs."""
    needed: int | None = None
    """About how many more queries would decide it; None if it is decided or that is not known."""


@dataclass(frozen=True)
class Gated:
    """The verdict on a candidate against its baseline."""

    baseline: str | None
    """None if no goal needs one."""
    candidate: str
    goals: tuple[GatedGoal, ...]
    compared: SideComparison | None
    """None without a baseline."""
    asked: int | None = None
    """Number of queries that a gate asked, over all settings; None if it judged what was recorded."""
    asked_of: int | None = None
    """Number of queries that there are, over all settings."""
    without_baseline: tuple[str, ...] = ()
    """Settings of the candidate that a baseline lacks, so that no relative goal can be judged for them."""
    measured: ComparedSide | None = field(default=None, repr=False)
    """What was judged."""

    @property
    def verdict(self) -> Verdict:
        """PASS if all goals are met, FAIL if one is missed, else UNDECIDED."""
        return Verdict(tuple(each.result for each in self.goals))

    @property
    def stopped(self) -> bool:
        """Whether it stopped asking before the last query, because every goal was decided."""
        return self.asked is not None and self.asked != self.asked_of

    @property
    def queries(self) -> int:
        """The largest number of queries that decided a goal."""
        return max((each.queries or 0 for each in self.goals), default=0)

    @property
    def needed(self) -> int | None:
        """About how many more queries would decide all goals; None if that is not known."""
        undecided = [each for each in self.goals if each.result.outcome is Outcome.UNDECIDED]
        known = [each.needed for each in undecided if each.needed is not None]
        return max(known) if known and len(known) == len(undecided) else None
