"""Verdicts: the outcome of each goal, and of all goals together."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Outcome(StrEnum):
    """What the evidence says about one goal."""

    MET = "met"
    MISSED = "missed"
    UNDECIDED = "undecided"
    NOT_MEASURED = "not measured"


@dataclass(frozen=True)
class GoalResult:
    """One goal with its outcome, and the figure and bounds that decided it."""

    text: str
    outcome: Outcome
    value: float | None = None
    low: float | None = None
    high: float | None = None
    note: str = ""
    """Why it was not measured or not decided, where there is a reason to tell."""

    def to_dict(self) -> dict[str, Any]:
        """The result as JSON has it."""
        return {
            "text": self.text,
            "outcome": str(self.outcome),
            "value": self.value,
            "low": self.low,
            "high": self.high,
        }


@dataclass(frozen=True)
class Verdict:
    """All goals together, for one trial."""

    goals: tuple[GoalResult, ...] = ()
    trial: int | None = None
    """The number of the trial that the results are of; None where there is none."""

    @property
    def outcome(self) -> str | None:
        """PASS when all goals are met, FAIL when one is missed, else UNDECIDED; None without goals."""
        found = {each.outcome for each in self.goals}
        if not found:
            return None
        if Outcome.MISSED in found:
            return "FAIL"
        return "PASS" if found == {Outcome.MET} else "UNDECIDED"

    @property
    def met(self) -> bool | None:
        """True for PASS, False for FAIL, else None."""
        return {"PASS": True, "FAIL": False}.get(self.outcome or "")

    def to_dict(self) -> dict[str, Any]:
        """The verdict as JSON has it."""
        return {
            "outcome": self.outcome,
            "met": self.met,
            "trial": self.trial,
            "goals": [each.to_dict() for each in self.goals],
        }
