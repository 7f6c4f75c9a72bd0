"""Survey of a corpus and its queries in one pass: duplicates, norms, and a sample of rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.core import blocks
from recallatk.digests import duplicates, vector_digests
from recallatk.filters.eligibility import distinct_filters
from recallatk.pair_scores import norms

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recallatk.core import Dataset, Vectors

# Larger corpora are subsampled by digest value, which keeps duplicates of a row together.
_MOST_DIGESTS = 4_000_000
_SAMPLE_ROWS = 4_000
_DIGEST = [("a", np.uint64), ("b", np.uint64)]
_SEED = 0


@dataclass(frozen=True, eq=False)
class Survey:
    """Facts about the vectors from one pass."""

    duplicate_share: float
    """Share of corpus rows that have a duplicate."""
    largest_group: int
    """Number of rows in the largest group of duplicates."""
    found_queries: NDArray[np.bool_]
    """Queries whose vector equals a corpus row."""
    repeated_queries: NDArray[np.bool_]
    """Queries that have a duplicate with the same filter."""
    sample_rows: NDArray[np.int64]
    sample: NDArray[np.float64]
    """A uniform sample of corpus rows, in corpus order."""
    neighbors: NDArray[np.float64]
    """The row after each sampled row; for the last row, the one before it."""
    sample_norms: NDArray[np.float64]
    queries: NDArray[Any]
    query_norms: NDArray[np.float64]

    def of_some(self, numbers: NDArray[np.int64], dataset: Dataset) -> Survey:
        """The survey for a subset of the queries, without reading the data again."""
        queries = self.queries[numbers]
        return replace(
            self,
            found_queries=self.found_queries[numbers],
            repeated_queries=_repeated(vector_digests(queries), dataset),
            queries=queries,
            query_norms=self.query_norms[numbers],
        )


def matching_digests(block: NDArray[Any], dtype: np.dtype[Any]) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Digests of the vectors cast to another type, and which of them that type represents exactly."""
    with np.errstate(all="ignore"):
        cast = block.astype(dtype, copy=False)
    return vector_digests(cast), np.asarray((cast == block).all(axis=1))


def survey(dataset: Dataset) -> Survey:
    """Read everything once."""
    corpus = dataset.corpus.vectors
    queries = np.array(dataset.queries.vectors.read(0, dataset.queries.rows))
    asked, held = matching_digests(queries, corpus.dtype)
    rows = _sample_rows(corpus.shape[0])
    after = np.minimum(rows + 1, corpus.shape[0] - 1)
    after = np.where(after == rows, np.maximum(rows - 1, 0), after)
    looked = _Pass(corpus, asked, np.union1d(rows, after))
    taken = looked.taken
    sample = taken[np.searchsorted(looked.wanted, rows)]
    return Survey(
        *looked.copies(),
        found_queries=held & np.isin(asked, looked.found),
        repeated_queries=_repeated(vector_digests(queries), dataset),
        sample_rows=rows,
        sample=sample,
        neighbors=taken[np.searchsorted(looked.wanted, after)],
        sample_norms=norms(sample),
        queries=queries,
        query_norms=norms(queries),
    )


class _Pass:
    """One pass over the corpus, block by block."""

    def __init__(self, vectors: Vectors, asked: NDArray[Any], wanted: NDArray[np.int64]) -> None:
        count, dimension = vectors.shape
        self.wanted, self.taken = wanted, np.empty((len(wanted), dimension))
        self.modulus = np.uint64(-(-count // _MOST_DIGESTS))
        self._kept: list[NDArray[Any]] = []
        found: list[NDArray[Any]] = []
        for start, block in blocks(vectors):
            first, last = np.searchsorted(wanted, [start, start + len(block)])
            self.taken[first:last] = block[wanted[first:last] - start]
            values = vector_digests(block)
            # Compare half digests first, whole ones only where these match: it is faster.
            alike = values[np.isin(values["a"], asked["a"])]
            found.append(alike[np.isin(alike, asked)])
            self._kept.append(values[values["a"] % self.modulus == 0])
        self.found = np.concatenate(found)

    def copies(self) -> tuple[float, int]:
        """The share of rows that have a duplicate, and the size of the largest group."""
        return duplicates(np.concatenate(self._kept))


def _sample_rows(count: int) -> NDArray[np.int64]:
    if count <= _SAMPLE_ROWS:
        return np.arange(count)
    drawn = np.random.default_rng(_SEED).choice(count, _SAMPLE_ROWS, replace=False)
    return np.sort(drawn).astype(np.int64)


def _repeated(asked: NDArray[Any], dataset: Dataset) -> NDArray[np.bool_]:
    """Which queries have a duplicate; equal vectors with different filters are different queries."""
    group = np.zeros(len(asked), np.int64)
    if dataset.queries.filters is not None:
        group = distinct_filters(dataset.queries.filters).numbers
    whole = np.empty(len(asked), [*_DIGEST, ("filter", np.int64)])
    whole["a"], whole["b"], whole["filter"] = asked["a"], asked["b"], group
    _, inverse, sizes = np.unique(whole, return_inverse=True, return_counts=True)
    return np.asarray(sizes[inverse.reshape(-1)] > 1)
