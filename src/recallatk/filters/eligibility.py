"""Eligible rows of each query: its filter evaluated on the corpus metadata."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from recallatk.errors import FilterError
from recallatk.filters.lookup import Lookup, RowSet

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from recallatk.filters.expression import Filter


class DistinctFilters(NamedTuple):
    """Distinct filters, and the filter of each query."""

    filters: tuple[Filter | None, ...]
    """In order of first use; None lets every row pass."""
    numbers: NDArray[np.int64]
    """Number of each query's filter."""

    def columns(self) -> frozenset[str]:
        """Names of all columns that a filter reads."""
        return frozenset[str]().union(*(each.columns() for each in self.filters if each is not None))


def distinct_filters(filters: Sequence[Filter | None]) -> DistinctFilters:
    """Group equal filters by their keys."""
    places: dict[str | None, int] = {}
    first: list[Filter | None] = []
    numbers = np.empty(len(filters), np.int64)
    for query, each in enumerate(filters):
        key = None if each is None else each.key
        if key not in places:
            places[key] = len(first)
            first.append(each)
        numbers[query] = places[key]
    return DistinctFilters(tuple(first), numbers)


@dataclass(frozen=True, eq=False)
class Eligibility:
    """The rows that each query may return; equal filters share one row set."""

    sets: tuple[RowSet | None, ...]
    """Distinct row sets; None lets every row pass."""
    group: NDArray[np.int64]
    """Number of each query's row set."""
    own_rows: NDArray[np.int64] | None
    """Each query's own corpus row; None if the queries are not corpus rows."""
    corpus_rows: int

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """Number of eligible rows per query: `m` in the definitions."""
        sizes = [self.corpus_rows if each is None else each.count for each in self.sets]
        counts = np.asarray(sizes, dtype=np.int64)[self.group]
        if self.own_rows is not None:
            counts = counts - self.allowed(np.arange(len(counts)), self.own_rows, own=True)
        return counts

    def allowed(
        self, queries: NDArray[np.int64], rows: NDArray[np.int64], *, own: bool = False
    ) -> NDArray[np.bool_]:
        """Whether each corpus row is eligible for the query at the same position; `own` allows its own row.

        A negative row, which pads an answer, is never eligible.
        """
        passed = rows >= 0
        if self._filtered and len(rows):
            passed &= self._among(self.group[queries], rows)
        if self.own_rows is not None and not own:
            passed &= rows != self.own_rows[queries]
        return passed

    def subset(self, which: NDArray[np.int64]) -> Eligibility:
        """The eligibility of some of the queries, in this order, with only the row sets they use."""
        used, group = np.unique(self.group[which], return_inverse=True)
        own_rows = None if self.own_rows is None else self.own_rows[which]
        sets = tuple(self.sets[number] for number in used)
        return Eligibility(sets, group.astype(np.int64), own_rows, self.corpus_rows)

    @cached_property
    def _filtered(self) -> bool:
        return any(each is not None for each in self.sets)

    def _among(self, group: NDArray[np.int64], rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether each row is in the set of the group at the same position."""
        if (group == group[0]).all():
            return _contains(self.sets[group[0]], rows)
        # NumPy sorts 16-bit numbers ten times faster than wider ones.
        order = np.argsort(group.astype(np.uint16) if len(self.sets) <= 2**16 else group, kind="stable")
        group, rows = group[order], rows[order]
        edges = np.flatnonzero(np.diff(group)) + 1
        found = np.empty(len(rows), bool)
        for first, last in pairwise([0, *edges.tolist(), len(rows)]):
            found[order[first:last]] = _contains(self.sets[group[first]], rows[first:last])
        return found


def eligibility(
    filters: Sequence[Filter | None],
    metadata: pa.Table,
    own_rows: NDArray[np.int64] | None,
    corpus_rows: int,
) -> Eligibility:
    """Evaluate every query's filter on the corpus metadata, each distinct filter once."""
    distinct = distinct_filters(filters)
    conditions = [each for each in distinct.filters if each is not None]
    lookup = Lookup(conditions, metadata)
    sets = [
        None if each is None else _rows_of_queries(each, distinct.numbers == number, lookup, metadata)
        for number, each in enumerate(distinct.filters)
    ]
    if conditions and metadata.num_rows != corpus_rows:
        raise FilterError(
            f"row count mismatch: the metadata has {metadata.num_rows}, the corpus {corpus_rows}"
        )
    return Eligibility(tuple(sets), distinct.numbers, own_rows, corpus_rows)


def _contains(members: RowSet | None, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
    return np.ones(len(rows), bool) if members is None else members.contains(rows)


def _rows_of_queries(
    condition: Filter, asked: NDArray[np.bool_], lookup: Lookup, metadata: pa.Table
) -> RowSet:
    """The rows of one filter; an error names the first query that has it, unless all have it."""
    try:
        return _rows(condition, lookup, metadata)
    except FilterError as problem:
        first, *others = np.flatnonzero(asked)
        if asked.all():
            raise
        more = f" and {len(others):,} more" if others else ""
        raise FilterError(f"query {first}{more}: {problem}") from problem


def _rows(condition: Filter, lookup: Lookup, metadata: pa.Table) -> RowSet:
    found = lookup.find(condition)
    return RowSet.of_mask(condition.mask(metadata)) if found is None else found
