"""R08: queries that are harder or easier than production queries."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from recallatk.analysis.geometry import dimension_of
from recallatk.core.judgments import Severity
from recallatk.linter.geometry import nearest_distances
from recallatk.linter.rule import Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from recallatk.core.judgments import Finding
    from recallatk.linter.evidence import Evidence

MOST, FEWEST = 0.20, 100


class ProductionHardness(Rule):
    """Queries with a different local intrinsic dimension than production queries."""

    code, name, severity = "R08", "production-hardness", Severity.WARNING
    title = "The queries are harder or easier than production queries"
    threshold = "the median local intrinsic dimension (LID) differs from production's by more than 20 %"
    source = (
        "A rule of thumb; LID by maximum likelihood (Amsaleg et al. 2015) over the 20 nearest sampled rows."
    )
    why = (
        "Where many rows lie at about the same distance, an index misses more neighbors. Harder or easier "
        "queries give a different recall at the same setting."
    )
    remedy = "Use the same mix of queries as production."
    needs = frozenset({"dataset", "production"})

    def check(self, evidence: Evidence) -> Iterator[Finding]:
        """Ratio of the median LIDs."""
        found = nearest_distances(evidence)
        if found is None or min(map(len, found)) < FEWEST:
            return
        dimensions = [each[np.isfinite(each)] for each in map(dimension_of, found)]
        if not all(map(len, dimensions)):
            return
        ours, theirs = (float(np.median(each)) for each in dimensions)
        shift = abs(ours / theirs - 1)
        if shift > MOST:
            yield self.finding(
                f"their median LID is {ours:.1f}, production's {theirs:.1f} ({shift:.0%} apart)",
                shift,
                MOST,
            )
