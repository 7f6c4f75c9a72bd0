"""R06: queries that a classifier can tell from production queries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recallatk.analysis.classifier import held_out_auc
from recallatk.analysis.geometry import unit
from recallatk.core import Metric
from recallatk.core.judgments import Severity
from recallatk.linter.geometry import MOST_QUERIES, production_vectors
from recallatk.linter.rule import Rule
from recallatk.units import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from recallatk.core.judgments import Finding
    from recallatk.linter.evidence import Evidence

MOST, FEWEST = 0.7, 100


class ProductionDistribution(Rule):
    """Queries from a different distribution than production."""

    code, name, severity = "R06", "production-distribution", Severity.ERROR
    title = "The queries differ from production queries"
    threshold = (
        "a linear classifier separates the two on held-out queries with an AUC above 0.7: error; fewer than "
        "100 queries on either side, too few to compare: note"
    )
    source = (
        "0.5 is chance. On out-of-distribution queries, a search can take ten times as long for the same "
        "recall (arXiv 2211.12850)."
    )
    why = (
        "Indexes are laid out for the distribution of their rows, and out-of-distribution queries take other "
        "paths through them. Results on such queries do not carry over to production."
    )
    remedy = "Take the benchmark queries from production logs, embedded in the same way."
    needs = frozenset({"dataset", "production"})

    def check(self, evidence: Evidence) -> Iterator[Finding]:
        """AUC on held-out queries."""
        if evidence.dataset is None or evidence.survey is None or evidence.production is None:
            return
        ours = evidence.survey.queries[:MOST_QUERIES]
        theirs = production_vectors(evidence)
        if theirs is None:
            there, here = evidence.production.dimension, evidence.dataset.corpus.dimension
            yield self.finding(
                f"dimension mismatch: production vectors have {there:,}, the corpus {here:,}", there, here
            )
            return
        if min(len(ours), len(theirs)) < FEWEST:
            few = counted(len(ours), "query", "queries")
            said = f"{few} and {len(theirs):,} from production are too few to compare"
            yield self.finding(said, min(len(ours), len(theirs)), FEWEST, Severity.NOTE)
            return
        if evidence.dataset.metric is Metric.COSINE:
            ours, theirs = unit(ours), unit(theirs)
        found = held_out_auc(ours, theirs)
        if found > MOST:
            yield self.finding(
                f"a classifier separates them from {len(theirs):,} production queries with AUC {found:.2f}",
                found,
                MOST,
            )
