"""R09: filters in production that the benchmark lacks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recallatk.core.judgments import Severity
from recallatk.linter.rule import Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from recallatk.core import QuerySet
    from recallatk.core.judgments import Finding
    from recallatk.linter.evidence import Evidence

SOME, FEW = 0.01, 0.5


class ProductionFilters(Rule):
    """Production queries have filters, benchmark queries do not."""

    code, name, severity = "R09", "production-filters", Severity.ERROR
    title = "Production queries have filters, the benchmark's do not"
    threshold = (
        "more than 1 % of the production queries have a filter and no benchmark query has one: error; less "
        "than half production's share: warning"
    )
    source = (
        "Engines run a different algorithm for filtered searches: at a selectivity of 1 %, recall fell from "
        "1.0 to 0.64 in one (apache/lucene#14160)."
    )
    why = (
        "An index is built for all rows, and a filter removes most of its paths. Recall without filters says "
        "nothing about recall with filters."
    )
    remedy = "Add the filters to the benchmark: a `filter` column in the queries, or `[data] where`."
    needs = frozenset({"dataset", "production"})

    def check(self, evidence: Evidence) -> Iterator[Finding]:
        """Shares of queries with a filter."""
        if evidence.dataset is None or evidence.production is None:
            return
        ours, theirs = _share(evidence.dataset.queries), _share(evidence.production)
        if theirs > SOME and ours < FEW * theirs:
            yield self.finding(
                f"{theirs:.1%} of the production queries have a filter, {ours:.1%} of the benchmark's",
                ours,
                FEW * theirs,
                Severity.WARNING if ours else None,
            )


def _share(queries: QuerySet) -> float:
    filters = queries.filters or ()
    return sum(each is not None for each in filters) / queries.rows if queries.rows else 0.0
