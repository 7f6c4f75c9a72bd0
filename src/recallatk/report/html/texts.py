"""The words of queries and rows, by number: what a reader recognises them by."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from recallatk.report.naming import cut
from recallatk.report.text import printable

if TYPE_CHECKING:
    import pyarrow as pa

    from recallatk.core import Dataset, Records, Truth

_NAMES = ("text", "query", "title", "name", "content")
_LONGEST = 280
# A column of so many rows is read whole, of more row by row.
_WHOLE = 250_000


class Texts:
    """Ids and words, as far as truth and data have them."""

    def __init__(self, truth: Truth, dataset: Dataset | None) -> None:
        self.truth, self.dataset = truth, dataset
        self._columns: dict[str, pa.ChunkedArray] = {}

    def query_id(self, number: int) -> str:
        """The user's id of a query."""
        ids = self.truth.query_ids
        return _shown(number if ids is None else ids[number].as_py())

    def query(self, number: int) -> str:
        """What a query says; empty where nobody knows."""
        if self.dataset is not None:
            return self._read("queries", self.dataset.queries, number)
        columns = self.truth.query_columns
        name = _text_column([] if columns is None else columns.column_names)
        return "" if columns is None or name is None else _shown(columns[name][number].as_py())

    def row_id(self, row: int) -> str:
        """The user's id of a corpus row."""
        return _shown(self.truth.ids_of(np.array([row]))[0].as_py())

    def row(self, row: int) -> str:
        """What a corpus row says; empty where nobody knows."""
        return "" if self.dataset is None else self._read("corpus", self.dataset.corpus, row)

    def _read(self, part: str, records: Records, number: int) -> str:
        name = _text_column(records.metadata_names)
        if name is None:
            return ""
        if records.rows > _WHOLE:
            return _shown(records.columns.read([name], number, number + 1)[name][0].as_py())
        if part not in self._columns:
            self._columns[part] = records.columns.read([name], 0, records.rows)[name]
        return _shown(self._columns[part][number].as_py())


def _text_column(names: list[str]) -> str | None:
    return next((name for name in _NAMES if name in names), None)


def _shown(value: object) -> str:
    return "" if value is None else cut(printable(str(value)), _LONGEST)
