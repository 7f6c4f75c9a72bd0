"""R31: latencies before an index was warm."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recallatk.core.judgments import Severity
from recallatk.linter.rule import Rule
from recallatk.linter.trial_views import called

if TYPE_CHECKING:
    from collections.abc import Iterator

    from recallatk.core.judgments import Finding
    from recallatk.linter.evidence import Evidence


class WarmUpMissing(Rule):
    """The first calls are the slowest."""

    code, name, severity = "R31", "warm-up", Severity.WARNING
    title = "Warm-up is missing or did not settle"
    threshold = "no warm-up in the record, or medians that still moved by 5 % or more when it ended"
    source = "two successive medians of 32 calls within 5 %; 640 calls or two seconds at the most."
    why = (
        "The first calls fill caches, fault pages in and compile, so they are slower than later calls. "
        "Percentiles that include them describe neither a cold index nor a warm one."
    )
    remedy = "Measure on a quieter machine, or use more `rounds`. Report the cold call separately."
    needs = frozenset({"run"})

    def check(self, evidence: Evidence) -> Iterator[Finding]:
        """Trials without any, then those that did not settle."""
        measured = evidence.measurements
        without = [each for each in measured if each.warm_up is None or not each.warm_up.calls]
        moving = [
            each for each in measured if each.warm_up and each.warm_up.calls and not each.warm_up.settled
        ]
        for what, found in (("has no warm-up", without), ("had not settled when warm-up ended", moving)):
            if found:
                more = f", as {len(found) - 1:,} more of {len(measured):,} trials" if len(found) > 1 else ""
                yield self.finding(f"{called(found[0].trial)} {what}{more}", len(found), 0)
