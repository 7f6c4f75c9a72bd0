"""Synthetic filters for data without natural ones: selectivity and correlation as controlled axes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from recallatk.core import ArrayVectors, Dataset, QuerySet
from recallatk.datasets.layout import ID_NAMES
from recallatk.datasets.matrix import TableColumns
from recallatk.datasets.opening import open_dataset
from recallatk.datasets.pivots import nearest_pivot, row_order
from recallatk.errors import UsageError, choices
from recallatk.filters import Equals, Range
from recallatk.filters.expression import SYNTHETIC

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from recallatk.core import Columns, Metric
    from recallatk.filters import Filter

SELECTIVITIES = (0.5, 0.1, 0.01, 0.001, 0.0001)
NEGATIVE, NONE, POSITIVE = "negative", "none", "positive"
CORRELATIONS = (NEGATIVE, NONE, POSITIVE)

# Filters that admit a smaller share get a set of rows around each query: the region around a shared pivot
# would hold too few of its neighbors.
_SHARED_PIVOTS_FROM = 0.1
_MOST_PIVOTS, _MOST_GROUPS, _MOST_WINDOWS = 16, 1_000, 8
# Groups in one column have distinct rows: beyond half of all rows, the last groups would find none near.
_GROUPED_SHARE = 0.5
_MOST_GROUP_COLUMNS = 4
_RANDOM, _NEAR, _GROUP = f"{SYNTHETIC}random", f"{SYNTHETIC}near_", f"{SYNTHETIC}group_"
_SOURCE, _ID = f"{SYNTHETIC}source", f"{SYNTHETIC}id"
_LABELS = (f"{SYNTHETIC}selectivity", f"{SYNTHETIC}correlation")


@dataclass(frozen=True)
class Cell:
    """One combination of selectivity and correlation."""

    selectivity: float
    """Share of the corpus rows that each filter of the cell admits, as requested."""
    correlation: str
    """negative, none or positive: whether a query's neighbors pass less, as or more often than other rows."""
    rows: int
    """Corpus rows that each filter admits."""
    queries: int


@dataclass(frozen=True, eq=False)
class Workload:
    """A dataset with synthetic filters."""

    dataset: Dataset
    """The corpus with the columns that the filters read, and the queries with their filters."""
    cells: tuple[Cell, ...]
    left_out: tuple[float, ...] = ()
    """Selectivities that would admit less than one row."""


