"""R14: rows stored cluster by cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from recallatk.analysis.geometry import unit
from recallatk.core import Metric
from recallatk.core.judgments import Severity
from recallatk.linter.rule import Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from recallatk.core.judgments import Finding
    from recallatk.linter.evidence import Evidence

LEAST, FEWEST = 0.9, 100


class SortedInsertion(Rule):
    """Similar rows stored next to each other."""

    code, name, severity = "R14", "sorted-insertion", Severity.NOTE
    title = "Rows are inserted cluster by cluster"
    threshold = "the median distance from a row to the next is less than 0.9 times that between random rows"
    source = "A rule of thumb: rows in random order have 1.0; the margin allows for chance and short runs."
    why = (
        "A graph built row by row connects differently when similar rows arrive together. The same rows in "
        "production's order give a different recall."
    )
    remedy = "Build several times: `builds = 3` inserts the rows in different orders and shows the effect."
    needs = frozenset({"dataset"})

    def check(self, evidence: Evidence) -> Iterator[Finding]:
        """Distance to the next row over distance to a random row."""
        looked = evidence.survey
        if evidence.dataset is None or looked is None or len(looked.sample) < FEWEST:
            return
        rows, after = looked.sample, looked.neighbors
        if evidence.dataset.metric is not Metric.L2:
            rows, after = unit(rows), unit(after)
        drawn = rows[np.random.default_rng(0).permutation(len(rows))]
        usual = float(np.median(np.linalg.norm(rows - drawn, axis=1)))
        ratio = float(np.median(np.linalg.norm(rows - after, axis=1))) / usual if usual > 0 else 1.0
        if ratio < LEAST:
            yield self.finding(f"the next row is {ratio:.2f} times as far as a random row", ratio, LEAST)
