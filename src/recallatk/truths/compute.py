"""Ground truth as a function: taken from the store, updated from an earlier truth, or computed."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np

from recallatk.core import blocks
from recallatk.digests import row_digests
from recallatk.errors import MismatchError, UsageError
from recallatk.files import require_writable
from recallatk.fingerprint import fingerprint_prefixes, fingerprint_queries, fingerprints
from recallatk.truths.backends import require_backend
from recallatk.truths.corpus_reader import held
from recallatk.truths.memory_plan import MemoryPlan, plan
from recallatk.truths.ray_work import RayWork
from recallatk.truths.results import with_columns
from recallatk.truths.search import ExactSearch
from recallatk.truths.store import Entry, Identity, Store
from recallatk.truths.update import Change, redo

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from recallatk.core import Dataset, Truth
    from recallatk.files import PathLike
    from recallatk.truths.checkpoint import Checkpoint
    from recallatk.truths.ray_cluster import RayCluster
    from recallatk.truths.results import Results
    from recallatk.truths.search import Progress

_DEEPEST = 100_000
# Digests of more rows than this are not kept: they would take more memory than the smallest budget has.
_MOST_DIGESTS = 4_000_000
# Beyond this share of changed rows, an update costs as much as a full computation.
_MOST_CHANGED = 0.5


def ground_truth(
    dataset: Dataset,
    *,
    depth: int = 100,
    memory: int | str | None = None,
    threads: int | None = None,
    backend: str = "auto",
    device: str | None = None,
    block_bytes: int | None = None,
    since: Truth | None = None,
    progress: Progress | None = None,
    checkpoint: Checkpoint | None = None,
    on: RayCluster | None = None,
) -> Truth:
    """The best `depth` eligible rows of every query, proven, with float64 scores and complete ties.

    The result does not depend on any argument after `depth`, to the last bit of every score.

    Args:
        dataset: the corpus, the queries with their filters, and the metric.
        depth: how many rows to keep for each query.
        memory: how much to use beyond what the process has, as bytes or text such as `1GiB`.
        threads: how many cores to use; all by default.
        backend: whose kernel scans: `auto`, `blas` (NumPy's), `faiss`, `int8` (8-bit products) or `jax`.
        device: where it scans: `cpu`, or `gpu` or `tpu` through JAX.
        block_bytes: how much of the corpus to hold at a time, where the budget should not decide.
        since: an earlier truth of the same queries, on a corpus that this one begins with: only the rows
            after these are scanned.
        progress: called with the pairs of query and row that are done, and how many there are.
        checkpoint: where to keep what is done, and to go on from if it was begun before.
        on: the Ray cluster to compute on; `memory` is then that of each task.
    """
    if on is not None:
        if since is not None:
            raise UsageError("an earlier truth is updated on one machine. Leave out since, or on")
        work = _on_ray(dataset, depth, memory, threads, (backend, device), on)
        return work.search(progress).run().truth(dataset, work.fingerprints)
    setup = _setup(dataset, depth, memory, threads, (backend, device), block_bytes)
    whole = setup.dataset
    search = setup.search(progress, checkpoint)

    def found() -> Results:
        if since is None:
            return search.run()
        redo(search, since, Change.appended(since.corpus_rows or 0, whole.corpus.rows))
        return search.results

    if since is not None:
        _require_earlier(since, whole, depth)
    if whole is dataset:
        prints = _prints(dataset, since)
        return found().truth(dataset, prints)
    with ThreadPoolExecutor(1) as beside:
        # Two threads may read from memory at once.
        coming = beside.submit(_prints, whole, since)
        return found().truth(whole, coming.result())


@dataclass(frozen=True, eq=False)
class _Setup:
    """A checked request for a truth: the data as they are held, the memory plan and the kernel."""

    dataset: Dataset
    depth: int
    planned: MemoryPlan
    threads: int
    kernel: tuple[str, str | None]
    """Backend and device."""

    def search(self, progress: Progress | None, checkpoint: Checkpoint | None) -> ExactSearch:
        """The search that answers it."""
        return ExactSearch(
            self.dataset,
            self.depth,
            self.planned,
            threads=self.threads,
            backend=self.kernel[0],
            device=self.kernel[1],
            progress=progress,
            checkpoint=checkpoint,
        )


def _setup(
    dataset: Dataset,
    depth: int,
    memory: int | str | None,
    threads: int | None,
    kernel: tuple[str, str | None],
    block_bytes: int | None = None,
) -> _Setup:
    require_depth(depth)
    require_backend(*kernel)
    threads = count_threads(threads)
    planned = plan(dataset, depth, memory, threads, block_bytes)
    return _Setup(held(dataset, planned.block_rows), depth, planned, threads, kernel)


def _require_earlier(since: Truth, dataset: Dataset, depth: int) -> None:
    """Refuse an earlier truth that is plainly of something else."""
    same = {
        "metric": since.metric is dataset.metric,
        "depth": since.depth == depth,
        "queries": len(since) == dataset.queries.rows,
        "filters": dataset.queries.filters is None,
        "sample": since.sampled_from == dataset.corpus.sampled_from,
        "rows": 0 < (since.corpus_rows or 0) <= dataset.corpus.rows,
    }
    _refuse([name for name, right in same.items() if not right])


def _prints(dataset: Dataset, since: Truth | None) -> dict[str, str]:
    """The fingerprints of the data, which must be those of an earlier truth as far as that goes."""
    if since is None:
        return fingerprints(dataset)
    before = since.corpus_rows or 0
    vectors, prefixes = fingerprint_prefixes(dataset.corpus.vectors, [before])
    prefixes[dataset.corpus.rows] = vectors
    prints = fingerprints(dataset, vectors)
    earlier = {"queries": prints["queries"], "vectors": prefixes[before]}
    _refuse([name for name, text in earlier.items() if since.fingerprints.get(name) != text])
    return prints


def _refuse(differ: list[str]) -> None:
    if differ:
        raise MismatchError(f"the earlier truth cannot be updated. Different: {', '.join(differ)}")


def require_depth(depth: object) -> None:
    """Refuse an invalid depth."""
    if isinstance(depth, bool) or not isinstance(depth, int) or not 1 <= depth <= _DEEPEST:
        raise UsageError(f"a depth of {depth}. Accepted: whole numbers from 1 to {_DEEPEST:,}")


def count_threads(threads: int | None) -> int:
    """How many threads to use; all cores that this process may run on by default."""
    if threads is None:
        import psutil

        process = psutil.Process()
        if hasattr(process, "cpu_affinity"):
            return len(process.cpu_affinity())
        return int(psutil.cpu_count() or 1)  # macOS has no affinity
    if isinstance(threads, bool) or threads < 1:
        raise UsageError(f"{threads} threads. Accepted: whole numbers from 1")
    return threads


class Way(StrEnum):
    """How the truth was obtained."""

    COMPUTED = "computed"
    REUSED = "reused"
    UPDATED = "updated"


@dataclass(frozen=True, eq=False)
class Obtained:
    """A truth, and what it took."""

    truth: Truth
    way: Way
    path: Path
    """Where the store keeps it."""
    scanned_rows: int
    """Corpus rows that were compared with every query."""
    redone_queries: int
    """Queries that were compared with every row."""


def obtain_truth(
    dataset: Dataset,
    *,
    depth: int = 100,
    store: PathLike | None = None,
    memory: int | str | None = None,
    threads: int | None = None,
    backend: str = "auto",
    device: str | None = None,
    progress: Progress | None = None,
    checkpoint_seconds: float = 10.0,
    on: RayCluster | None = None,
) -> Obtained:
    """Certified truth through the store: never computed twice, never computed whole where a part will do.

    Args:
        dataset: the corpus, the queries with their filters, and the metric.
        depth: how many rows to keep for each query.
        store: the folder of the store; by default it is in the user's cache directory.
        memory: how much to use beyond what the process has, as bytes or text such as `1GiB`.
        threads: how many cores to use; all by default.
        backend: whose kernel scans: `auto`, `blas` (NumPy's), `faiss`, `int8` (8-bit products) or `jax`.
        device: where it scans: `cpu`, or `gpu` or `tpu` through JAX.
        progress: called with the pairs of query and row that are done, and how many there are.
        checkpoint_seconds: how often to save what is done, so that a killed computation can go on.
        on: the Ray cluster to compute on; `memory` is then that of each task, and finished tasks are saved.
    """
    if on is not None:
        work = _on_ray(dataset, depth, memory, threads, (backend, device), on)
        return _obtained_on_ray(work, Store(store), progress)
    setup = _setup(dataset, depth, memory, threads, (backend, device))
    job = _Job(setup, Store(store), checkpoint_seconds)
    found = job.store.find(job.identity)
    if found is not None:
        return Obtained(with_columns(found, dataset), Way.REUSED, job.store.path(job.identity), 0, 0)
    require_writable(job.store.path(job.identity))
    return job.made(progress)


def _on_ray(
    dataset: Dataset,
    depth: int,
    memory: int | str | None,
    threads: int | None,
    kernel: tuple[str, str | None],
    on: RayCluster,
) -> RayWork:
    require_depth(depth)
    require_backend(*kernel)
    return RayWork.of(dataset, depth, memory, count_threads(threads), kernel, on)


def _obtained_on_ray(work: RayWork, store: Store, progress: Progress | None) -> Obtained:
    dataset, identity = work.dataset, work.identity
    path = store.path(identity)
    found = store.find(identity)
    if found is not None:
        return Obtained(with_columns(found, dataset), Way.REUSED, path, 0, 0)
    require_writable(path)
    search = work.search(progress, path.parent)
    truth = search.run().truth(dataset, identity.fingerprints)
    # Without digests: taking them would read the whole corpus here once more.
    store.save(identity, truth, None)
    search.forget()
    return Obtained(truth, Way.COMPUTED, path, dataset.corpus.rows, dataset.queries.rows)


class _Job:
    """A truth to make: its setup, and the store that keeps it."""

    def __init__(self, setup: _Setup, store: Store, checkpoint_seconds: float) -> None:
        self.setup, self.store, self.checkpoint_seconds = setup, store, checkpoint_seconds
        self.dataset = dataset = setup.dataset
        queries = {"queries": fingerprint_queries(dataset.queries)}
        # Filters see metadata, which may have changed where no vector has.
        self.entries = [] if dataset.queries.filters else list(store.relatives(self._identity(queries)))
        lengths = [entry.corpus_rows for entry in self.entries]
        vectors, self.prefixes = fingerprint_prefixes(dataset.corpus.vectors, lengths)
        self.identity = self._identity(fingerprints(dataset, vectors))

    def _identity(self, prints: dict[str, str]) -> Identity:
        return Identity(prints, self.dataset.metric, self.setup.depth, self.dataset.corpus.sampled_from)

    def made(self, progress: Progress | None) -> Obtained:
        """Compute it, from a relative where there is one, and keep it."""
        earlier, change, digests = self._relative()
        checkpoint = self.store.checkpoint(self.identity, self.checkpoint_seconds, earlier)
        search = self.setup.search(progress, checkpoint)
        before = None if earlier is None else earlier.truth()
        rows, queries = self.dataset.corpus.rows, self.dataset.queries.rows
        if before is None or change is None:
            search.run()
            way = Way.COMPUTED
        else:
            queries = len(redo(search, before, change))
            way, rows = Way.UPDATED, len(change.added)
        truth = search.results.truth(self.dataset, self.identity.fingerprints)
        path = self.store.save(self.identity, truth, self._digests() if digests is None else digests)
        search.forget()
        return Obtained(truth, way, path, rows, queries)

    def _relative(self) -> tuple[Entry | None, Change | None, NDArray[np.uint64] | None]:
        """An earlier truth to begin from, what has changed since, and the digests of all rows now."""
        rows = self.dataset.corpus.rows
        for entry in self.entries:
            if self.prefixes.get(entry.corpus_rows) == entry.vectors:
                change = Change.appended(entry.corpus_rows, rows)
                return entry, change, self._extended(entry)
        now = self._digests() if self.entries else None
        for entry in self.entries:
            before = entry.digests() if now is not None else None
            if now is None or before is None:
                continue
            change = Change.between(before, now)
            gone = int((change.place < 0).sum())
            if max(gone / len(before), len(change.added) / rows) < _MOST_CHANGED:
                return entry, change, now
        return None, None, now

    def _extended(self, entry: Entry) -> NDArray[np.uint64] | None:
        before = entry.digests()
        if before is None or self.dataset.corpus.rows > _MOST_DIGESTS:
            return self._digests()
        return np.concatenate([before, self._digests_from(entry.corpus_rows)])

    def _digests(self) -> NDArray[np.uint64] | None:
        return None if self.dataset.corpus.rows > _MOST_DIGESTS else self._digests_from(0)

    def _digests_from(self, first: int) -> NDArray[np.uint64]:
        parts = []
        for start, block in blocks(self.dataset.corpus.vectors):
            if start + len(block) > first:
                parts.append(row_digests(block[max(0, first - start) :]))
        return np.concatenate(parts)
