"""Relative goals: a measure against its own value in a baseline, such as `recall@10 >= baseline - 0.01`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from recallatk.analysis.measures.base import plain
from recallatk.errors import UsageError
from recallatk.goals.budget import Budget, limit_of
from recallatk.goals.target import ROUNDING, Target
from recallatk.units import parse_share

_BASELINE = re.compile(
    r"(?:(?P<factor>[0-9]{1,9}(?:\.[0-9]{1,12})?|\.[0-9]{1,12})\s*[x×*]\s*)?baseline"
    r"(?:\s*(?P<sign>[-+\u2212])\s*(?P<shift>.+))?",
    re.IGNORECASE | re.DOTALL,
)


@dataclass(frozen=True)
class RelativeGoal:
    """A goal whose value is `factor` times that of the baseline, plus `shift`."""

    goal: Target | Budget
    """What is measured; its own value means nothing."""
    factor: float = 1.0
    shift: float = 0.0
    """In the unit of the goal: a share, milliseconds, seconds of building, bytes, queries per second."""

    @property
    def text(self) -> str:
        """The goal in the grammar of goals."""
        value = "baseline" if self.factor == 1 else f"{plain(self.factor)}x baseline"
        if self.shift:
            size = abs(self.shift)
            amount = self.goal.spelled(size) if isinstance(self.goal, Budget) else plain(size)
            value += f" {'-' if self.shift < 0 else '+'} {amount}"
        return self.goal.stated(value)

    def __str__(self) -> str:
        return self.text

    @property
    def at_least(self) -> bool:
        """Whether more is better."""
        return self.goal.at_least

    def limit(self, baseline: float) -> float:
        """The value to reach or stay within, given that of the baseline."""
        return self.factor * baseline + self.shift


def require_reachable(goal: RelativeGoal, baseline: float) -> None:
    """Refuse a limit on quality that no candidate can reach, given the value of the baseline."""
    kind = goal.goal
    if isinstance(kind, Budget):
        return
    limit = goal.limit(baseline)
    if goal.at_least and kind.measure.bounded and limit > 1 + ROUNDING:
        raise UsageError(
            f"goal '{goal}' cannot be met: the baseline has {baseline:.4f}, so the limit is {limit:.4f}, and "
            f"{kind.subject} is at most 1. Accepted: {_examples(kind)}"
        )
    if not goal.at_least and limit < -ROUNDING:
        raise UsageError(
            f"goal '{goal}' cannot be met: the baseline has {baseline:.4f}, so the limit is {limit:.4f}, and "
            f"{kind.subject} is at least 0. Accepted: {_examples(kind)}"
        )


def is_relative(value: str) -> bool:
    """Whether the value of a goal names a baseline."""
    return "baseline" in value.lower()


def relative_to_baseline(goal: Target | Budget, value: str) -> RelativeGoal:
    """Parse the value of a relative goal.

    Args:
        goal: what is measured.
        value: such as `baseline - 0.01`, `1.2x baseline` or `baseline + 5ms`.
    """
    found = _BASELINE.fullmatch(value.strip())
    if found is None:
        raise UsageError(f"{value!r}. Accepted: {_examples(goal)}")
    factor = 1.0 if found["factor"] is None else float(found["factor"])
    if factor == 0:
        raise UsageError(f"{value!r}: a factor of 0. Accepted: {_examples(goal)}")
    shift = 0.0
    if found["shift"] is not None:
        amount = found["shift"].strip()
        shift = limit_of(goal.name, amount) if isinstance(goal, Budget) else parse_share(amount)
        shift = shift if found["sign"] == "+" else -shift
    if isinstance(goal, Target) and goal.measure.bounded and abs(shift) >= 1:
        raise UsageError(f"{value!r}: a difference of {plain(abs(shift))}. Accepted: {_examples(goal)}")
    return RelativeGoal(goal, factor, shift)


def _examples(goal: Target | Budget) -> str:
    if isinstance(goal, Target):
        forms = ["baseline - 0.01", "0.99x baseline"] if goal.at_least else ["baseline + 0.01"]
    else:
        amount = {"qps": "100", "memory": "100MiB", "size": "100MiB", "build": "1min"}.get(goal.name, "2ms")
        forms = [
            f"{'0.9' if goal.at_least else '1.2'}x baseline",
            f"baseline {'-' if goal.at_least else '+'} {amount}",
        ]
    return " or ".join(goal.stated(each) for each in forms)
