"""R04: duplicate queries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recallatk.core.judgments import Severity
from recallatk.linter.rule import Rule
from recallatk.units import share_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from recallatk.core.judgments import Finding
    from recallatk.linter.evidence import Evidence

MANY = 0.05


class DuplicateQueries(Rule):
    """Queries with equal vectors and filters."""

    code, name, severity = "R04", "duplicate-queries", Severity.WARNING
    title = "Queries are repeated"
    threshold = "more than 5 % of the queries have the same vector and filter as another query"
    source = "A rule of thumb; an interval counts n queries as n independent ones, however few are distinct."
    why = (
        "Confidence intervals treat every query as independent, so duplicates make them too narrow. An "
        "engine's caches also answer repeated queries faster than new ones."
    )
    remedy = (
        "Keep each query once. To reflect traffic, weight queries in your report instead of repeating them."
    )
    needs = frozenset({"dataset"})

    def check(self, evidence: Evidence) -> Iterator[Finding]:
        """The share of queries with a duplicate."""
        if evidence.survey is None:
            return
        repeated = evidence.survey.repeated_queries
        share = float(repeated.mean())
        if share > MANY:
            yield self.finding(
                share_of(int(repeated.sum()), len(repeated), "queries", "is a duplicate", "are duplicates"),
                share,
                MANY,
            )
