"""R04: queries that are copies of each other."""

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
    """The same question again and again."""

    code, name, severity = "R04", "duplicate-queries", Severity.WARNING
    title = "Queries are repeated"
    threshold = "more than 5 % of the queries have the same vector and filter as another"
    source = "a rule of thumb; n queries count as n in an interval, however few of them are different."
    why = (
        "Intervals treat every query as independent, so repeated queries make them too narrow. Engine "
        "caches answer repeated queries faster."
    )
    remedy = "Keep each query once. Weight results by frequency in your report instead of repeating queries."
    needs = frozenset({"dataset"})

    def check(self, evidence: Evidence) -> Iterator[Finding]:
        """The share of queries with a copy."""
        if evidence.survey is None:
            return
        repeated = evidence.survey.repeated_queries
        share = float(repeated.mean())
        if share > MANY:
            yield self.finding(
                share_of(int(repeated.sum()), len(repeated), "queries", "is asked again", "are asked again"),
                share,
                MANY,
            )
