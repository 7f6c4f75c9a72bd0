"""R34: validation queries that influenced the choice."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from recallatk.core.judgments import Severity
from recallatk.digests import vector_digests
from recallatk.linter.rule import Rule
from recallatk.linter.survey import matching_digests
from recallatk.units import share_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from recallatk.core.judgments import Finding
    from recallatk.linter.evidence import Evidence

SOME = 0.01


class ValidationSeen(Rule):
    """Validation on queries that the choice depends on."""

    code, name, severity = "R34", "validation-seen", Severity.ERROR
    title = "Tuning used validation queries"
    threshold = (
        "more than 1 % of the validation queries equal a tuning query: error; the validation queries were "
        "used more than once: warning"
    )
    source = "A setting looks better on the queries it was chosen by than on any others."
    why = (
        "The best of many settings on some queries is partly the one that was lucky on them. Only queries "
        "that played no part in the choice show its real recall."
    )
    remedy = "Remove duplicate queries before splitting, and validate a new choice on fresh queries."

    def check(self, evidence: Evidence) -> Iterator[Finding]:
        """Queries on both sides, then the number of validations."""
        yield from self._copies(evidence)
        looks = getattr(evidence.tuned, "looks", 0)
        if looks > 1:
            said = f"the validation queries were used {looks:,} times, with a choice after each"
            yield self.finding(said, looks, 1, Severity.WARNING)

    def _copies(self, evidence: Evidence) -> Iterator[Finding]:
        seen, dataset = evidence.tuning_queries, evidence.dataset
        if seen is None or dataset is None or seen.dimension != dataset.queries.dimension:
            return
        tuned = vector_digests(np.asarray(seen.vectors.read(0, seen.rows)))
        asked = np.asarray(dataset.queries.vectors.read(0, dataset.queries.rows))
        ours, held = matching_digests(asked, seen.vectors.dtype)
        both = held & np.isin(ours, tuned)
        share = float(both.mean()) if len(both) else 0.0
        if share > SOME:
            yield self.finding(
                share_of(
                    int(both.sum()),
                    len(both),
                    "validation queries",
                    "is also a tuning query",
                    "are also tuning queries",
                ),
                share,
                SOME,
            )
