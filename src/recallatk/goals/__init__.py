"""Goals: quality targets and cost budgets, with one grammar and one evaluation for every command."""

from recallatk.core.judgments import GoalResult, Outcome, Verdict
from recallatk.goals.budget import Budget
from recallatk.goals.evaluation import GoalEstimate, GoalEvidence, evaluate
from recallatk.goals.grammar import ACCEPTED, Goal, parse_goal, parse_goal_with_baseline, sort_goals
from recallatk.goals.relative import RelativeGoal
from recallatk.goals.target import Target, require_answerable

__all__ = [
    "ACCEPTED",
    "Budget",
    "Goal",
    "GoalEstimate",
    "GoalEvidence",
    "GoalResult",
    "Outcome",
    "RelativeGoal",
    "Target",
    "Verdict",
    "evaluate",
    "parse_goal",
    "parse_goal_with_baseline",
    "require_answerable",
    "sort_goals",
]
