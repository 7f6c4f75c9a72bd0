"""Query batches, which every search takes, and the arrays that engines exchange with libraries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from recallatk.filters import Filter


class QueryBatch:
    """The queries of one search call, prepared before the clock starts.

    Args:
        vectors: (queries, dimension), as they are stored.
        filters: the filter of each query, None for a query without one; None if no query has one.
        rows: the number of each query in its query set, if known.
        texts: the text of each query, for engines that rank by words.
        sparse: the sparse vector of each query, as a list of (term, weight) pairs.
    """

    # Slots: a timed search reads two of them, and a plain call must cost no more than passing the matrix.
    __slots__ = ("count", "filters", "rows", "sparse", "texts", "vectors")

    def __init__(
        self,
        vectors: NDArray[Any],
        filters: Sequence[Filter | None] | None = None,
        *,
        rows: Sequence[int] | NDArray[np.int64] | None = None,
        texts: Sequence[str] | None = None,
        sparse: Sequence[Sequence[tuple[int, float]]] | None = None,
    ) -> None:
        self.vectors = vectors
        self.count = len(vectors)
        self.filters = None if filters is None or all(each is None for each in filters) else filters
        self.rows, self.texts, self.sparse = rows, texts, sparse

    def __len__(self) -> int:
        return self.count

    def by_filter(self) -> list[tuple[Filter | None, list[int]]]:
        """Positions of the queries grouped by filter, for engines that take one filter per call."""
        groups: dict[Filter | None, list[int]] = {}
        for place, each in enumerate(self.filters or [None] * self.count):
            groups.setdefault(each, []).append(place)
        return list(groups.items())


def float32_matrix(vectors: NDArray[Any], *, unit: bool = False) -> NDArray[np.float32]:
    """A contiguous float32 matrix, normalized where inner product stands for cosine.

    Queries are not normalized: the norm of a query does not change its ranking.
    """
    if not unit:
        return np.ascontiguousarray(vectors, dtype=np.float32)
    wide = vectors.astype(np.float64)
    wide /= np.linalg.norm(wide, axis=1, keepdims=True)
    return np.ascontiguousarray(wide, dtype=np.float32)


def padded(found: Sequence[Iterable[int]], k: int) -> NDArray[np.int64]:
    """Answers of any length as a matrix with k columns, padded with -1."""
    answers = np.full((len(found), k), -1, np.int64)
    for line, rows in zip(answers, found, strict=True):
        listed = list(rows)[:k]
        line[: len(listed)] = listed
    return answers


def completed(metadata: pa.Table | None, schema: pa.Schema, rows: int) -> pa.Table:
    """The metadata of inserted rows with all corpus columns; missing columns are null."""
    import pyarrow as pa

    given = pa.table({}) if metadata is None else metadata
    columns = [
        given[each.name].cast(each.type) if each.name in given.column_names else pa.nulls(rows, each.type)
        for each in schema
    ]
    return pa.table(columns, schema)
