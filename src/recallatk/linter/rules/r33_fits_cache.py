"""R33: a corpus that fits the processor's cache."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recallatk.core import Mode
from recallatk.core.judgments import Severity
from recallatk.linter.rule import Rule
from recallatk.units import mebibytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from recallatk.core.judgments import Finding
    from recallatk.linter.evidence import Evidence


class FitsCache(Rule):
    """No memory was harmed."""

    code, name, severity = "R33", "fits-cache", Severity.WARNING
    title = "The corpus fits the processor's cache"
    threshold = (
        "rows times dimension times 4 bytes is less than the last-level cache, and latency is measured"
    )
    source = "the size of the cache as the machine of the run stated it."
    why = (
        "A search in cache is faster than one in memory, where larger corpora are searched. Latencies of "
        "so few rows do not carry over."
    )
    remedy = "Measure on as many rows as production. Use recall, not latency, from this run."
    needs = frozenset({"dataset", "run"})

    def check(self, evidence: Evidence) -> Iterator[Finding]:
        """The vectors as float32 against the cache."""
        dataset, run = evidence.dataset, evidence.run
        if dataset is None or run is None:
            return
        cache = run.environment.get("cache_bytes")
        timed = any(each.trial.load.mode is not Mode.THROUGHPUT for each in run.measurements)
        size = dataset.corpus.rows * dataset.corpus.dimension * 4
        if isinstance(cache, int) and timed and size < cache:
            yield self.finding(
                f"the vectors take {mebibytes(size)}, the last-level cache {mebibytes(cache, 0)}",
                size,
                cache,
            )
