"""R02: queries that are rows of the corpus."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recallatk.core.judgments import Severity
from recallatk.linter.rule import Rule
from recallatk.units import share_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from recallatk.core.judgments import Finding
    from recallatk.linter.evidence import Evidence

SOME, MANY = 0.01, 0.10


class QueriesInCorpus(Rule):
    """Queries that find themselves."""

    code, name, severity = "R02", "queries-in-corpus", Severity.ERROR
    title = "Queries are rows of the corpus"
    threshold = (
        "more than 1 % of the queries are equal to a row of the corpus: warning; more than 10 %: error"
    )
    source = (
        "on real embeddings the rows of an index had a recall of 0.80 where held-out ones had 0.75; "
        "[mistakes](mistakes.md) measures it again."
    )
    why = (
        "A query that is in the index finds itself first, and the index was built around it. Recall is "
        "higher than for real queries."
    )
    remedy = (
        "Hold the queries out of the corpus, or use `queries_from_corpus`, which excludes each query's "
        "own row."
    )
    needs = frozenset({"dataset"})

    def check(self, evidence: Evidence) -> Iterator[Finding]:
        """The share of queries whose vector is in the corpus."""
        if (
            evidence.dataset is None
            or evidence.survey is None
            or evidence.dataset.queries.corpus_rows is not None
        ):
            return
        found = evidence.survey.found_queries
        share = float(found.mean())
        if share > SOME:
            yield self.finding(
                share_of(
                    int(found.sum()),
                    len(found),
                    "queries",
                    "is a row of the corpus",
                    "are rows of the corpus",
                ),
                share,
                MANY if share > MANY else SOME,
                None if share > MANY else Severity.WARNING,
            )
