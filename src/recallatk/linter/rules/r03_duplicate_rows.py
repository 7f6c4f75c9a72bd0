"""R03: duplicate rows in the corpus."""

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
    """Corpus rows with equal vectors."""

    code, name, severity = "R03", "duplicate-rows", Severity.ERROR
    title = "The corpus has duplicate rows"
    threshold = (
        "more than 0.5 % of the rows have a duplicate, or a group of duplicates has k or more rows: warning; "
        "more than 20 % of the rows: error"
    )
    source = (
        "Public datasets have them: in LAION, 1.7 % of the rows, one of them 902 times "
        "(zilliztech/VectorDBBench#357). Recall here is tie-aware, so a few duplicates do no harm. A fifth "
        "of the rows makes it a different corpus."
    )
    why = (
        "Duplicates tie, so a tool that compares ids alone marks correct answers as wrong. They also make "
        "the corpus easier to search than the same number of distinct rows."
    )
    remedy = "Remove duplicates before measuring, unless production has them too. Use tie-aware recall."
    needs = frozenset({"dataset"})

    def check(self, evidence: Evidence) -> Iterator[Finding]:
        """The share of rows with a duplicate, and the largest group."""
        if evidence.survey is None:
            return
        share, largest = evidence.survey.duplicate_share, evidence.survey.largest_group
        many = share > MANY
        if share > SOME:
            yield self.finding(
                f"{share:.1%} of the rows have a duplicate; the largest group has {largest:,} rows",
                share,
                MANY if many else SOME,
                None if many else Severity.WARNING,
            )
        elif largest >= max(2, evidence.k):
            yield self.finding(
                f"{largest:,} rows are identical, enough to fill the top {evidence.k}",
                largest,
                evidence.k,
                Severity.WARNING,
            )
