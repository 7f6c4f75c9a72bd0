"""R01: too few queries for the precision that is shown."""

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
# Half of a 95 % interval in standard errors.
_NORMAL = 1.959964


class FewQueries(Rule):
    """Fewer queries than the second decimal of a recall needs."""

    code, name, severity = "R01", "few-queries", Severity.ERROR
    title = "Too few queries"
    threshold = "fewer than 100 queries: error; a 95 % interval of recall wider than ±0.01: warning"
    source = (
        "recall is compared in steps of 0.01; the number that is needed follows from the spread between "
        "queries (`queries_for`). Fewer than 100 leave the interval itself unsure."
    )
    why = (
        "Recall is a mean over a sample of queries. With few queries, a different sample would change it "
        "by more than two settings differ."
    )
    remedy = "Use more queries: hold fewer out, or take more from your logs."

    def check(self, evidence: Evidence) -> Iterator[Finding]:
        """The number of queries, then the widest interval."""
        counts = [each.score.queries for each in evidence.measurements]
        if evidence.dataset is not None:
            counts.append(evidence.dataset.queries.rows)
        if not counts:
            return
        wide = [
            found for each in evidence.measurements if (found := _half(each, evidence.headline)) is not None
        ]
        half, spread = max(wide, default=(0.0, 0.0))
        needed = f"; about {queries_for(STEP, spread):,} make it ±{STEP}" if half > STEP and spread else ""
        if min(counts) < FEWEST:
            width = f", and {evidence.headline} is known to ±{half:.3f} only{needed}" if wide else ""
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
    """Half the interval of a recall, and the spread between queries that it shows."""
    mean = recall_of(measurement, name)
    if mean is None or mean.low is None or mean.high is None:
        return None
    half = (mean.high - mean.low) / 2
    values = measurement.score.per_query.get(name)
    if values is not None and np.isfinite(values).sum() > 1:
        return half, float(np.nanstd(values, ddof=1))
    return half, half * math.sqrt(max(1, mean.n)) / _NORMAL
