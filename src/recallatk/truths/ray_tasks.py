"""What runs on Ray's workers: the scan of one shard for one group of queries, and merges."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.core import Corpus, Metric, in_memory
from recallatk.errors import MismatchError, RecallError
from recallatk.fingerprint import fingerprint_vectors
from recallatk.truths.candidates import known_floors, merged
from recallatk.truths.shard_scan import ShardWork, SlicedVectors, scan_shard

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from recallatk.filters.eligibility import Eligibility
    from recallatk.truths.candidates import ShardCandidates
    from recallatk.truths.shard_checkpoints import ShardCheckpoints

# A task that dies so often has a reason of its own.
RETRIES = 10


@dataclass(frozen=True)
class ShardTask:
    """One shard of the corpus for one group of queries."""

    number: int
    group: int
    start: int
    stop: int
    reopen: Callable[[], Corpus]
    fingerprint: str | None
    """Of its vectors, as the driver read them."""
    checkpoints: ShardCheckpoints | None = None


@dataclass(frozen=True, eq=False)
class TaskReport:
    """What the driver learns of a finished task; the candidates themselves stay where they are."""

    floors: NDArray[np.float64]
    candidates: int
    seconds: float
    cpu_seconds: float
    """Of the worker's own processor time."""
    reused: bool = False
    """Whether a checkpoint had the result."""
    peak_bytes: int = field(default=0)
    """The most memory that the worker had, its interpreter and libraries included."""


def scan(
    shard: ShardTask, work: ShardWork, eligibility: Eligibility | None, floors: NDArray[np.float64]
) -> tuple[ShardCandidates | None, TaskReport | RecallError]:
    """The candidates of a shard, computed or from a checkpoint; bad data are returned as their error."""
    started, cpu = time.perf_counter(), time.process_time()
    try:
        found = None if shard.checkpoints is None else shard.checkpoints.load(shard.group, shard.number)
        reused = found is not None
        if found is None:
            found = _scanned(shard, work, eligibility, floors)
            if shard.checkpoints is not None:
                shard.checkpoints.save(shard.group, shard.number, found)
    except RecallError as problem:
        if isinstance(problem.__cause__, OSError):
            # A disk or a network may work at the next attempt, which Ray makes elsewhere.
            raise OSError(str(problem)) from None
        return None, problem
    known = known_floors(work.metric, found, work.depth + 1)
    seconds, cpu_seconds = time.perf_counter() - started, time.process_time() - cpu
    return found, TaskReport(known, len(found.rows), seconds, cpu_seconds, reused, _peak_bytes())


def _scanned(
    shard: ShardTask, work: ShardWork, eligibility: Eligibility | None, floors: NDArray[np.float64]
) -> ShardCandidates:
    corpus = _opened(shard.reopen)
    rows = SlicedVectors(corpus.vectors, shard.start, shard.stop)
    row_bytes = rows.shape[1] * rows.dtype.itemsize
    # A shard is planned to fit; a resumed one may have been cut for more memory than there is now.
    vectors = in_memory(rows, None if work.memory is None else max(work.memory // 4, row_bytes))
    if shard.fingerprint is not None and fingerprint_vectors(vectors) != shard.fingerprint:
        raise MismatchError(
            f"a worker reads other vectors than the driver in rows {shard.start:,} to {shard.stop:,} of "
            f"{corpus.name}. The file was changed meanwhile, or another file has that path on the "
            "worker's node"
        )
    part = Corpus(corpus.name, vectors, corpus.columns)
    if eligibility is None:
        eligibility = unfiltered(len(work.queries), part.rows)
    return scan_shard(work, part, shard.start, eligibility, floors)


def unfiltered(queries: int, rows: int) -> Eligibility:
    """Every row for every query."""
    from recallatk.filters.eligibility import Eligibility

    return Eligibility((None,), np.zeros(queries, np.int64), None, rows)


@lru_cache(maxsize=4)
def _opened(reopen: Callable[[], Corpus]) -> Corpus:
    """The corpus, whose headers a worker reads once."""
    return reopen()


def merge(metric: Metric, k: int, *parts: ShardCandidates) -> tuple[ShardCandidates, TaskReport]:
    """The candidates of several shards in one."""
    started, cpu = time.perf_counter(), time.process_time()
    found = merged(metric, parts, k)
    floors = known_floors(metric, found, k)
    seconds, cpu_seconds = time.perf_counter() - started, time.process_time() - cpu
    return found, TaskReport(floors, len(found.rows), seconds, cpu_seconds)


def scan_options(memory: int) -> dict[str, Any]:
    """Ray's options for a scan."""
    return {
        "num_cpus": 1,
        "num_returns": 2,
        "memory": memory,
        "max_retries": RETRIES,
        "retry_exceptions": [OSError],
        "scheduling_strategy": "SPREAD",
    }


def merge_options(memory: int) -> dict[str, Any]:
    """Ray's options for a merge, which goes where its candidates are."""
    return scan_options(memory) | {"scheduling_strategy": "DEFAULT"}


def _peak_bytes() -> int:
    import sys

    if sys.platform == "win32":
        import psutil

        return int(psutil.Process().memory_info().peak_wset)
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def for_group(work: ShardWork, queries: NDArray[Any]) -> ShardWork:
    """The same work for other queries."""
    return replace(work, queries=queries)
