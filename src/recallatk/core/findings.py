"""What the linter says: findings with a severity, a number and what to do, and waivers of them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


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
