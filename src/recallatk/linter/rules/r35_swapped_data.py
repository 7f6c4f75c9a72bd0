"""R35: corpus and queries that look swapped."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recallatk.core.data import MOST_QUERIES_PER_ROW, swapped
from recallatk.core.judgments import Severity
from recallatk.linter.rule import Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from recallatk.core.judgments import Finding
    from recallatk.linter.evidence import Evidence


class SwappedData(Rule):
    """Far more queries than rows."""

    code, name, severity = "R35", "swapped-data", Severity.WARNING
    title = "Corpus and queries look swapped"
    threshold = f"{MOST_QUERIES_PER_ROW} or more queries for each row of the corpus"
    source = "queries are a sample of what is asked, and a corpus is all that can be found."
    why = (
        "Two files of vectors look alike, and a benchmark on swapped files runs to the end. Its recall is "
        "that of an index over the queries."
    )
    remedy = "Name the corpus first and the queries second. Waive this rule if the corpus is this small."
    needs = frozenset({"dataset"})

    def check(self, evidence: Evidence) -> Iterator[Finding]:
        """Rows and queries."""
        dataset = evidence.dataset
        if dataset is None:
            return
        # A sample is small on purpose.
        rows, queries = dataset.corpus.sampled_from or dataset.corpus.rows, dataset.queries.rows
        said = swapped(rows, queries)
        if said is not None:
            yield self.finding(said, queries / rows, MOST_QUERIES_PER_ROW)
