"""A short computation on a part of the data, from which the time of a whole truth is predicted."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.core import ArrayVectors, Corpus, Dataset, QuerySet
from recallatk.filters.eligibility import Eligibility
from recallatk.fingerprint import fingerprint_vectors
from recallatk.truths.candidates import ShardCandidates, merged
from recallatk.truths.memory_plan import MemoryPlan
from recallatk.truths.search import ExactSearch

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recallatk.truths.space import Rotation, Space

# Batches of this many queries are scanned at once, so that as many stand for any number of them.
_QUERIES = 1024
# The larger of the two computations: so many operations, and no more memory than this.
_OPERATIONS, _BYTES = 2e11, 256 << 20
# The smaller one has this share of its rows: from the two follow the time of a row and that of a query.
_SHARE = 4
_ROUNDS = 3
# Short reads are repeated, because the first ones also start libraries and threads.
_READS, _READING_SECONDS = 5, 0.5


@dataclass(frozen=True)
class Pilot:
    """What parts of a computation take on this machine, in seconds."""

    queries: int
    """Number of queries that were asked."""
    threads: int
    row_seconds: float
    """Scanning one row for these queries, with all threads."""
    batch_seconds: float
    """Whatever these queries cost, however many rows there are: scores, order, certificates."""
    byte_seconds: float
    """Reading a byte of the corpus and taking its fingerprint."""
    merge_seconds: float
    """Merging the candidates of two shards for these queries."""
    looking_seconds: float
    """Looking for axes that make the scan cheaper."""


def measure(dataset: Dataset, depth: int, threads: int, kernel: tuple[str, str | None]) -> Pilot:
    """Compute a truth of some queries on some rows, twice, and time it.

    Args:
        dataset: the data; only their beginning is read.
        depth: neighbors to keep.
        threads: how many cores to use.
        kernel: compute backend and device.
    """
    corpus = dataset.corpus
    row_bytes = corpus.dimension * corpus.vectors.dtype.itemsize
    queries = min(_QUERIES, dataset.queries.rows)
    most = min(_OPERATIONS / (2 * queries * corpus.dimension), _BYTES / row_bytes, corpus.rows)
    rows = max(1, int(most))
    array, read_seconds = _read(corpus, rows)
    asked = np.array(dataset.queries.vectors.read(0, queries))
    sizes = sorted({max(1, rows // _SHARE), rows})
    seconds = dict.fromkeys(sizes, np.inf)
    looking = 0.0
    for _ in range(_ROUNDS):
        for size in sizes:
            part = _part(dataset, array[:size], asked)
            search = _PilotSearch(part, depth, threads, kernel, whole=dataset)
            started = time.perf_counter()
            search.run()
            # Background load only adds time, so the fastest of several counts.
            took = time.perf_counter() - started - search.looking_seconds
            seconds[size] = min(seconds[size], took)
            looking = max(looking, search.looking_seconds)
    row_seconds = seconds[rows] / rows
    if len(sizes) > 1:
        row_seconds = max(0.0, seconds[rows] - seconds[sizes[0]]) / (rows - sizes[0])
    return Pilot(
        queries,
        threads,
        row_seconds,
        max(0.0, seconds[rows] - row_seconds * rows),
        read_seconds / (rows * row_bytes),
        _merge_seconds(dataset, depth, queries),
        looking,
    )


def _read(corpus: Corpus, rows: int) -> tuple[NDArray[Any], float]:
    """The first rows, and how long it takes to read them and to take their fingerprint."""
    # Opening a file takes as long for one row as for all, so it is no part of the time of a byte.
    array = np.array(corpus.vectors.read(0, 1))
    fingerprint_vectors(ArrayVectors(array))
    fastest, spent = np.inf, 0.0
    for _ in range(_READS):
        started = time.perf_counter()
        array = np.array(corpus.vectors.read(0, rows))
        fingerprint_vectors(ArrayVectors(array))
        took = time.perf_counter() - started
        fastest, spent = min(fastest, took), spent + took
        if spent > _READING_SECONDS:
            break
    return array, fastest


def _part(dataset: Dataset, rows: NDArray[Any], queries: NDArray[Any]) -> Dataset:
    corpus = Corpus(dataset.corpus.name, ArrayVectors(rows), dataset.corpus.columns)
    asked = QuerySet(dataset.queries.name, ArrayVectors(queries), dataset.queries.columns)
    return Dataset(corpus, asked, dataset.metric)


class _PilotSearch(ExactSearch):
    """A search on a part of the data that scans as the whole would be scanned."""

    def __init__(
        self, dataset: Dataset, depth: int, threads: int, kernel: tuple[str, str | None], *, whole: Dataset
    ) -> None:
        rows, queries = dataset.corpus.rows, dataset.queries.rows
        every = Eligibility((None,), np.zeros(queries, np.int64), None, rows)
        planned = MemoryPlan(rows, queries)
        super().__init__(
            dataset, depth, planned, threads=threads, backend=kernel[0], device=kernel[1], eligibility=every
        )
        self.whole = whole
        self.looking_seconds = 0.0

    def _rotation(self, space: Space, group: NDArray[np.int64], k: int) -> Rotation | None:
        started = time.perf_counter()
        some = ExactSearch._rotation(self, space, group, k)
        self.looking_seconds += time.perf_counter() - started
        return some

    def _int8_pays(self, space: Space, group: NDArray[np.int64], k: int) -> bool:
        started, before = time.perf_counter(), self.looking_seconds
        pays = ExactSearch._int8_pays(self, space, group, k)
        self.looking_seconds = before + time.perf_counter() - started
        return pays

    def _pairs(self, group: NDArray[np.int64]) -> tuple[int, int]:
        return self.whole.queries.rows, self.whole.corpus.rows


def _merge_seconds(dataset: Dataset, depth: int, queries: int) -> float:
    k = depth + 1
    random = np.random.default_rng(0)
    offsets = np.arange(queries + 1) * k
    scores = np.sort(random.random((queries, k)), axis=1).reshape(-1)
    shard = ShardCandidates(offsets, np.arange(len(scores)), scores, np.full(len(scores), 1e-12))
    started = time.perf_counter()
    merged(dataset.metric, [shard, replace(shard, rows=shard.rows + len(scores))], k)
    return time.perf_counter() - started
