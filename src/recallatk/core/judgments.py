"""Judgments: outcomes of goals, findings of the linter, and waivers."""

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


class Severity(StrEnum):
    """How much a finding matters."""

    ERROR = "error"
    """A number of the benchmark means something else than it says."""
    WARNING = "warning"
    """A number can mislead whoever does not know this."""
    NOTE = "note"
    """Worth knowing; nothing is wrong."""


@dataclass(frozen=True)
class Finding:
    """One thing that a rule found, with the number that it goes by."""

    rule: str
    """The code of the rule, such as R03."""
    severity: Severity
    title: str
    message: str
    """What was found here, in one sentence."""
    measured: float | None
    """The number; None where it is not about one."""
    threshold: float | None
    """What the number is held against."""
    why: str
    remedy: str
    waived: str | None = None
    """The reason why it is accepted; None where it is not."""

    @property
    def counts(self) -> bool:
        """Whether it is an error that nobody accepts."""
        return self.severity is Severity.ERROR and self.waived is None


@dataclass(frozen=True)
class Waiver:
    """A rule whose findings are accepted, and why."""

    rule: str
    reason: str
