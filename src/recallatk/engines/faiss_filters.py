"""Filters as faiss takes them: one bitmap of rows for each distinct filter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from recallatk.filters.eligibility import eligibility

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from recallatk.core import Corpus
    from recallatk.engines.base import Filters
    from recallatk.filters import Filter


class Selectors:
    """The selectors of one corpus, each made when it is first asked for."""

    def __init__(self, corpus: Corpus) -> None:
        self.corpus = corpus
        self._added = 0
        # All are kept: one that were made again would be made inside a timed search.
        self._made: dict[str, Any] = {}

    def add(self, count: int) -> None:
        """Rows without metadata were inserted behind those of the corpus."""
        self._added += count
        self._made.clear()

    def groups(self, filters: Filters, count: int) -> Iterator[tuple[Any, NDArray[np.int64]]]:
        """Each selector, None for no filter, with the numbers of the queries that have it."""
        found: dict[str | None, tuple[Filter | None, list[int]]] = {}
        for number, each in enumerate(filters or (None,) * count):
            found.setdefault(None if each is None else each.key, (each, []))[1].append(number)
        for key, (condition, numbers) in found.items():
            selector = None if key is None or condition is None else self._selector(key, condition)
            yield selector, np.asarray(numbers, np.int64)

    def _selector(self, key: str, condition: Filter) -> Any:
        import faiss

        if key not in self._made:
            bits = np.packbits(self._mask(condition), bitorder="little")
            self._made[key] = faiss.IDSelectorBitmap(bits)
        return self._made[key]

    def _mask(self, condition: Filter) -> NDArray[np.bool_]:
        rows, schema = self.corpus.rows, self.corpus.columns.schema
        named = sorted(condition.columns())
        # A name that is not there is the mask's to refuse, before anything is read.
        known = set(named) <= set(schema.names)
        table = self.corpus.columns.read(named, 0, rows) if known else schema.empty_table()
        mask = _allowed(condition, table, rows)
        if not self._added:
            return mask
        of_added = _allowed(condition, _nulls(table.schema), 1)
        return np.concatenate([mask, np.repeat(of_added, self._added)])


def _allowed(condition: Filter, table: pa.Table, rows: int) -> NDArray[np.bool_]:
    allowed = eligibility([condition], table, None, rows).sets[0]
    return np.ones(rows, bool) if allowed is None else allowed.mask(0, rows)


def _nulls(schema: pa.Schema) -> pa.Table:
    """One row of a table, without any values."""
    return pa.table([pa.nulls(1, each.type) for each in schema], schema)
