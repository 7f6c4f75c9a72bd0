"""One pass over a corpus and its queries: copies, norms, and some rows to look at closely."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.core import blocks
from recallatk.digests import row_digests
from recallatk.filters.eligibility import distinct_filters
from recallatk.pair_scores import norms

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recallatk.core import Dataset, Vectors

# Rows beyond this many are counted by one of so many digests, which keeps copies of a row together.
_MOST_DIGESTS = 4_000_000
_SAMPLE_ROWS = 4_000
_DIGEST = [("a", np.uint64), ("b", np.uint64)]
_SEED = 0


@dataclass(frozen=True, eq=False)
class Survey:
    """What one pass over the vectors tells."""

    duplicate_share: float
    """Of the corpus rows, those that another row equals."""
    largest_group: int
    """How many rows the largest group of equal rows has."""
    found_queries: NDArray[np.bool_]
    """Which queries are, number for number, a row of the corpus."""
    repeated_queries: NDArray[np.bool_]
    """Which queries another query equals, under the same filter."""
    sample_rows: NDArray[np.int64]
    sample: NDArray[np.float64]
    """Some rows of the corpus, evenly drawn, in their order."""
    neighbors: NDArray[np.float64]
    """The row after each of these, or the one before the last."""
    sample_norms: NDArray[np.float64]
    queries: NDArray[Any]
    query_norms: NDArray[np.float64]

    def of_some(self, numbers: NDArray[np.int64], dataset: Dataset) -> Survey:
        """The same corpus with some of the queries, which are those of a dataset; nothing is read for it."""
        queries = self.queries[numbers]
        return replace(
            self,
            found_queries=self.found_queries[numbers],
            repeated_queries=_repeated(digests(queries), dataset),
            queries=queries,
            query_norms=self.query_norms[numbers],
        )


def digests(block: NDArray[Any]) -> NDArray[Any]:
    """One value per vector, equal where vectors are equal."""
    # Adding 0 leaves only one of the two zeros.
    plain = np.ascontiguousarray(block + block.dtype.type(0))
    found: NDArray[Any] = row_digests(plain).view(_DIGEST)[:, 0]
    return found


def matching_digests(block: NDArray[Any], dtype: np.dtype[Any]) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """The digests of vectors as another type has them, and which of them that type can hold as they are."""
    with np.errstate(all="ignore"):
        cast = block.astype(dtype, copy=False)
    return digests(cast), np.asarray((cast == block).all(axis=1))


def survey(dataset: Dataset) -> Survey:
    """Look at everything once."""
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
        repeated_queries=_repeated(digests(queries), dataset),
        sample_rows=rows,
        sample=sample,
        neighbors=taken[np.searchsorted(looked.wanted, after)],
        sample_norms=norms(sample),
        queries=queries,
        query_norms=norms(queries),
    )


class _Pass:
    """The corpus, block by block."""

    def __init__(self, vectors: Vectors, asked: NDArray[Any], wanted: NDArray[np.int64]) -> None:
        count, dimension = vectors.shape
        self.wanted, self.taken = wanted, np.empty((len(wanted), dimension))
        self.modulus = np.uint64(-(-count // _MOST_DIGESTS))
        self._kept: list[NDArray[Any]] = []
        found: list[NDArray[Any]] = []
        for start, block in blocks(vectors):
            first, last = np.searchsorted(wanted, [start, start + len(block)])
            self.taken[first:last] = block[wanted[first:last] - start]
            values = digests(block)
            # Halves of digests first: whole ones are compared only where these agree.
            alike = values[np.isin(values["a"], asked["a"])]
            found.append(alike[np.isin(alike, asked)])
            self._kept.append(values[values["a"] % self.modulus == 0])
        self.found = np.concatenate(found)

    def copies(self) -> tuple[float, int]:
        """The share of rows that have a copy, and how many the largest group has."""
        kept = np.concatenate(self._kept)
        if not len(kept):
            return 0.0, 1
        _, sizes = np.unique(kept, return_counts=True)
        return float(sizes[sizes > 1].sum() / len(kept)), int(sizes.max())


def _sample_rows(count: int) -> NDArray[np.int64]:
    if count <= _SAMPLE_ROWS:
        return np.arange(count)
    drawn = np.random.default_rng(_SEED).choice(count, _SAMPLE_ROWS, replace=False)
    return np.sort(drawn).astype(np.int64)


def _repeated(asked: NDArray[Any], dataset: Dataset) -> NDArray[np.bool_]:
    """Equal vectors with different filters are different queries."""
    group = np.zeros(len(asked), np.int64)
    if dataset.queries.filters is not None:
        group = distinct_filters(dataset.queries.filters).numbers
    whole = np.empty(len(asked), [*_DIGEST, ("filter", np.int64)])
    whole["a"], whole["b"], whole["filter"] = asked["a"], asked["b"], group
    _, inverse, sizes = np.unique(whole, return_inverse=True, return_counts=True)
    return np.asarray(sizes[inverse.reshape(-1)] > 1)
