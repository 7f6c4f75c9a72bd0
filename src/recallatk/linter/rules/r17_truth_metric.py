"""R17: a truth that is ordered by another metric."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from recallatk.core.judgments import Severity
from recallatk.linter.geometry import better_metric, vectors_of
from recallatk.linter.rule import Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from recallatk.core.judgments import Finding
    from recallatk.linter.evidence import Evidence

MOST, _DEPTH = 0.01, 20


class TruthMetric(Rule):
    """The right answers to another question."""

    code, name, severity = "R17", "truth-metric", Severity.ERROR
    title = "The truth uses a different metric"
    threshold = (
        "more than 1 % of its neighboring pairs are out of order by the metric, and a fifth as many at "
        "the most by another; on the vectors of 200 queries"
    )
    source = (
        "a truth is in order by its own metric but for rounding; vectors of different lengths tell "
        "metrics apart."
    )
    why = (
        "Cosine, inner product and L2 distance agree only on vectors of equal length. A truth by a "
        "different metric, or of vectors before normalization, makes a perfect index look poor."
    )
    remedy = "State the metric that the engine uses, and compute the truth with it."
    needs = frozenset({"dataset", "truth"})

    def check(self, evidence: Evidence) -> Iterator[Finding]:
        """Pairs out of order by this metric and by the others."""
        dataset, truth, looked = evidence.dataset, evidence.usable_truth, evidence.survey
        if dataset is None or truth is None or looked is None:
            return
        rows = truth.rows[evidence.some_queries, :_DEPTH]
        queries = np.asarray(looked.queries[evidence.some_queries], np.float64)
        found = better_metric(dataset.metric, queries, vectors_of(dataset, rows), rows >= 0, MOST)
        if found is not None:
            other, own, theirs = found
            said = f"out of order by {dataset.metric}, and {theirs:.1%} by {other}"
            yield self.finding(f"{own:.1%} of its neighbors are {said}", own, MOST)
