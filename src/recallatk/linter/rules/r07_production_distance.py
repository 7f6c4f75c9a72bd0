"""R07: queries nearer to the corpus, or farther from it, than production's."""

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
    """Queries that are too clean, or too far off."""

    code, name, severity = "R07", "production-distance", Severity.ERROR
    title = "The queries are closer or farther than production's"
    threshold = "the median distance to the nearest row is less than 0.67 or more than 1.5 times production's"
    source = (
        "a rule of thumb: half as far again, either way; distances are to the nearest of 4,000 sampled rows."
    )
    why = (
        "Queries derived from the corpus, or written by a model that read it, are closer to their "
        "neighbors than real queries. Near neighbors are easy to find, so recall is too high."
    )
    remedy = "Take the benchmark's queries from production logs. Do not derive them from corpus rows."
    needs = frozenset({"dataset", "production"})

    def check(self, evidence: Evidence) -> Iterator[Finding]:
        """The ratio of medians."""
        found = nearest_distances(evidence)
        if found is None:
            return
        ours, theirs = (float(np.median(each[:, 0])) for each in found)
        ratio = ours / theirs if theirs > 0 else (1.0 if ours == 0 else np.inf)
        if not LEAST <= ratio <= MOST:
            yield self.finding(
                f"their nearest rows are {ratio:.2f} times as far as those of production's queries "
                f"({ours:.3g} and {theirs:.3g})",
                ratio,
                LEAST if ratio < LEAST else MOST,
            )