def workload(
    corpus: Any,
    queries: Any = None,
    *,
    metric: Metric | str | None = None,
    selectivities: Sequence[float] = SELECTIVITIES,
    correlations: Sequence[str] = CORRELATIONS,
    crossed: bool = False,
    seed: int = 0,
    format: str | None = None,
    id_column: str | None = None,
    vector_column: str | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Workload:
    """Give queries without filters synthetic ones; the same data and seed give the same filters.

    Args:
        corpus: a path, data in memory, or a Dataset, as in `open_dataset`.
        queries: likewise.
        metric: cosine, ip or l2.
        selectivities: shares of the corpus rows that filters admit, from 0 to 1.
        correlations: any of negative, none and positive.
        crossed: every query gets every filter, instead of one of them. Numbers the queries anew.
        seed: random seed.
        format: the files' format, if it cannot be told.
        id_column: the column of ids.
        vector_column: the column of vectors.
        progress: called with the combinations done and their number.
    """
    dataset = open_dataset(
        corpus, queries, metric=metric, format=format, id_column=id_column, vector_column=vector_column
    )
    _require_plain(dataset)
    _require_axes(selectivities, correlations)
    rows = dataset.corpus.rows
    levels = [each for each in dict.fromkeys(selectivities) if each * rows >= 1]
    left_out = tuple(each for each in dict.fromkeys(selectivities) if each * rows < 1)
    pairs = [(level, kind) for level in levels for kind in dict.fromkeys(correlations)]
    if not pairs:
        raise UsageError(f"{rows:,} rows are too few for a selectivity of {selectivities[0]:g}")
    cell_of, query_of = _dealt(dataset.queries.rows, len(pairs), crossed, seed)
    made = _Filters(dataset, np.random.default_rng([seed, 1]))
    for number, (level, kind) in enumerate(pairs):
        if progress is not None:
            progress(number, len(pairs))
        made.add(query_of[cell_of == number], np.flatnonzero(cell_of == number), level, kind)
    counts = np.bincount(cell_of, minlength=len(pairs))
    cells = tuple(
        Cell(level, kind, _admitted(level, rows), int(count))
        for (level, kind), count in zip(pairs, counts, strict=True)
    )
    labels = [(cells[number].selectivity, cells[number].correlation) for number in cell_of]
    asked = _asked(dataset.queries, query_of, [made.filters[each] for each in range(len(query_of))], labels)
    searched = replace(dataset.corpus, columns=_Joined(dataset.corpus.columns, made.table()))
    return Workload(replace(dataset, corpus=searched, queries=asked), cells, left_out)


def _require_plain(dataset: Dataset) -> None:
    if dataset.queries.filtered or "filter" in dataset.queries.metadata_names:
        raise UsageError(
            f"{dataset.queries.name}: the queries have filters already. Accepted: queries without the column "
            "'filter'. Remove it from the file"
        )
    for records in (dataset.corpus, dataset.queries):
        taken = [each for each in records.columns.schema.names if each.startswith(SYNTHETIC)]
        if taken:
            raise UsageError(
                f"{records.name}: the column {taken[0]!r} begins with {SYNTHETIC!r}, which marks columns of "
                "a synthetic workload. Rename it, or pass the original files"
            )


def _require_axes(selectivities: Sequence[float], correlations: Sequence[str]) -> None:
    for share in selectivities:
        if not 0 < share < 1:
            raise UsageError(
                f"selectivity {share:g} ({share * 100:g} %). Accepted: above 0 and below 1 (100 %), e.g. 0.01"
            )
    for kind in correlations:
        if kind not in CORRELATIONS:
            raise UsageError(f"correlation {kind!r}. Accepted: {choices(CORRELATIONS)}")
    if not selectivities or not correlations:
        raise UsageError("a workload needs at least one selectivity and one correlation")


def _admitted(share: float, rows: int) -> int:
    return max(1, round(share * rows))


def _dealt(queries: int, cells: int, crossed: bool, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The cell of each new query, and the query that it was made from."""
    if crossed:
        return np.repeat(np.arange(cells), queries), np.tile(np.arange(queries), cells)
    if queries < cells:
        raise UsageError(
            f"{queries:,} queries are too few for {cells} combinations of selectivity and correlation. "
            "Accepted: more queries, fewer combinations, or every query in each of them: --crossed"
        )
    turns = np.random.default_rng([seed, 0]).permutation(queries)
    cell_of = np.empty(queries, np.int64)
    cell_of[turns] = np.arange(queries) % cells
    return cell_of, np.arange(queries)


class _Filters:
    """The filters of all queries, and the corpus columns that they read."""

    def __init__(self, dataset: Dataset, random: np.random.Generator) -> None:
        self.random, self.rows = random, dataset.corpus.rows
        self.corpus, self.metric = dataset.corpus, dataset.metric
        self.vectors = np.array(dataset.queries.vectors.read(0, dataset.queries.rows))
        self.filters: dict[int, Filter] = {}
        self.columns: dict[str, NDArray[np.int64]] = {}
        self.pivots = random.permutation(len(self.vectors))[:_MOST_PIVOTS]

    def add(
        self, queries: NDArray[np.int64], places: NDArray[np.int64], share: float, correlation: str
    ) -> None:
        """Make the filters of one cell: `queries` are its vectors, `places` its new queries."""
        if correlation == NONE:
            conditions = self._random_windows(len(queries), share)
        elif correlation == POSITIVE and share < _SHARED_PIVOTS_FROM:
            conditions = self._groups(queries, share)
        else:
            conditions = self._around_pivots(queries, share, far=correlation == NEGATIVE)
        self.filters |= dict(zip(places.tolist(), conditions, strict=True))

    def table(self) -> pa.Table:
        """The columns that the filters read."""
        read = frozenset[str]().union(*(each.columns() for each in self.filters.values()))
        return pa.table({name: pa.array(values) for name, values in self.columns.items() if name in read})

    def _random_windows(self, count: int, share: float) -> list[Filter]:
        """Windows of a random order of the rows, which no query's neighbors prefer."""
        if _RANDOM not in self.columns:
            self.columns[_RANDOM] = self.random.permutation(self.rows)
        size = _admitted(share, self.rows)
        windows = min(_MOST_WINDOWS, self.rows // size)
        starts = self.random.integers(windows, size=count) * size
        return [_within(_RANDOM, int(start), size, self.rows) for start in starts]

    def _around_pivots(self, queries: NDArray[np.int64], share: float, *, far: bool) -> list[Filter]:
        """The rows nearest to a query's pivot, or farthest from it; the pivot is the nearest of a few."""
        ranked = self._ranked()
        size = _admitted(share, self.rows)
        start = self.rows - size if far else 0
        return [_within(f"{_NEAR}{ranked[query]}", start, size, self.rows) for query in queries]

    def _ranked(self) -> NDArray[np.int64]:
        """The pivot of every query; ranks of the rows by distance to each pivot become columns."""
        names = [f"{_NEAR}{number}" for number in range(len(self.pivots))]
        if names[0] not in self.columns:
            for number, order in row_order(self.corpus, self.vectors[self.pivots], self.metric):
                ranks = np.empty(self.rows, np.int64)
                ranks[order] = np.arange(self.rows)
                self.columns[names[number]] = ranks
        return nearest_pivot(self.vectors, self.vectors[self.pivots], self.metric)

    def _groups(self, queries: NDArray[np.int64], share: float) -> list[Filter]:
        """A set of rows around each query, or around the nearest of as many as there is room for.

        Of the rows near the query, more than half pass, and no others.
        """
        size = _admitted(share, self.rows)
        in_column = max(1, int(_GROUPED_SHARE * self.rows) // size)
        most = min(_MOST_GROUPS, in_column * _MOST_GROUP_COLUMNS)
        centers = np.sort(self.random.permutation(queries)[:most])
        levels = {name.split("_")[2] for name in self.columns if name.startswith(_GROUP)}
        prefix = f"{_GROUP}{len(levels)}_"
        near = round(size / ((1 + share) / 2))
        for number, order in row_order(self.corpus, self.vectors[centers], self.metric):
            column = self.columns.setdefault(
                f"{prefix}{number // in_column}", np.full(self.rows, -1, np.int64)
            )
            free = order[column[order] < 0][:near]
            column[self.random.permutation(free)[:size]] = number
        own = nearest_pivot(self.vectors[queries], self.vectors[centers], self.metric).tolist()
        return [Equals(f"{prefix}{group // in_column}", group) for group in own]


def _within(column: str, start: int, size: int, rows: int) -> Filter:
    """A window of ranks, with only the bounds that matter."""
    low = {"gte": start} if start > 0 else {}
    high = {"lt": start + size} if start + size < rows or not low else {}
    return Range(column, **low, **high)


def _asked(
    queries: QuerySet,
    query_of: NDArray[np.int64],
    filters: list[Filter],
    labels: list[tuple[float, str]],
) -> QuerySet:
    """The queries with their filters as text, and the selectivity and correlation of each."""
    places = pa.array(query_of)
    table = queries.columns.read(queries.columns.schema.names, 0, queries.rows).take(places)
    columns = dict(zip(table.column_names, table.columns, strict=True))
    identifier = queries.id_column
    if len(query_of) > queries.rows:
        # Ids must be distinct, and a query is there once per filter.
        identifier = identifier or next(each for each in (*ID_NAMES, _ID) if each not in columns)
        numbers = {identifier: pa.array(range(len(query_of)), pa.int64())}
        columns = {**numbers, **columns, **numbers, _SOURCE: queries.ids.take(places)}
    columns["filter"] = pa.array([str(each) for each in filters])
    for name, values in zip(_LABELS, zip(*labels, strict=True), strict=True):
        columns[name] = pa.array(values)
    vectors = np.array(queries.vectors.read(0, queries.rows))[query_of]
    return replace(
        queries,
        vectors=ArrayVectors(vectors),
        columns=TableColumns(pa.table(columns)),
        id_column=identifier,
        filters=tuple(filters),
        corpus_rows=None if queries.corpus_rows is None else queries.corpus_rows[query_of],
    )


@dataclass(frozen=True, eq=False)
class _Joined:
    """Columns of a corpus with further ones in memory."""

    stored: Columns
    added: pa.Table

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([*self.stored.schema, *self.added.schema])

    def read(self, names: list[str], start: int, stop: int) -> pa.Table:
        mine = [name for name in names if name in self.added.column_names]
        others = [name for name in names if name not in mine]
        found = {}
        if others:
            table = self.stored.read(others, start, stop)
            found = dict(zip(table.column_names, table.columns, strict=True))
        found |= {name: self.added[name].slice(start, stop - start) for name in mine}
        return pa.table({name: found[name] for name in names})
