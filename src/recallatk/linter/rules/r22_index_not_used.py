"""R22: engines that did not show that their index answered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recallatk.core.judgments import Severity
from recallatk.linter.rule import Rule
from recallatk.linter.trial_views import by_engine
from recallatk.units import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from recallatk.core.judgments import Finding
    from recallatk.linter.evidence import Evidence

NO_EVIDENCE = "no evidence"


class IndexNotUsed(Rule):
    """A scan in the clothes of an index."""

    code, name, severity = "R22", "index-not-used", Severity.ERROR
    title = "The index was not used"
    threshold = "a trial that failed for want of evidence: error; a measured trial without evidence: warning"
    source = "databases scan where a planner prefers it, below a size, or while rows are not indexed yet."
    why = (
        "A scan is exact, so its recall of 1 says nothing about the index. It is also slow, and slower "
        "with every row."
    )
    remedy = "Check the query plan, wait until all rows are indexed, and use as many rows as production."
    needs = frozenset({"run"})

    def check(self, evidence: Evidence) -> Iterator[Finding]:
        """Failures first, engine by engine."""
        if evidence.run is None:
            return
        failed: dict[str, list[str]] = {}
        for each in evidence.run.failures:
            if each.kind == NO_EVIDENCE:
                failed.setdefault(each.trial.engine, []).append(each.message)
        for name, messages in sorted(failed.items()):
            said = (
                f"{name}: {counted(len(messages), 'trial has', 'trials have')} no evidence that the index "
                f"answered: {messages[0]}"
            )
            yield self.finding(said, len(messages), 0)
        for name, measured in by_engine(evidence.measurements).items():
            silent = sum(each.exercised is None for each in measured)
            if silent:
                yield self.finding(
                    f"{name}: of {counted(len(measured), 'trial', 'trials')} "
                    f"{counted(silent, 'shows', 'show')} no evidence of an index",
                    silent,
                    0,
                    Severity.WARNING,
                )
