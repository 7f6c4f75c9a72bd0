"""R40: engines that switch to a scan for selective filters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recallatk.analysis.fall_off import LEAST_DROP, find_scan_switch
from recallatk.analysis.filtered import filter_groups
from recallatk.analysis.segments import SELECTIVITY
from recallatk.core.judgments import Severity
from recallatk.linter.rule import Rule
from recallatk.linter.trial_views import by_engine, called

if TYPE_CHECKING:
    from collections.abc import Iterator

    from recallatk.core.judgments import Finding
    from recallatk.linter.evidence import Evidence


class FilteredScan(Rule):
    """Recall jumps to 1 below some selectivity, because the engine scans the rows that pass."""

    code, name, severity = "R40", "filtered-scan", Severity.WARNING
    title = "The engine scans under selective filters"
    threshold = (
        "recall rises to 1 from at least 0.02 less as filters get more selective, and the intervals do not "
        "overlap"
    )
    source = (
        "Planners compare the cost of the index with that of a scan; Qdrant, for one, scans below its "
        "full_scan_threshold."
    )
    why = (
        "One mean then mixes two algorithms: an index with some recall, and a scan with recall 1. The scan "
        "slows down with every row that passes, so its latency on a small corpus does not carry over."
    )
    remedy = "Report recall and latency by selectivity, and measure with as many rows as production has."
    needs = frozenset({"run"})

    def check(self, evidence: Evidence) -> Iterator[Finding]:
        """The first setting of each engine that switches."""
        name = f"recall@{evidence.k}"
        for measured in by_engine(evidence.measurements).values():
            for each in measured:
                groups = filter_groups(each, name).get(SELECTIVITY, [])
                found = find_scan_switch(groups, each)
                if found is None or found.recall.value is None or found.before.value is None:
                    continue
                yield self.finding(
                    f"{called(each.trial)}: {name} is {found.recall.value:.3f} for filters of "
                    f"{found.group}, and {found.before.value:.3f} for {found.broader}",
                    found.recall.value - found.before.value,
                    LEAST_DROP,
                )
                break
