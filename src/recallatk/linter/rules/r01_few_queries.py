"""R01: too few queries for the precision shown."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from recallatk.analysis.planning import STEP, queries_for
from recallatk.core.judgments import Severity
from recallatk.linter.rule import Rule
from recallatk.linter.trial_views import recall_of
from recallatk.units import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from recallatk.core import Measurement
    from recallatk.core.judgments import Finding
    from recallatk.linter.evidence import Evidence

FEWEST = 100
# Half-width of a 95 % interval in standard errors.
_NORMAL = 1.959964


class FewQueries(Rule):
    """Fewer queries than the second decimal of recall needs."""

    code, name, severity = "R01", "few-queries", Severity.ERROR
    title = "Too few queries"
    threshold = (
        "fewer than 100 queries: error; a 95 % confidence interval of recall wider than ±0.01: warning"
    )
    source = (
        "Recall is compared in steps of 0.01. The number of queries needed follows from the spread between "
        "queries (`queries_for`). Below 100 queries, the interval itself is unreliable."
    )
    why = (
        "Recall is a mean over queries, and your queries are a sample of your traffic. With few queries, "
        "sampling noise is larger than the difference between two settings."
    )
    remedy = "Use more queries: hold out a smaller share, or take more from your logs."

    def check(self, evidence: Evidence) -> Iterator[Finding]:
        """The number of queries, then the widest confidence interval."""
        counts = [each.score.queries for each in evidence.measurements]
        if evidence.dataset is not None:
            counts.append(evidence.dataset.queries.rows)
        if not counts:
            return
        wide = [
            found for each in evidence.measurements if (found := _half(each, evidence.headline)) is not None
        ]
        half, spread = max(wide, default=(0.0, 0.0))
        needed = (
            f"; about {queries_for(STEP, spread):,} queries make it ±{STEP}" if half > STEP and spread else ""
        )
        if min(counts) < FEWEST:
            width = f", so {evidence.headline} is known only to ±{half:.3f}{needed}" if wide else ""
            there = "there is" if min(counts) == 1 else "there are"
            said = f"{there} {counted(min(counts), 'query', 'queries')}{width}"
            yield self.finding(said, min(counts), FEWEST)
        elif half > STEP:
            yield self.finding(
                f"with {min(counts):,} queries {evidence.headline} is known to ±{half:.3f}{needed}",
                half,
                STEP,
                Severity.WARNING,
            )


def _half(measurement: Measurement, name: str) -> tuple[float, float] | None:
    """Half-width of a recall's interval, and the spread over queries that such an interval comes from.

    The spread of the values themselves is another one where queries have weights or come in groups.
    """
    mean = recall_of(measurement, name)
    if mean is None or mean.low is None or mean.high is None:
        return None
    half = (mean.high - mean.low) / 2
    values = measurement.score.per_query.get(name)
    if values is not None and np.isfinite(values).sum() > 1 and not np.nanstd(values):
        return half, 0.0
    return half, half * math.sqrt(max(1, mean.n)) / _NORMAL
