"""R17: a truth ordered by a different metric."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from recallatk.analysis.geometry import better_metric
from recallatk.core.judgments import Severity
from recallatk.linter.geometry import vectors_of
from recallatk.linter.rule import Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from recallatk.core.judgments import Finding
    from recallatk.linter.evidence import Evidence

MOST, _DEPTH = 0.01, 20


class TruthMetric(Rule):
    """A truth computed with a different metric than the dataset's."""

    code, name, severity = "R17", "truth-metric", Severity.ERROR
    title = "The truth uses a different metric"
    threshold = (
        "more than 1 % of adjacent neighbors are out of order by the dataset's metric, and at most a fifth "
        "of that share by another metric; checked on 200 queries"
    )
    source = (
        "A truth is ordered by its own metric up to rounding. Vectors of different lengths tell metrics "
        "apart."
    )
    why = (
        "Cosine, inner product and L2 distance agree only on vectors of equal length. A truth by another "
        "metric, or for vectors before normalization, makes a perfect index look poor."
    )
    remedy = "Set the metric that the engine uses, and compute the truth with it."
    needs = frozenset({"dataset", "truth"})

    def check(self, evidence: Evidence) -> Iterator[Finding]:
        """Adjacent pairs out of order, by this metric and by the others."""
        dataset, truth, looked = evidence.dataset, evidence.usable_truth, evidence.survey
        if dataset is None or truth is None or looked is None:
            return
        rows = truth.rows[evidence.some_queries, :_DEPTH]
        queries = np.asarray(looked.queries[evidence.some_queries], np.float64)
        found = better_metric(dataset.metric, queries, vectors_of(dataset, rows), rows >= 0, MOST)
        if found is not None:
            other, own, theirs = found
            said = f"out of order by {dataset.metric}, {theirs:.1%} by {other}"
            yield self.finding(f"{own:.1%} of its adjacent neighbors are {said}", own, MOST)
