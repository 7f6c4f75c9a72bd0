"""R11: recall at one k only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recallatk.core.judgments import Severity
from recallatk.linter.rule import Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from recallatk.core.judgments import Finding
    from recallatk.linter.evidence import Evidence


class OneCutoff(Rule):
    """One k, one story."""

    code, name, severity = "R11", "one-k", Severity.NOTE
    title = "Recall is measured at one k only"
    threshold = "fewer than two values of k"
    source = (
        "several k come from the same answers at no cost; together they tell a graph's loss from a codec's."
    )
    why = (
        "The first neighbor and the hundredth are lost for different reasons, and one k shows neither. A "
        "setting that suits the top 10 can be poor for reranking candidates."
    )
    remedy = "Measure several: `k = [1, 10, 100]`."

    def check(self, evidence: Evidence) -> Iterator[Finding]:
        """How many k there are."""
        # A tuning is asked for what it is to keep, and for nothing beside it.
        if len(evidence.cutoffs) == 1 and evidence.tuned is None:
            yield self.finding(f"recall@{evidence.cutoffs[0]} is all there is", 1, 2)
