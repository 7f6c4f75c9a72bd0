"""Exact ground truth as a function: a dataset and a depth in, a certified truth out."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from recallatk.errors import MismatchError, UsageError
from recallatk.fingerprint import fingerprint_prefixes, fingerprints
from recallatk.truth.budget import plan
from recallatk.truth.reading import held
from recallatk.truth.search import BACKENDS, Search
from recallatk.truth.updating import Change, redo

if TYPE_CHECKING:
    from collections.abc import Callable

    from recallatk.core import Dataset, Truth
    from recallatk.truth.checkpoint import Checkpoint
    from recallatk.truth.results import Results

_DEEPEST = 100_000


def ground_truth(
    dataset: Dataset,
    *,
    depth: int = 100,
    memory: int | str | None = None,
    threads: int | None = None,
    backend: str = "blas",
    block_bytes: int | None = None,
    since: Truth | None = None,
    progress: Callable[[int, int], None] | None = None,
    checkpoint: Checkpoint | None = None,
) -> Truth:
    """The best `depth` eligible rows of every query, proven, with float64 scores and complete ties.

    The result does not depend on any argument after `depth`, to the last bit of every score.

    Args:
        dataset: the corpus, the queries with their filters, and the metric.
        depth: how many rows to keep for each query.
        memory: how much to use beyond what the process has, as bytes or text such as `1GiB`.
        threads: how many cores to use; all by default.
        backend: whose kernel scans: `blas` (NumPy's) or `faiss`.
        block_bytes: how much of the corpus to hold at a time, where the budget should not decide.
        since: an earlier truth of the same queries, on a corpus that this one begins with: only the rows
            after these are scanned.
        progress: called with the pairs of query and row that are done, and how many there are.
        checkpoint: where to keep what is done, and to go on from if it was begun before.
    """
    require_depth(depth)
    require_backend(backend)
    threads = count_threads(threads)
    planned = plan(dataset, depth, memory, threads, block_bytes)
    whole = held(dataset, planned.block_rows)
    search = Search(
        whole,
        depth,
        planned,
        threads=threads,
        backend=backend,
        progress=progress,
        checkpoint=checkpoint,
    )

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
        # What is in memory can be read by two threads at once.
        coming = beside.submit(_prints, whole, since)
        return found().truth(whole, coming.result())


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
        raise MismatchError(f"an earlier truth cannot be brought up to date: other {', '.join(differ)}")


def require_depth(depth: object) -> None:
    """Refuse what is no depth."""
    if isinstance(depth, bool) or not isinstance(depth, int) or not 1 <= depth <= _DEEPEST:
        raise UsageError(f"a depth of {depth}. Accepted: whole numbers from 1 to {_DEEPEST:,}")


def require_backend(backend: str) -> None:
    """Refuse a kernel that does not exist."""
    if backend not in BACKENDS:
        raise UsageError(f"no backend {backend!r}. Accepted: {' or '.join(BACKENDS)}")


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
