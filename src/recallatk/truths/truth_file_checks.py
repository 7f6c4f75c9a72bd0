"""Contradictions inside a truth file: columns that do not fit each other."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recallatk.core import Origin
from recallatk.errors import FormatError
from recallatk.truths.results import MOST_IDS

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Lists of one query that go together, the first of each group being row numbers and the second their ids.
_GROUPS = (("rows", "neighbors", "scores", "tied"), ("tied_rows", "tied_neighbors"))
_ALL_IDS_SINCE = 3


class TruthColumns:
    """The columns of a truth file, which may contradict each other.

    Args:
        where: the file, as messages name it.
        table: its columns.
        header: its header.
    """

    def __init__(self, where: str, table: pa.Table, header: dict[str, Any]) -> None:
        self.where, self.table, self.header = where, table, header
        self.groups = [[each for each in names if each in table.column_names] for names in _GROUPS]

    def require_consistent(self) -> None:
        """Refuse lists that do not fit each other: a wrong entry would be blamed on another query."""
        for names in filter(None, self.groups):
            self._require_equal_lengths(names)
        self._require_agreeing_ids()

    def require_gaps(self, gaps: NDArray[np.float64]) -> None:
        """Refuse a gap that contradicts the scores."""
        if "gap" not in self.table.column_names:
            return
        stated = self.table["gap"].fill_null(np.nan).to_numpy()
        differ = (stated != gaps) & ~(np.isnan(stated) & np.isnan(gaps))
        if differ.any():
            query = int(np.argmax(differ))
            self._refuse(query, f"gap is {stated[query]:g}", f"{gaps[query]:g}, the gap between its scores")

    def _require_equal_lengths(self, names: list[str]) -> None:
        lengths = self._lengths(names[0])
        for name in names[1:]:
            differ = self._lengths(name) != lengths
            if differ.any():
                query = int(np.argmax(differ))
                found = f"{lengths[query]} {names[0]} and {self._lengths(name)[query]} {name}"
                self._refuse(query, found, "lists of equal length")

    def _lengths(self, name: str) -> NDArray[np.int64]:
        column = self.table[name].combine_chunks()
        if column.null_count:
            self._refuse(int(np.argmax(column.is_null())), f"{name} is null", "a list for every query")
        return np.asarray(column.value_lengths(), np.int64)

    def _require_agreeing_ids(self) -> None:
        """Refuse a row number that is listed with the id of another row."""
        if self._known_ids is None:
            self._require_one_id_for_each_row()
            return
        known, rows = self._known_ids, self._rows
        inside = (rows >= 0) & (rows < len(known))
        expected = known.take(pa.array(np.where(inside, rows, 0), mask=~inside))
        agree = pc.equal(expected.cast(pa.string()), self._ids.cast(pa.string())).fill_null(False)
        wrong = np.flatnonzero(~np.asarray(agree) & inside)
        if len(wrong):
            cell = int(wrong[0])
            self._refuse(
                self._queries[cell],
                f"row {rows[cell]} is listed with the id {self._ids[cell]}",
                f"{expected[cell]}, the id of that row",
            )

    def _require_one_id_for_each_row(self) -> None:
        by_row, by_id = _first_of(pa.array(self._rows)), _first_of(self._ids)
        wrong = np.flatnonzero(by_row != by_id)
        if not len(wrong):
            return
        # Either of the two may be wrong: nothing in the file says which.
        cell = int(wrong[0])
        other = int(min(by_row[cell], by_id[cell]))
        pairs = [f"row {self._rows[each]} with the id {self._ids[each]}" for each in (cell, other)]
        found = f"{pairs[0]} is listed, and query {self._name(self._queries[other])} lists {pairs[1]}"
        self._refuse(self._queries[cell], found, "one id for each row")

    @cached_property
    def _known_ids(self) -> pa.Array | None:
        """The ids of the corpus by row, where the file has them or they are the row numbers."""
        if "corpus_ids" in self.table.column_names:
            return self.table["corpus_ids"].combine_chunks().flatten()
        header = self.header
        computed = header["origin"] == Origin.COMPUTED and int(header["format_version"]) >= _ALL_IDS_SINCE
        if not computed or header["corpus_rows"] is None or header["corpus_rows"] > MOST_IDS:
            return None
        return pa.array(np.arange(header["corpus_rows"]))

    @cached_property
    def _rows(self) -> NDArray[np.int64]:
        """Every row number that the file lists."""
        return np.concatenate([self._flat(names[0]).to_numpy() for names in self.groups if names])

    @cached_property
    def _ids(self) -> pa.Array:
        """Id of each row number."""
        return pa.concat_arrays([self._flat(names[1]) for names in self.groups if names])

    @cached_property
    def _queries(self) -> NDArray[np.int64]:
        """Query that lists each row number."""
        lengths = [self._lengths(names[0]) for names in self.groups if names]
        return np.concatenate([np.repeat(np.arange(len(each)), each) for each in lengths])

    def _flat(self, name: str) -> pa.Array:
        return self.table[name].combine_chunks().flatten()

    def _name(self, query: int) -> str:
        return str(self.table["query_id"][int(query)])

    def _refuse(self, query: int, found: str, accepted: str) -> NoReturn:
        raise FormatError(f"{self.where}, query {self._name(query)}", found, accepted)


def _first_of(values: pa.Array) -> NDArray[np.int64]:
    """First position of each value."""
    codes = values.dictionary_encode().indices.to_numpy(zero_copy_only=False)
    _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
    return np.asarray(first[inverse.reshape(-1)])
