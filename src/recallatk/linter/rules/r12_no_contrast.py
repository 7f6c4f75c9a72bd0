"""R12: data without contrast, such as random vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from recallatk.analysis.answer_scores import cosine_distances
from recallatk.core import Metric
from recallatk.core.judgments import Severity
from recallatk.linter.geometry import distances
from recallatk.linter.rule import Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from recallatk.core.judgments import Finding
    from recallatk.linter.evidence import Evidence

LEAST = 1.2
# Among fewer rows the k-th neighbor is no near one, whatever the data are.
_ROWS_A_NEIGHBOUR = 100


class NoContrast(Rule):
    """Everything is as far as everything else."""

    code, name, severity = "R12", "no-contrast", Severity.WARNING
    title = "Neighbors are hardly closer than other rows"
    threshold = (
        "the mean distance of all rows is less than 1.2 times that of the k-th neighbor (median over "
        "queries that may return at least 100 times k rows)"
    )
    source = (
        "relative contrast (He, Kumar and Chang 2012); uniform vectors of 1,536 numbers have about 1.1, "
        "and recall on them is meaningless (mlcommons/storage#789)."
    )
    why = (
        "Among random high-dimensional vectors, nearest neighbors are arbitrary, and no index is designed "
        "to find them. Recall on such data does not predict recall on embeddings."
    )
    remedy = "Measure on your own embeddings. If these are yours, check whether the model suits the data."
    needs = frozenset({"dataset", "truth"})

    def check(self, evidence: Evidence) -> Iterator[Finding]:
        """The median relative contrast."""
        found = relative_contrast(evidence)
        if found is not None and found < LEAST:
            yield self.finding(
                f"all rows are {found:.2f} times as far as the {evidence.k}-th neighbor", found, LEAST
            )


def relative_contrast(evidence: Evidence) -> float | None:
    """The mean distance of sampled rows over that of the k-th neighbor; None where it cannot be told."""
    dataset, truth, looked = evidence.dataset, evidence.usable_truth, evidence.survey
    if dataset is None or truth is None or looked is None or truth.scores is None:
        return None
    if dataset.metric is Metric.IP or truth.metric is not dataset.metric:
        return None
    k = min(evidence.k, truth.depth)
    chosen = evidence.some_queries
    chosen = chosen[dataset.eligibility.counts[chosen] >= _ROWS_A_NEIGHBOUR * k]
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
