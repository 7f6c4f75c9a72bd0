"""R30: engines that used different numbers of threads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recallatk.core.judgments import Severity
from recallatk.linter.rule import Rule
from recallatk.linter.trial_views import by_engine, engine_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from recallatk.core.judgments import Finding
    from recallatk.linter.evidence import Evidence


class UnequalThreads(Rule):
    """More hands."""

    code, name, severity = "R30", "unequal-threads", Severity.WARNING
    title = "Engines use different numbers of threads"
    threshold = "search or build threads differ, or an engine cannot be told how many to use"
    source = "what the run recorded, and what each engine says of `set_threads`."
    why = (
        "A search on all cores answers one query sooner but does not serve more queries. Compare latency "
        "and build time only with equal threads."
    )
    remedy = (
        "Set `threads = { build = 1, search = 1 }`, and use `affinity` for engines without a thread setting."
    )
    needs = frozenset({"run"})

    def check(self, evidence: Evidence) -> Iterator[Finding]:
        """Numbers first, then engines that cannot be told."""
        groups = by_engine(evidence.measurements)
        if len(groups) < 2:
            return
        for what, name in (("search", "search_threads"), ("build", "threads")):
            found = {
                engine: max(getattr(each.build, name) for each in group) for engine, group in groups.items()
            }
            if len(set(found.values())) > 1:
                listed = ", ".join(f"{engine} {count}" for engine, count in found.items())
                yield self.finding(f"threads that {what}: {listed}", max(found.values()), min(found.values()))
        deaf = [name for name in groups if (engine := engine_of(name)) and not engine.abilities.threads]
        if deaf and len(deaf) < len(groups):
            yield self.finding(
                f"{', '.join(deaf)} cannot be told how many threads to use, and others can", len(deaf), 0
            )
