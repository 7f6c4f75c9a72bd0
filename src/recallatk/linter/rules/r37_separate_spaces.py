"""R37: vectors that fall into unrelated parts, as those of two embedding models do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recallatk.analysis.separation import (
    FEWEST_COORDINATES,
    FEWEST_ROWS,
    LEAST_STABLE,
    MOST_ALIKE,
    MOST_LEAVING,
    SMALLEST_PART,
    separation,
)
from recallatk.core.judgments import Severity
from recallatk.linter.rule import Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from recallatk.core.judgments import Finding
    from recallatk.linter.evidence import Evidence


class SeparateSpaces(Rule):
    """Parts of a corpus or of a query set that share almost no neighbors."""

    code, name, severity = "R37", "separate-spaces", Severity.WARNING
    title = "The vectors may come from two embedding models"
    threshold = (
        f"the vectors fall into two parts, the smaller with {SMALLEST_PART:.0%} or more; at most "
        f"{MOST_LEAVING:.0%} of its nearest neighbors are in the other; and the variances of their "
        f"coordinates have a rank correlation of at most {MOST_ALIKE}, though halves of a part agree on "
        f"theirs (at least {LEAST_STABLE}). From {FEWEST_ROWS} vectors of {FEWEST_COORDINATES} coordinates "
        "on, where no model is stated"
    )
    source = (
        "Samples of 2,000 WordNet glosses (MiniLM) share 10 to 14 % of the neighbors; with a tenth to half "
        "of the rows in a rotated space 0 to 2 %. Two topics alone share 2 % or more, but their variances "
        "correlate: 0.26 to 0.78 over 60 pairs of categories with 300 rows each. Those of two spaces do not: "
        "at most 0.15. `benchmarks/separation.py` draws 60 corpora of 500 to 2,000 vectors per family. One "
        "model: no warning on subsets of the demo data and of WordNet, on two or three of their categories, "
        "on cones and on clusters of one spectrum; 1.7 % on two or three round clusters. Two models (rotated "
        "rows): found in 100 % of the demo and WordNet subsets with a fifth of the rows, 93 to 95 % with "
        "half and 48 % with a tenth; 90 to 100 % of the synthetic ones."
    )
    why = (
        "A model update that re-embeds only some rows leaves two unrelated spaces in one column. Queries "
        "then find rows of one part only. Recall does not show it, because the true neighbors are wrong too."
    )
    remedy = (
        "Check which model made the vectors. If it is one, state it (`[data] model`), which ends this "
        "check. If the rows have labels, name their column (`model_column`)."
    )
    needs = frozenset({"dataset"})

    def check(self, evidence: Evidence) -> Iterator[Finding]:
        """A sample of the corpus, and the queries."""
        dataset, looked = evidence.dataset, evidence.survey
        if dataset is None or looked is None:
            return
        sides = (
            ("corpus", dataset.corpus, looked.sample),
            ("queries", dataset.queries, looked.queries),
        )
        for part, records, vectors in sides:
            found = None if records.models else separation(vectors)
            if found is not None and found.unrelated:
                yield self.finding(
                    f"{part}: {found.smaller:.0%} of the vectors and the rest share {found.leaving:.1%} of "
                    "their nearest neighbors",
                    found.leaving,
                    MOST_LEAVING,
                )
