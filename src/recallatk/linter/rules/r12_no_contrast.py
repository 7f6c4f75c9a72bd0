"""R12: data without contrast, such as random vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from recallatk.analysis.answer_scores import cosine_distances
from recallatk.analysis.geometry import distances
from recallatk.core import Metric
from recallatk.core.judgments import Severity
from recallatk.linter.rule import Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from recallatk.core.judgments import Finding
    from recallatk.linter.evidence import Evidence

LEAST = 1.2
# Among fewer rows the k-th neighbor is never close, whatever the data.
_ROWS_PER_NEIGHBOR = 100


class NoContrast(Rule):
    """Neighbors that are about as far away as any other row."""

    code, name, severity = "R12", "no-contrast", Severity.WARNING
    title = "Neighbors are hardly nearer than other rows"
    threshold = (
        "the mean distance to all rows is less than 1.2 times the distance to the k-th neighbor (median over "
        "queries with at least 100 times k eligible rows)"
    )
    source = (
        "Relative contrast (He, Kumar and Chang 2012). Uniform vectors of dimension 1,536 have about 1.1, "
        "and recall on them is meaningless (mlcommons/storage#789)."
    )
    why = (
        "Among random vectors in many dimensions the nearest neighbors are arbitrary, and no index is "
        "designed to find them. Recall on such data says nothing about recall on embeddings."
    )
    remedy = (
        "Measure on your own embeddings. If these are yours, check whether the embedding model suits the "
        "data."
    )
    needs = frozenset({"dataset", "truth"})

    def check(self, evidence: Evidence) -> Iterator[Finding]:
        """Median relative contrast."""
        found = relative_contrast(evidence)
        if found is not None and found < LEAST:
            yield self.finding(
                f"an average row is only {found:.2f} times as far as neighbor {evidence.k}", found, LEAST
            )


def relative_contrast(evidence: Evidence) -> float | None:
    """Mean distance to sampled rows over distance to the k-th neighbor; None if not computable."""
    dataset, truth, looked = evidence.dataset, evidence.usable_truth, evidence.survey
    if dataset is None or truth is None or looked is None or truth.scores is None:
        return None
    if dataset.metric is Metric.IP or truth.metric is not dataset.metric:
        return None
    k = min(evidence.k, truth.depth)
    chosen = evidence.some_queries
    chosen = chosen[dataset.eligibility.counts[chosen] >= _ROWS_PER_NEIGHBOR * k]
    if not len(chosen):
        return None
    last = truth.scores[chosen, k - 1]
    if dataset.metric is Metric.COSINE:
        last = np.sqrt(2 * cosine_distances(last))
    mean = distances(dataset.metric, looked.queries[chosen], looked.sample).mean(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = mean / last
    ratios = ratios[np.isfinite(ratios)]
    return float(np.median(ratios)) if len(ratios) else None
