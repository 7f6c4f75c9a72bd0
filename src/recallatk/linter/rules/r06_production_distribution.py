"""R06: queries that a classifier tells from production's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recallatk.core import Metric
from recallatk.core.judgments import Severity
from recallatk.linter.geometry import MOST_QUERIES, held_out_auc, production_vectors, unit
from recallatk.linter.rule import Rule
from recallatk.units import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from recallatk.core.judgments import Finding
    from recallatk.linter.evidence import Evidence

MOST, FEWEST = 0.7, 100


class ProductionDistribution(Rule):
    """Other questions than users ask."""

    code, name, severity = "R06", "production-distribution", Severity.ERROR
    title = "The queries differ from production's"
    threshold = (
        "a linear classifier tells the two apart on held-out queries with an AUC above 0.7: error; fewer "
        "than 100 queries on either side, which are too few to tell: note"
    )
    source = (
        "0.5 is chance. On out-of-distribution queries a search can take ten times as long for the same "
        "recall (arXiv 2211.12850), so that such a benchmark is of something else."
    )
    why = (
        "An index is laid out for the distribution of its rows, and out-of-distribution queries take "
        "other paths through it. The results do not carry over to production."
    )
    remedy = "Take the benchmark's queries from production logs, embedded in the same way."
    needs = frozenset({"dataset", "production"})

    def check(self, evidence: Evidence) -> Iterator[Finding]:
        """The AUC on held-out queries."""
        if evidence.dataset is None or evidence.survey is None or evidence.production is None:
            return
        ours = evidence.survey.queries[:MOST_QUERIES]
        theirs = production_vectors(evidence)
        if theirs is None:
            there, here = evidence.production.dimension, evidence.dataset.corpus.dimension
            yield self.finding(
                f"production's vectors have {there:,} numbers, and the corpus {here:,}", there, here
            )
            return
        if min(len(ours), len(theirs)) < FEWEST:
            few = counted(len(ours), "query", "queries")
            said = f"{few} and {len(theirs):,} of production's are too few to compare"
            yield self.finding(said, min(len(ours), len(theirs)), FEWEST, Severity.NOTE)
            return
        if evidence.dataset.metric is Metric.COSINE:
            ours, theirs = unit(ours), unit(theirs)
        found = held_out_auc(ours, theirs)
        if found > MOST:
            yield self.finding(
                f"a classifier tells them from {len(theirs):,} production queries with an AUC of {found:.2f}",
                found,
                MOST,
            )
