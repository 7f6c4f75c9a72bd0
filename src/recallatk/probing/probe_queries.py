"""The queries of a probe: a file of real ones, or rows of the collection itself."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from recallatk.core import Metric
from recallatk.datasets.call_sets import require_one_set, sets_in, split_calls
from recallatk.datasets.checks import checked
from recallatk.datasets.formats.query_log import is_query_log
from recallatk.datasets.matrix import gather
from recallatk.datasets.opening import make_queries, open_corpus, open_queries
from recallatk.datasets.sampling import latest_queries, sample_rows
from recallatk.errors import MismatchError, UsageError
from recallatk.files import locate
from recallatk.filters import And, parse_filter

if TYPE_CHECKING:
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
    collection: Collection,
    queries: Any,
    where: Filter | str | None,
    sample: int,
    seed: int,
    *,
    recent: int | None = None,
    one_setting: bool = False,
) -> ProbeQueries:
    """Queries that fit the collection.

    Args:
        collection: where they will be asked.
        queries: data in any form, or None for rows of the collection.
        where: a filter for all queries, in addition to their own.
        sample: number of rows that serve as queries where there are none.
        seed: random seed of the sample and of the order.
        recent: number of the latest queries to ask; None for all.
        one_setting: refuse a query log whose calls have different settings.
    """
    own_ids: list[Any] | None = None
    if seed < 0:
        raise UsageError(f"a seed of {seed}. Accepted: 0 or more")
    if queries is None and recent is not None:
        raise UsageError("the latest queries are asked for, and there are none: give --queries with --recent")
    if queries is None:
        if sample < 1:
            raise UsageError(f"a sample of {sample} rows. Accepted: 1 or more")
        own_ids, opened = _own_rows(collection, sample, seed)
    else:
        opened = open_queries(queries)
        opened = opened if recent is None else latest_queries(opened, recent)
        if one_setting:
            _require_one_setting(queries, opened)
    _require_fit(collection, opened)
    if where is not None:
        opened = _restricted(opened, parse_filter(where) if isinstance(where, str) else where)
    metric = collection.discovery().metric
    vectors = checked(opened, None if metric is None else Metric(metric)).read(0, opened.rows)
    filters = opened.filters or (None,) * opened.rows
    order = np.random.default_rng(seed).permutation(opened.rows)
    return ProbeQueries(opened, np.asarray(vectors), filters, order, own_ids)


def _own_rows(collection: Collection, sample: int, seed: int) -> tuple[list[Any], QuerySet]:
    """Rows of the collection, or of the corpus that its target names."""
    if collection.corpus is None:
        ids, drawn = collection.sample(sample, seed)
        return ids, make_queries(drawn)
    corpus = open_corpus(collection.corpus)
    rows = sample_rows(corpus, min(sample, corpus.rows), seed=seed)
    return corpus.ids.take(pa.array(rows)).to_pylist(), make_queries(
        gather(corpus.vectors, rows).read(0, len(rows))
    )


def _require_one_setting(queries: Any, opened: QuerySet) -> None:
    """Refuse calls of a log with different settings: a probe measures one."""
    if not isinstance(queries, str | os.PathLike):
        return
    where, _ = split_calls(queries)
    if Path(where).is_dir() and is_query_log(locate(where).children()):
        instead = "To ask all of them with one setting, state it: --search NAME=VALUE. "
        require_one_set(sets_in(opened.metadata, os.fspath(queries)), os.fspath(queries), instead)


def _restricted(queries: QuerySet, condition: Filter) -> QuerySet:
    own = queries.filters or (None,) * queries.rows
    both = tuple(condition if each is None else And((each, condition)) for each in own)
    return replace(queries, filters=both)


def _require_fit(collection: Collection, queries: QuerySet) -> None:
    found, _ = collection.discovery(), queries.ids  # which refuses duplicate and null ids
    if not queries.rows:
        raise UsageError("the query set is empty: there is nothing to ask")
    if found.dimension is not None and queries.dimension != found.dimension:
        raise MismatchError(
            f"dimension mismatch: {found.target} has vectors of {found.dimension:,} dimensions, the queries "
            f"{queries.dimension:,}. Use queries of the same embedding model"
        )
