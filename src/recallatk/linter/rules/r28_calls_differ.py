"""R28: engines whose timed calls cover different work."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recallatk.core.judgments import Severity
from recallatk.linter.rule import Rule
from recallatk.linter.trial_views import by_engine

if TYPE_CHECKING:
    from collections.abc import Iterator

    from recallatk.core.judgments import Finding
    from recallatk.linter.evidence import Evidence


class CallsDiffer(Rule):
    """Library calls compared with round trips to a server."""

    code, name, severity = "R28", "calls-differ", Severity.WARNING
    title = "Timed calls differ between engines"
    threshold = "more than one kind of call among the engines of a run"
    source = "Each engine's own description of one timed search."
    why = (
        "A library call and a query over a socket include different work: parsing, planning, copying, a "
        "network. The difference between their latencies is not a difference between indexes."
    )
    remedy = (
        "Compare the latency of engines with the same kind of call; across kinds, compare recall and memory."
    )
    needs = frozenset({"run"})

    def check(self, evidence: Evidence) -> Iterator[Finding]:
        """What one call covers, by engine."""
        found = {
            name: sorted({each.build.call for each in measured})
            for name, measured in by_engine(evidence.measurements).items()
        }
        kinds = {call for calls in found.values() for call in calls}
        if len(found) > 1 and len(kinds) > 1:
            listed = "; ".join(f"{name}: {', '.join(calls)}" for name, calls in found.items())
            yield self.finding(f"one timed call covers: {listed}", len(kinds), 1)
