"""R32: a machine that was busy with other work."""

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
    """Background load in the measurements."""

    code, name, severity = "R32", "noisy-machine", Severity.WARNING
    title = "The machine was not quiet"
    threshold = (
        "a fixed piece of work varied by more than 10 %, half of the cores were busy at the start, more than "
        "1 % of open-loop calls were sent late, or the run was resumed on a different machine"
    )
    source = "A sentinel with every round of measurements, load averages, and the record of every call."
    why = (
        "Other processes slow calls down, and not equally for all settings. Differences smaller than this "
        "noise are not differences between indexes."
    )
    remedy = (
        "Measure again on a quiet machine, with fixed clock speeds and `affinity`. Recall is not affected."
    )

    def check(self, evidence: Evidence) -> Iterator[Finding]:
        """The run's cautions, one finding per kind."""
        cautions = [] if evidence.run is None else list(evidence.run.cautions)
        cautions += list(getattr(evidence.tuned, "cautions", ()))
        for kind in KINDS:
            found = [each for each in cautions if each.kind == kind]
            if found:
                more = f" (and {len(found) - 1:,} more)" if len(found) > 1 else ""
                yield self.finding(f"{found[0].message}{more}", found[0].value, found[0].limit)
