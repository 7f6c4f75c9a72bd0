"""R20: inner product on vectors of different lengths."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from recallatk.core import Metric
from recallatk.core.judgments import Severity
from recallatk.linter.rule import Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from recallatk.core.judgments import Finding
    from recallatk.linter.evidence import Evidence

MOST = 1e-3


class InnerProductNorms(Rule):
    """Long vectors win."""

    code, name, severity = "R20", "inner-product-norms", Severity.WARNING
    title = "Inner product on vectors that are not normalized"
    threshold = "the metric is ip, and more than 1 % of the rows have a norm farther than 0.001 from 1"
    source = "0.001 is what float16 leaves of unit length."
    why = (
        "By inner product, long vectors are close to everything, which few embedding models intend. If "
        "cosine was intended, truth and index agree with each other and both are wrong."
    )
    remedy = 'Set `metric = "cosine"`, or normalize the vectors. Waive this rule if lengths carry meaning.'
    needs = frozenset({"dataset"})

    def check(self, evidence: Evidence) -> Iterator[Finding]:
        """The share of rows of another length than 1."""
        if evidence.dataset is None or evidence.survey is None or evidence.dataset.metric is not Metric.IP:
            return
        lengths = evidence.survey.sample_norms
        share = float((np.abs(lengths - 1) > MOST).mean())
        if share > 0.01:
            yield self.finding(
                f"{share:.1%} of the rows have other lengths ({lengths.min():.3g} to {lengths.max():.3g})",
                share,
                0.01,
            )
