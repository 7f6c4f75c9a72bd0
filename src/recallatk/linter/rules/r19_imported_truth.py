"""R19: somebody else's truth that nobody has verified."""

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
    """Believed, not known."""

    code, name, severity = "R19", "imported-truth", Severity.WARNING
    title = "The truth is imported and not verified"
    threshold = "a truth that was read from another tool's file"
    source = (
        "published truths have been stale, of other rows, or cut before filters were applied "
        "(mlcommons/storage#806, big-ann-benchmarks#279)."
    )
    why = (
        "Everything is measured against the truth, and nobody here has seen how this one was made. It "
        "also has no ties beyond its depth, so that right answers may count as wrong."
    )
    remedy = "Prove it with `recallatk truth verify`, or leave out `[truth] file` and have it computed."
    needs = frozenset({"truth"})

    def check(self, evidence: Evidence) -> Iterator[Finding]:
        """Where it comes from."""
        truth = evidence.truth
        if truth is not None and truth.origin is Origin.IMPORTED:
            yield self.finding(
                f"the truth of {counted(len(truth), 'query', 'queries')} comes from a file of another tool"
            )
