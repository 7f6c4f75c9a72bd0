"""R33: a corpus that fits the processor's cache."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from recallatk.audit.base import Rule
from recallatk.core import Mode
from recallatk.core.findings import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from recallatk.audit.evidence import Evidence
    from recallatk.core.findings import Finding

_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


class FitsCache(Rule):
    """No memory was harmed."""

    code, name, severity = "R33", "fits-cache", Severity.WARNING
    title = "The corpus fits the processor's cache"
    threshold = (
        "rows times dimension times 4 bytes is less than the last-level cache, and latency is measured"
    )
    source = "the size of the cache as the processor states it."
    why = (
        "A search in cache is faster than one in memory, and larger corpora are searched in memory. "
        "Latencies of so few rows do not carry over."
    )
    remedy = "Measure on as many rows as production has; read recall, not latency, from this one."
    needs = frozenset({"dataset", "run"})

    def check(self, evidence: Evidence) -> Iterator[Finding]:
        """The vectors as float32 against the cache."""
        dataset, run = evidence.dataset, evidence.run
        if dataset is None or run is None:
            return
        cache = cache_bytes(run.environment)
        timed = any(each.trial.load.mode is not Mode.THROUGHPUT for each in run.measurements)
        size = dataset.corpus.rows * dataset.corpus.dimension * 4
        if cache is not None and timed and size < cache:
            yield self.finding(
                f"the vectors take {size / 2**20:,.1f} MiB, the last-level cache {cache / 2**20:,.0f} MiB",
                size,
                cache,
            )


def cache_bytes(environment: Mapping[str, Any]) -> int | None:
    """The last-level cache of the machine of a run; None where it is another one and the run does not say."""
    stated = environment.get("cache_bytes")
    if isinstance(stated, int):
        return stated
    from recallatk.bench.environment import describe_environment

    here = describe_environment()["processor"]
    return largest_cache() if environment.get("processor") == here else None


def largest_cache(folder: Path = _CACHES) -> int | None:
    """What the system says of the largest cache of the first core."""
    sizes = []
    for path in sorted(folder.glob("index*/size")):
        try:
            text = path.read_text().strip()
        except OSError:
            continue
        if text[:-1].isdigit() and text[-1:] in _UNITS:
            sizes.append(int(text[:-1]) * _UNITS[text[-1]])
    return max(sizes, default=None)
