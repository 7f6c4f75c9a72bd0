"""R10: filters that let many rows pass, and no others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from recallatk.core.judgments import Severity
from recallatk.linter.rule import Rule
from recallatk.units import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from recallatk.core.judgments import Finding
    from recallatk.linter.evidence import Evidence

MOST = 0.10


class EasyFilters(Rule):
    """No filter that hurts."""

    code, name, severity = "R10", "easy-filters", Severity.WARNING
    title = "Only broad filters are measured"
    threshold = "the most selective filter lets more than 10 % of the rows pass"
    source = (
        "engines lose recall, or change to a scan, around 1 % (apache/lucene#14160); 10 % is a decade above."
    )
    why = (
        "A filter that admits 10 % of the rows leaves a graph mostly connected and costs little. "
        "Selective filters are where engines lose recall or fall back to a scan."
    )
    remedy = "Add queries with filters that admit 1 % and 0.1 % of the rows, if production has them."
    needs = frozenset({"dataset"})

    def check(self, evidence: Evidence) -> Iterator[Finding]:
        """The lowest share of rows that a filter lets pass."""
        dataset = evidence.dataset
        if dataset is None or not any(each is not None for each in dataset.queries.filters or ()):
            return
        filtered = np.asarray([each is not None for each in dataset.queries.filters or ()])
        lowest = float(dataset.eligibility.counts[filtered].min() / max(1, dataset.corpus.rows))
        if lowest > MOST:
            yield self.finding(
                f"the most selective of {counted(int(filtered.sum()), 'filter', 'filters')} lets "
                f"{lowest:.1%} of the rows pass",
                lowest,
                MOST,
            )
