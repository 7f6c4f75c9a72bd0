"""R32: a machine that was busy with something else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recallatk.core.judgments import Severity
from recallatk.linter.rule import Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from recallatk.core.judgments import Finding
    from recallatk.linter.evidence import Evidence

KINDS = ("noise", "busy", "machine", "late")


class NoisyMachine(Rule):
    """Somebody else's work, in our numbers."""

    code, name, severity = "R32", "noisy-machine", Severity.WARNING
    title = "The machine was noisy"
    threshold = (
        "a fixed piece of work varied by more than 10 %, half of the cores were busy before, more than 1 "
        "% of the calls of an open loop were sent late, or the run was begun on another machine"
    )
    source = "a sentinel beside every round of measurements, load averages, and the record of every call."
    why = (
        "Other work on the machine slows calls down, and not all settings equally. Differences smaller "
        "than the noise are not differences between indexes."
    )
    remedy = "Measure again on a quiet machine, with fixed clocks and `affinity`. Recall is not affected."

    def check(self, evidence: Evidence) -> Iterator[Finding]:
        """What the run was cautious about, each kind once."""
        cautions = [] if evidence.run is None else list(evidence.run.cautions)
        cautions += list(getattr(evidence.tuned, "cautions", ()))
        for kind in KINDS:
            found = [each for each in cautions if each.kind == kind]
            if found:
                more = f" (and {len(found) - 1:,} more)" if len(found) > 1 else ""
                yield self.finding(f"{found[0].message}{more}", found[0].value, found[0].limit)
