"""A linter rule: code, severity, reason, remedy and check."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

from recallatk.core.judgments import Finding, Severity
from recallatk.redaction import public

if TYPE_CHECKING:
    from collections.abc import Iterator

    from recallatk.linter.evidence import Evidence

_LONGEST = 400


class Rule:
    """One way in which a benchmark misleads. Subclasses implement `check` and set the attributes."""

    code: ClassVar[str]
    name: ClassVar[str]
    """Hyphenated, for links."""
    severity: ClassVar[Severity]
    """Severity of its worst finding."""
    title: ClassVar[str]
    threshold: ClassVar[str]
    """The threshold in words."""
    source: ClassVar[str]
    """Where the threshold comes from."""
    why: ClassVar[str]
    """Why it matters, in at least two sentences."""
    remedy: ClassVar[str]
    needs: ClassVar[frozenset[str]] = frozenset()
    """Fields of Evidence that the rule requires."""

    def check(self, evidence: Evidence) -> Iterator[Finding]:
        """Findings of this rule that the evidence supports."""
        raise NotImplementedError

    def finding(
        self,
        message: str,
        measured: float | None = None,
        threshold: float | None = None,
        severity: Severity | None = None,
        remedy: str | None = None,
    ) -> Finding:
        """A finding of this rule, redacted; long messages are truncated."""
        said = str(public(message))
        return Finding(
            rule=self.code,
            severity=severity or self.severity,
            title=self.title,
            message=said if len(said) <= _LONGEST else f"{said[:_LONGEST]}…",
            measured=_finite(measured),
            threshold=_finite(threshold),
            why=self.why,
            remedy=remedy or self.remedy,
        )


def _finite(number: float | None) -> float | None:
    return None if number is None or not math.isfinite(number) else float(number)
