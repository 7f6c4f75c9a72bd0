"""R27: latency of a closed loop, taken for latency under load."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recallatk.analysis.latency import percentile
from recallatk.core import Mode
from recallatk.core.judgments import Severity
from recallatk.linter.rule import Rule
from recallatk.linter.trial_views import called

if TYPE_CHECKING:
    from collections.abc import Iterator

    from recallatk.core.judgments import Finding
    from recallatk.linter.evidence import Evidence


class ClosedLoop(Rule):
    """Clients that wait politely."""

    code, name, severity = "R27", "closed-loop", Severity.WARNING
    title = "Latency under load comes from a closed loop"
    threshold = "several clients in a closed loop (`throughput`), and no open loop (`rate`) beside it"
    source = "coordinated omission: what a stalled call keeps others from sending is never timed."
    why = (
        "In a closed loop, a stall keeps clients from sending, so the calls that would have waited are "
        "missing. Its p99 is far below what users see at the same rate."
    )
    remedy = 'Read throughput from the closed loop, and latency from an open loop: `[[load]] mode = "rate"`.'

    def check(self, evidence: Evidence) -> Iterator[Finding]:
        """Loads, measured or planned."""
        loads = {each.trial.load for each in evidence.measurements}
        # Tuning asks with one client, whatever loads a bench file has beside it.
        if evidence.run is None and evidence.tuned is None and evidence.settings is not None:
            loads = set(evidence.settings.loads)
        closed = [each for each in loads if each.mode is Mode.THROUGHPUT and each.clients_or(1) > 1]
        if not closed or any(each.mode is Mode.RATE for each in loads):
            return
        most = max(each.clients_or(1) for each in closed)
        measured = [each for each in evidence.measurements if each.trial.load.clients == most]
        tails = [(value, each) for each in measured if (value := percentile(each.calls.latency_ns, 0.99))]
        said = (
            f": the p99 of {called(max(tails, key=lambda t: t[0])[1].trial)} is no latency under load"
            if tails
            else ""
        )
        yield self.finding(
            f"{most:,} clients ask in a closed loop, and no open loop is measured{said}", most, 1
        )
