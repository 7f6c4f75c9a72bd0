"""R19: an imported truth that nobody has verified."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recallatk.core import Origin
from recallatk.core.judgments import Severity
from recallatk.linter.rule import Rule
from recallatk.units import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from recallatk.core.judgments import Finding
    from recallatk.linter.evidence import Evidence


class ImportedTruth(Rule):
    """A truth from another tool, taken on trust."""

    code, name, severity = "R19", "imported-truth", Severity.WARNING
    title = "The truth is imported and not verified"
    threshold = "the truth was read from another tool's file"
    source = (
        "Published truths have been stale, computed for other rows, or cut before filters were applied "
        "(mlcommons/storage#806, big-ann-benchmarks#279)."
    )
    why = (
        "Every recall is relative to the truth, and nothing here shows how this one was computed. It also "
        "lists no ties beyond its depth, so correct answers may count as wrong."
    )
    remedy = "Verify it with `recallatk truth verify`, or remove `[truth] file` to have the truth computed."
    needs = frozenset({"truth"})

    def check(self, evidence: Evidence) -> Iterator[Finding]:
        """The origin of the truth."""
        truth = evidence.truth
        if truth is not None and truth.origin is Origin.IMPORTED:
            yield self.finding(
                f"the truth for {counted(len(truth), 'query', 'queries')} comes from another tool's file"
            )
