"""R26: tail latency from too few calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recallatk.analysis.latency import percentile_interval
from recallatk.core.judgments import Severity
from recallatk.linter.rule import Rule
from recallatk.linter.trial_views import called
from recallatk.units import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from recallatk.core.judgments import Finding
    from recallatk.linter.evidence import Evidence

FEWEST = 368


class FewCalls(Rule):
    """The tail of a handful."""

    code, name, severity = "R26", "few-calls", Severity.WARNING
    title = "Too few calls for the tail latency"
    threshold = "the 95 % interval of the p99 has no upper end, which takes 368 calls"
    source = (
        "order statistics: of 367 calls all are below the true p99 with a probability of more than 2.5 %."
    )
    why = (
        "The p99 of few calls is their maximum or close to it, and varies from run to run. It can be too "
        "low by any factor."
    )
    remedy = "Time more calls: more `rounds`, more queries, or longer `seconds`."
    needs = frozenset({"run"})

    def check(self, evidence: Evidence) -> Iterator[Finding]:
        """The trial with the fewest calls."""
        few = [
            each
            for each in evidence.measurements
            if percentile_interval(each.calls.latency_ns, 0.99)[1] is None
        ]
        if few:
            worst = min(few, key=lambda each: len(each.calls))
            others = counted(len(few) - 1, "more trial has", "more trials have")
            more = f", and {others} too few" if len(few) > 1 else ""
            yield self.finding(
                f"{called(worst.trial)} was timed on {counted(len(worst.calls), 'call', 'calls')}{more}",
                len(worst.calls),
                FEWEST,
            )
