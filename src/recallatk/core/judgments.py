"""Judgments: outcomes of goals, findings of the linter, and waivers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Outcome(StrEnum):
    """Outcome of one goal."""

    MET = "met"
    MISSED = "missed"
    UNDECIDED = "undecided"
    NOT_MEASURED = "not measured"


@dataclass(frozen=True)
class GoalResult:
    """One goal with its outcome, and the value and bounds that decided it."""

    text: str
    outcome: Outcome
    value: float | None = None
    low: float | None = None
    high: float | None = None
    note: str = ""
    """Why it was not measured or not decided, or which queries the engine refused."""

    def to_dict(self) -> dict[str, Any]:
        """The result for JSON."""
        return {
            "text": self.text,
            "outcome": str(self.outcome),
            "value": self.value,
            "low": self.low,
            "high": self.high,
            "note": self.note,
        }


@dataclass(frozen=True)
class Verdict:
    """The results of all goals for one trial."""

    goals: tuple[GoalResult, ...] = ()
    trial: int | None = None
    """Number of the trial; None if there is none."""

    @property
    def outcome(self) -> str | None:
        """PASS if all goals are met, FAIL if one is missed, else UNDECIDED; None without goals."""
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
        """The verdict for JSON."""
        return {
            "outcome": self.outcome,
            "met": self.met,
            "trial": self.trial,
            "goals": [each.to_dict() for each in self.goals],
        }


class Severity(StrEnum):
    """Severity of a finding."""

    ERROR = "error"
    """A number does not mean what it says."""
    WARNING = "warning"
    """A number can mislead readers who do not know about the problem."""
    NOTE = "note"
    """Worth knowing; nothing is wrong."""


@dataclass(frozen=True)
class Finding:
    """One finding of a rule, with the measured number."""

    rule: str
    """Code of the rule, such as R03."""
    severity: Severity
    title: str
    message: str
    """The finding in one sentence."""
    measured: float | None
    """The measured number; None if the rule measures none."""
    threshold: float | None
    """The threshold for the number."""
    why: str
    remedy: str
    waived: str | None = None
    """Why it is waived; None if it is not."""

    @property
    def counts(self) -> bool:
        """Whether it is an error that is not waived."""
        return self.severity is Severity.ERROR and self.waived is None


@dataclass(frozen=True)
class Waiver:
    """A rule whose findings are accepted, with the reason."""

    rule: str
    reason: str
