"""R15: gaps between neighbors that float32 cannot see."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from recallatk.core import Metric
from recallatk.core.judgments import Severity
from recallatk.linter.rule import Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from recallatk.core import Truth
    from recallatk.core.judgments import Finding
    from recallatk.linter.evidence import Evidence

_UNIT = 2.0**-24


class UnsafePrecision(Rule):
    """Rounding decides who is the k-th."""

    code, name, severity = "R15", "float32-unsafe", Severity.WARNING
    title = "Float32 cannot separate the neighbors"
    threshold = (
        "the usual rounding of a float32 score, √(d + 2) · 2⁻²⁴ times (‖q‖ + ‖x‖)² (‖q‖‖x‖ for inner "
        "products), is more than the median gap between the k-th score and the next"
    )
    source = (
        "the probabilistic bound on sums of products (Higham and Mary 2019), which the usual error stays "
        "below."
    )
    why = (
        "Engines compute in float32, and long vectors that are close together differ only in digits that "
        "float32 lacks. Even an exact float32 search returns wrong rows."
    )
    remedy = "Center the vectors, or normalize them if only their direction matters."
    needs = frozenset({"dataset", "truth"})

    def check(self, evidence: Evidence) -> Iterator[Finding]:
        """The median ratio of rounding to gap."""
        dataset, truth, looked = evidence.dataset, evidence.usable_truth, evidence.survey
        if dataset is None or truth is None or looked is None or truth.metric is not dataset.metric:
            return
        gaps = _gaps(truth, min(evidence.k, truth.depth - 1))
        if gaps is None:
            return
        known = np.isfinite(gaps) & (gaps > 0)
        asked, rows = looked.query_norms, float(np.median(looked.sample_norms))
        size = {Metric.L2: (asked + rows) ** 2, Metric.IP: asked * rows, Metric.COSINE: np.ones(len(asked))}
        rounding = np.sqrt(dataset.corpus.dimension + 2) * _UNIT * size[dataset.metric]
        if known.any():
            ratio = float(np.median(rounding[known] / gaps[known]))
            if ratio > 1:
                yield self.finding(
                    f"float32 rounds by {ratio:,.1f} times the gap behind the {evidence.k}-th neighbor",
                    ratio,
                    1,
                )


def _gaps(truth: Truth, k: int) -> NDArray[np.float64] | None:
    """Between the k-th score and the next; of squared distances, which engines compare."""
    if truth.scores is None or k < 1:
        return None
    last, following = truth.scores[:, k - 1], truth.scores[:, k]
    if truth.metric is Metric.L2:
        return np.asarray(np.square(following) - np.square(last))
    return np.asarray(last - following)
