"""A rule of the linter: code, severity, reason, remedy, and the check."""

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
    """One way in which a benchmark misleads. Subclasses write `check` and say everything else about it."""

    code: ClassVar[str]
    name: ClassVar[str]
    """In words with hyphens, for links."""
    severity: ClassVar[Severity]
    """Of its gravest finding."""
    title: ClassVar[str]
    threshold: ClassVar[str]
    """What it goes by, in words."""
    source: ClassVar[str]
    """Where the threshold comes from."""
    why: ClassVar[str]
    """Why it matters, in two sentences."""
    remedy: ClassVar[str]
    needs: ClassVar[frozenset[str]] = frozenset()
    """What it cannot do without: the names of fields of Evidence."""

    def check(self, evidence: Evidence) -> Iterator[Finding]:
        """Everything that is wrong, as far as it can be told from what is known."""
        raise NotImplementedError

    def finding(
        self,
        message: str,
        measured: float | None = None,
        threshold: float | None = None,
        severity: Severity | None = None,
        remedy: str | None = None,
    ) -> Finding:
        """A finding of this rule, without secrets and no longer than can be read."""
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
