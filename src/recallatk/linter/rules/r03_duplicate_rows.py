"""R03: corpus rows that are copies of each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recallatk.core.judgments import Severity
from recallatk.linter.rule import Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from recallatk.core.judgments import Finding
    from recallatk.linter.evidence import Evidence

SOME, MANY = 0.005, 0.20


class DuplicateRows(Rule):
    """The same vector again and again."""

    code, name, severity = "R03", "duplicate-rows", Severity.ERROR
    title = "The corpus has duplicate rows"
    threshold = (
        "more than 0.5 % of the rows have a copy, or a group of copies is as large as k: warning; more "
        "than 20 % of the rows: error"
    )
    source = (
        "public sets have them: of LAION 1.7 % of the rows, one of them 902 times "
        "(zilliztech/VectorDBBench#357). Recall here counts ties, so that some copies do no harm; a fifth "
        "of the rows is another corpus."
    )
    why = (
        "Duplicates tie, so a tool that compares ids alone counts correct answers as wrong. They also "
        "make a corpus easier to search than distinct rows."
    )
    remedy = (
        "Remove duplicates before measuring, unless production has them too. Count ties when you compare ids."
    )
    needs = frozenset({"dataset"})

    def check(self, evidence: Evidence) -> Iterator[Finding]:
        """The share of rows with a copy, and the largest group."""
        if evidence.survey is None:
            return
        share, largest = evidence.survey.duplicate_share, evidence.survey.largest_group
        many = share > MANY
        if share > SOME:
            yield self.finding(
                f"{share:.1%} of the rows have a copy, and the largest group has {largest:,} rows",
                share,
                MANY if many else SOME,
                None if many else Severity.WARNING,
            )
        elif largest >= max(2, evidence.k):
            yield self.finding(
                f"{largest:,} rows are equal, enough to fill the top {evidence.k}",
                largest,
                evidence.k,
                Severity.WARNING,
            )
