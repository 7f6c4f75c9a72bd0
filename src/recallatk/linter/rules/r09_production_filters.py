"""R09: filters in production that the benchmark does not have."""

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
    """Users filter, the benchmark does not."""

    code, name, severity = "R09", "production-filters", Severity.ERROR
    title = "Production filters, the benchmark does not"
    threshold = (
        "more than 1 % of production's queries have a filter, and none of the benchmark's: error; fewer "
        "than half as many of them: warning"
    )
    source = (
        "filtered searches are another algorithm in every engine: at a selectivity of 1 % recall fell "
        "from 1.0 to 0.64 in one (apache/lucene#14160)."
    )
    why = (
        "An index is built over all rows, and a filter removes most of its paths. Recall without filters "
        "does not predict recall with filters."
    )
    remedy = "Give the queries their filters: a column `filter`, or `[data] where`."
    needs = frozenset({"dataset", "production"})

    def check(self, evidence: Evidence) -> Iterator[Finding]:
        """The shares of queries with a filter."""
        if evidence.dataset is None or evidence.production is None:
            return
        ours, theirs = _share(evidence.dataset.queries), _share(evidence.production)
        if theirs > SOME and ours < FEW * theirs:
            yield self.finding(
                f"{theirs:.1%} of production's queries have a filter, and {ours:.1%} of the benchmark's",
                ours,
                FEW * theirs,
                Severity.WARNING if ours else None,
            )


def _share(queries: QuerySet) -> float:
    filters = queries.filters or ()
    return sum(each is not None for each in filters) / queries.rows if queries.rows else 0.0
