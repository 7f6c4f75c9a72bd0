"""The user's ids: strings or integers that replace row numbers in input and output."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recallatk.errors import BadValueError

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class RowIds:
    """Ids of some corpus rows."""

    rows: NDArray[np.int64]
    """Distinct, ascending."""
    ids: pa.Array

    @classmethod
    def some(cls, rows: NDArray[np.int64], corpus_ids: pa.Array) -> RowIds:
        """Ids of the rows that occur in `rows`; negative padding has none."""
        distinct = np.unique(rows[rows >= 0])
        return cls(distinct, corpus_ids.take(pa.array(distinct)))

    def of(self, rows: NDArray[np.int64]) -> pa.Array:
        """The id of each row; null if unknown."""
        places = np.searchsorted(self.rows, rows)
        places = np.minimum(places, max(0, len(self.rows) - 1))
        known = self.rows[places] == rows if len(self.rows) else np.zeros(len(rows), bool)
        return self.ids.take(pa.array(places, mask=~known))


def row_numbers(start: int, stop: int) -> pa.Array:
    """Row numbers as ids, for data without ids."""
    return pa.array(np.arange(start, stop, dtype=np.int64))


def plain_ids(column: Any, where: str) -> pa.Array:
    """A column of ids as int64 or string, whatever its width or encoding."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kind = pa.int64() if pa.types.is_integer(column.type) else pa.string()
    try:
        plain = column.cast(kind)
    except pa.ArrowInvalid as problem:
        raise BadValueError(where, f"invalid id: {problem}", "ids that fit int64") from problem
    return plain.combine_chunks() if isinstance(plain, pa.ChunkedArray) else plain


def check_ids(ids: pa.Array, where: str) -> None:
    """Refuse missing and duplicate ids, and name the row."""
    if ids.null_count:
        row = int(np.argmin(ids.is_valid().to_numpy(zero_copy_only=False)))
        raise BadValueError(where, "the id is null", "an id in every row", row=row)
    distinct = pc.unique(ids)
    if len(distinct) == len(ids):
        return
    codes = pc.index_in(ids, value_set=distinct).to_numpy()
    _, first_rows = np.unique(codes, return_index=True)
    again = int(np.setdiff1d(np.arange(len(ids)), first_rows)[0])
    earlier = int(first_rows[codes[again]])
    found = f"duplicate id {ids[again]}: row {earlier} has it too"
    raise BadValueError(where, found, "distinct ids", row=again)
