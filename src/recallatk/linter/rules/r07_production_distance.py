"""R07: queries nearer to the corpus, or farther from it, than production queries."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from recallatk.core.judgments import Severity
from recallatk.linter.geometry import nearest_distances
from recallatk.linter.rule import Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from recallatk.core.judgments import Finding
    from recallatk.linter.evidence import Evidence

LEAST, MOST = 0.67, 1.5


class ProductionDistance(Rule):
    """Queries at a different distance from the corpus than production queries."""

    code, name, severity = "R07", "production-distance", Severity.ERROR
    title = "The queries are nearer to the corpus, or farther, than production queries"
    threshold = "the median distance to the nearest row is less than 0.67 or more than 1.5 times production's"
    source = (
        "A rule of thumb: a factor of 1.5 either way. Distances are to the nearest of 4,000 sampled rows."
    )
    why = (
        "Queries made from the corpus, or written by a model that read it, lie closer to their neighbors "
        "than real queries. Close neighbors are easy to find, so recall comes out too high."
    )
    remedy = "Take the benchmark queries from production logs; do not derive them from corpus rows."
    needs = frozenset({"dataset", "production"})

    def check(self, evidence: Evidence) -> Iterator[Finding]:
        """Ratio of the median distances."""
        found = nearest_distances(evidence)
        if found is None:
            return
        ours, theirs = (float(np.median(each[:, 0])) for each in found)
        ratio = ours / theirs if theirs > 0 else (1.0 if ours == 0 else np.inf)
        if not LEAST <= ratio <= MOST:
            yield self.finding(
                f"the median distance to the nearest row is {ratio:.2f} times production's "
                f"({ours:.3g} and {theirs:.3g})",
                ratio,
                LEAST if ratio < LEAST else MOST,
            )
