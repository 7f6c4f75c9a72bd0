"""The costs of one setting of a tuning, as evidence for budgets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from recallatk.goals.budget import Budget
from recallatk.goals.evaluation import Estimate

if TYPE_CHECKING:
    from recallatk.core.tuned import Candidate
    from recallatk.goals.grammar import Goal


@dataclass(frozen=True)
class Costs:
    """What a setting was measured to cost; latencies count by their value, as in the choice."""

    candidate: Candidate

    def estimate(self, goal: Goal) -> Estimate | None:
        """The cost that a budget is about; None for targets."""
        return Estimate(goal.of(self.candidate)) if isinstance(goal, Budget) else None
