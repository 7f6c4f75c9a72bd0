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
    """Too few calls for a p99."""

    code, name, severity = "R26", "few-calls", Severity.WARNING
    title = "Tail latency is unknown"
    threshold = "the 95 % confidence interval of the p99 has no upper end, which takes 368 calls"
    source = "Order statistics: with 367 calls, all are below the true p99 with a probability above 2.5 %."
    why = (
        "The p99 of few calls is close to their maximum, which changes from run to run. It can underestimate "
        "the true p99 by any factor."
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
