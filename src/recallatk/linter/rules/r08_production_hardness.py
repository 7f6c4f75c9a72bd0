"""R08: queries that are harder or easier than production's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from recallatk.core.judgments import Severity
from recallatk.linter.geometry import dimension_of, nearest_distances
from recallatk.linter.rule import Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from recallatk.core.judgments import Finding
    from recallatk.linter.evidence import Evidence

MOST, FEWEST = 0.20, 100


class ProductionHardness(Rule):
    """Another local intrinsic dimension."""

    code, name, severity = "R08", "production-hardness", Severity.WARNING
    title = "The queries are harder or easier than production's"
    threshold = "the median local intrinsic dimension (LID) differs by more than 20 % from production's"
    source = (
        "a rule of thumb; LID by maximum likelihood (Amsaleg and others 2015), over the 20 nearest of "
        "sampled rows."
    )
    why = (
        "Where many neighbors have nearly the same distance, an index misses more of them. A query set of "
        "different hardness has different recall at the same setting."
    )
    remedy = "Take queries of the same kinds, in the same proportions, as production."
    needs = frozenset({"dataset", "production"})

    def check(self, evidence: Evidence) -> Iterator[Finding]:
        """The ratio of medians."""
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
                f"their median LID is {ours:.1f}, and production's {theirs:.1f} ({shift:.0%} apart)",
                shift,
                MOST,
            )
