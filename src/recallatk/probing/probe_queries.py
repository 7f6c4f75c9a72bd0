"""The queries of a probe: a file of real ones, or rows of the collection itself."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.datasets.opening import make_queries, open_queries
from recallatk.errors import MismatchError, UsageError
from recallatk.filters import And, parse_filter

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from recallatk.adapters.collection import Collection
    from recallatk.core import QuerySet
    from recallatk.filters import Filter


@dataclass(frozen=True, eq=False)
class ProbeQueries:
    """Queries in random order, so that a probe may stop after any of them."""

    queries: QuerySet
    """In the order of the file."""
    vectors: NDArray[Any]
    filters: tuple[Filter | None, ...]
    order: NDArray[np.int64]
    """Places in the order in which they are asked."""
    own_ids: list[Any] | None = None
    """The id of each query's own row, which is no answer; None for real queries."""

    @property
    def sampled(self) -> bool:
        """Whether the queries are rows of the collection."""
        return self.own_ids is not None

    @property
    def columns(self) -> pa.Table:
        """The columns of the queries."""
        return self.queries.metadata

    def __len__(self) -> int:
        return len(self.order)


def probe_queries(
    collection: Collection, queries: Any, where: Filter | str | None, sample: int, seed: int
) -> ProbeQueries:
    """Queries that fit the collection.

    Args:
        collection: where they will be asked.
        queries: data in any form, or None for rows of the collection.
        where: a filter for all queries, in addition to their own.
        sample: number of rows that serve as queries where there are none.
        seed: random seed of the sample and of the order.
    """
    own_ids: list[Any] | None = None
    if queries is None:
        if sample < 1:
            raise UsageError(f"a sample of {sample} rows. Accepted: 1 or more")
        own_ids, drawn = collection.sample(sample, seed)
        opened = make_queries(drawn)
    else:
        opened = open_queries(queries)
    _require_fit(collection, opened)
    if where is not None:
        opened = _restricted(opened, parse_filter(where) if isinstance(where, str) else where)
    vectors = opened.vectors.read(0, opened.rows)
    filters = opened.filters or (None,) * opened.rows
    order = np.random.default_rng(seed).permutation(opened.rows)
    return ProbeQueries(opened, np.asarray(vectors), filters, order, own_ids)


def _restricted(queries: QuerySet, condition: Filter) -> QuerySet:
    own = queries.filters or (None,) * queries.rows
    both = tuple(condition if each is None else And((each, condition)) for each in own)
    return replace(queries, filters=both)


def _require_fit(collection: Collection, queries: QuerySet) -> None:
    found = collection.discovery()
    if not queries.rows:
        raise UsageError("the query set is empty: there is nothing to ask")
    if found.dimension is not None and queries.dimension != found.dimension:
        raise MismatchError(
            f"dimension mismatch: {found.target} has vectors of {found.dimension:,} dimensions, the queries "
            f"{queries.dimension:,}. Use queries of the same embedding model"
        )
