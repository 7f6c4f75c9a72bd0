"""Eligible rows of each query: its distinct filter applied to the corpus."""

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
    """Every filter once, and which of them each query has."""

    filters: tuple[Filter | None, ...]
    """In the order of their first query; None lets every row pass."""
    numbers: NDArray[np.int64]
    """For each query, the number of its filter."""

    def columns(self) -> frozenset[str]:
        """The names of all columns that some filter reads."""
        return frozenset[str]().union(*(each.columns() for each in self.filters if each is not None))


def distinct_filters(filters: Sequence[Filter | None]) -> DistinctFilters:
    """Filters are the same where their keys are."""
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
    """Which rows each query may return: equal filters share one set of rows."""

    sets: tuple[RowSet | None, ...]
    """The distinct sets of corpus rows; None lets every row pass."""
    group: NDArray[np.int64]
    """For each query, the number of its set."""
    own_rows: NDArray[np.int64] | None
    """For each query, the corpus row that it is itself, or None when queries are no corpus rows."""
    corpus_rows: int

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """For each query, how many rows are eligible: the `m` of the definitions."""
        sizes = [self.corpus_rows if each is None else each.count for each in self.sets]
        counts = np.asarray(sizes, dtype=np.int64)[self.group]
        if self.own_rows is not None:
            counts = counts - self.allowed(np.arange(len(counts)), self.own_rows, own=True)
        return counts

    def allowed(
        self, queries: NDArray[np.int64], rows: NDArray[np.int64], *, own: bool = False
    ) -> NDArray[np.bool_]:
        """Whether each corpus row passes for the query beside it; `own` lets its own row pass.

        A negative row, which pads an answer, never passes.
        """
        passed = rows >= 0
        if self._filtered and len(rows):
            passed &= self._among(self.group[queries], rows)
        if self.own_rows is not None and not own:
            passed &= rows != self.own_rows[queries]
        return passed

    def subset(self, which: NDArray[np.int64]) -> Eligibility:
        """The same for some of the queries, in this order, with only the sets that they use."""
        used, group = np.unique(self.group[which], return_inverse=True)
        own_rows = None if self.own_rows is None else self.own_rows[which]
        sets = tuple(self.sets[number] for number in used)
        return Eligibility(sets, group.astype(np.int64), own_rows, self.corpus_rows)

    @cached_property
    def _filtered(self) -> bool:
        return any(each is not None for each in self.sets)

    def _among(self, group: NDArray[np.int64], rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether each row is in the set of the group beside it."""
        if (group == group[0]).all():
            return _contains(self.sets[group[0]], rows)
        # NumPy sorts numbers of 16 bits ten times as fast as larger ones.
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
    """Evaluate the filter of every query on the corpus metadata, each distinct filter once."""
    distinct = distinct_filters(filters)
    conditions = [each for each in distinct.filters if each is not None]
    lookup = Lookup(conditions, metadata)
    sets = [None if each is None else _rows(each, lookup, metadata) for each in distinct.filters]
    if conditions and metadata.num_rows != corpus_rows:
        raise FilterError(f"metadata of {metadata.num_rows} rows, and a corpus of {corpus_rows}")
    return Eligibility(tuple(sets), distinct.numbers, own_rows, corpus_rows)


def _contains(members: RowSet | None, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
    return np.ones(len(rows), bool) if members is None else members.contains(rows)


def _rows(condition: Filter, lookup: Lookup, metadata: pa.Table) -> RowSet:
    found = lookup.find(condition)
    return RowSet.of_mask(condition.mask(metadata)) if found is None else found
