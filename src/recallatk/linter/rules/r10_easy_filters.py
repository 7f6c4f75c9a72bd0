"""R10: only filters that let many rows pass."""

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
    """No selective filter among the queries."""

    code, name, severity = "R10", "easy-filters", Severity.WARNING
    title = "The benchmark has only easy filters"
    threshold = "the most selective filter lets more than 10 % of the rows pass"
    source = (
        "Engines lose recall or switch to a scan around 1 % (apache/lucene#14160); 10 % is ten times that."
    )
    why = (
        "A filter that lets a tenth of the rows pass leaves a graph mostly connected and costs little. "
        "Selective filters are the hard ones: there engines lose recall or switch to a scan."
    )
    remedy = (
        "Add queries with filters that let 1 % and 0.1 % of the rows pass, if production has such filters."
    )
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
