"""R39: one filter, such as one tenant, that most filtered queries share."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from recallatk.core.judgments import Severity
from recallatk.linter.rule import Rule
from recallatk.units import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from recallatk.core.judgments import Finding
    from recallatk.linter.evidence import Evidence

MOST = 0.5


class DominantFilter(Rule):
    """Most filtered queries have the same filter."""

    code, name, severity = "R39", "dominant-filter", Severity.WARNING
    title = "One filter dominates the queries"
    threshold = "more than half of the filtered queries share one filter, and there are others"
    source = "Beyond one half, the mean says more about one tenant than about all others together."
    why = (
        "Each tenant is a part of the corpus of its own size and shape. The mean is then mostly the recall "
        "of one tenant, and the recall of small tenants does not show."
    )
    remedy = "Take as many queries of every tenant, or group the results by filter: --by filter."
    needs = frozenset({"dataset"})

    def check(self, evidence: Evidence) -> Iterator[Finding]:
        """The share of the most frequent filter."""
        if evidence.dataset is None:
            return
        filters = [each for each in evidence.dataset.queries.filters or () if each is not None]
        frequent = Counter(each.key for each in filters).most_common(1)
        if not filters or len({each.key for each in filters}) < 2:
            return
        key, count = frequent[0]
        if count > MOST * len(filters):
            text = next(str(each) for each in filters if each.key == key)
            asked = counted(len(filters), "filtered query", "filtered queries")
            yield self.finding(
                f"{count / len(filters):.0%} of {asked} have the filter {text:.80}",
                count / len(filters),
                MOST,
            )
