"""R34: validation queries that had a part in the choice."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from recallatk.core.judgments import Severity
from recallatk.linter.rule import Rule
from recallatk.linter.survey import digests, matching_digests
from recallatk.units import share_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from recallatk.core.judgments import Finding
    from recallatk.linter.evidence import Evidence

SOME = 0.01


class ValidationSeen(Rule):
    """Marking one's own homework."""

    code, name, severity = "R34", "validation-seen", Severity.ERROR
    title = "Validation queries were used for tuning"
    threshold = (
        "more than 1 % of the validation queries are equal to one that was tuned on: error; the "
        "validation queries were looked at more than once: warning"
    )
    source = "whatever is chosen by a set of queries looks better on that set than on any other."
    why = (
        "The best of many settings on a query set is partly luck on that set. Only queries that had no "
        "part in the choice give an unbiased result."
    )
    remedy = "Remove repeated queries before splitting, and validate a new choice on unused queries."

    def check(self, evidence: Evidence) -> Iterator[Finding]:
        """Copies on both sides, then the number of looks."""
        yield from self._copies(evidence)
        looks = getattr(evidence.tuned, "looks", 0)
        if looks > 1:
            said = f"the validation queries were looked at {looks:,} times, and a choice made after each"
            yield self.finding(said, looks, 1, Severity.WARNING)

    def _copies(self, evidence: Evidence) -> Iterator[Finding]:
        seen, dataset = evidence.tuning_queries, evidence.dataset
        if seen is None or dataset is None or seen.dimension != dataset.queries.dimension:
            return
        tuned = digests(np.asarray(seen.vectors.read(0, seen.rows)))
        asked = np.asarray(dataset.queries.vectors.read(0, dataset.queries.rows))
        ours, held = matching_digests(asked, seen.vectors.dtype)
        both = held & np.isin(ours, tuned)
        share = float(both.mean()) if len(both) else 0.0
        if share > SOME:
            yield self.finding(
                share_of(int(both.sum()), len(both), "validation queries", "was tuned on", "were tuned on"),
                share,
                SOME,
            )
