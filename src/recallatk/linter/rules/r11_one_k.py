"""R11: recall at only one k."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recallatk.core.judgments import Severity
from recallatk.linter.rule import Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from recallatk.core.judgments import Finding
    from recallatk.linter.evidence import Evidence


class OneCutoff(Rule):
    """Recall at a single cutoff."""

    code, name, severity = "R11", "one-k", Severity.NOTE
    title = "Recall is measured at only one k"
    threshold = "fewer than two values of k"
    source = (
        "More values of k come from the same answers at no cost. Together they separate losses in the graph "
        "from losses in quantization."
    )
    why = (
        "Rank 1 and rank 100 are lost for different reasons, and one k shows neither. A setting that suits "
        "the top 10 can be poor at finding candidates for a reranker."
    )
    remedy = "Measure several: `at = [1, 10, 100]`."

    def check(self, evidence: Evidence) -> Iterator[Finding]:
        """The number of cutoffs."""
        # Tuning measures only its targets.
        if len(evidence.cutoffs) == 1 and evidence.tuned is None:
            yield self.finding(f"recall@{evidence.cutoffs[0]} is the only one", 1, 2)
