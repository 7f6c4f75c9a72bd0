"""Recall assertions of a test session, as they pass from the test to the report."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from recallatk.core.judgments import GoalResult, Outcome
from recallatk.core.measured import Mean

if TYPE_CHECKING:
    from collections.abc import Mapping


class AskedQuery(NamedTuple):
    """A query with its recall."""

    query: str
    recall: float
    baseline: float | None = None
    """Recall of the same query in the baseline; None without one."""


@dataclass(frozen=True)
class RecallAssertion:
    """One recall assertion: what was asserted, what was measured, and what helps where it failed."""

    name: str
    """Id of the test, with a name or number where it asserts several times."""
    passed: bool
    outcome: str
    """PASS, FAIL, UNDECIDED, or ERROR if nothing could be measured."""
    searched: str = ""
    """The function, or the class of the index."""
    setting: str = ""
    k: int | None = None
    recall: Mean | None = None
    available: int = 0
    """Number of queries of the dataset."""
    goals: tuple[GoalResult, ...] = ()
    baseline: float | None = None
    """Recall of the baseline; None without one."""
    worst: tuple[AskedQuery, ...] = ()
    advice: tuple[str, ...] = ()
    """What the misses have in common, or the error."""

    def to_dict(self) -> dict[str, Any]:
        """The assertion as plain values, which pass between processes."""
        found = asdict(self)
        found["goals"] = [each.to_dict() for each in self.goals]
        found["worst"] = [list(each) for each in self.worst]
        found["advice"] = list(self.advice)
        return found

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> RecallAssertion:
        """The inverse of `to_dict`."""
        recall = None if stored["recall"] is None else Mean(**stored["recall"])
        goals = tuple(GoalResult(**{**each, "outcome": Outcome(each["outcome"])}) for each in stored["goals"])
        worst = tuple(AskedQuery(*each) for each in stored["worst"])
        return cls(
            **{**stored, "recall": recall, "goals": goals, "worst": worst, "advice": tuple(stored["advice"])}
        )
