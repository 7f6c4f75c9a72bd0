"""R28: engines whose timed calls cover different things."""

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
    """A library call against a round trip."""

    code, name, severity = "R28", "calls-differ", Severity.WARNING
    title = "Engines are timed by different kinds of calls"
    threshold = "more than one kind of call among the engines of a run"
    source = "what each engine says that one timed search is."
    why = (
        "A library call and a query over a socket include different work: parsing, planning, copying, a "
        "network. Their difference is not a difference between indexes."
    )
    remedy = (
        "Compare latency only between engines with the same kind of call. Otherwise compare recall and "
        "memory."
    )
    needs = frozenset({"run"})

    def check(self, evidence: Evidence) -> Iterator[Finding]:
        """What one call is, engine by engine."""
        found = {
            name: sorted({each.build.call for each in measured})
            for name, measured in by_engine(evidence.measurements).items()
        }
        kinds = {call for calls in found.values() for call in calls}
        if len(found) > 1 and len(kinds) > 1:
            listed = "; ".join(f"{name}: {', '.join(calls)}" for name, calls in found.items())
            yield self.finding(f"one call is, {listed}", len(kinds), 1)
