"""Filters as faiss takes them: one bitmap of rows for each distinct filter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

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
        # All are kept: one that were made again would be made inside a timed search.
        self._made: dict[str, Any] = {}

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
        allowed = eligibility([condition], table, None, rows).sets[0]
        return np.ones(rows, bool) if allowed is None else allowed.mask(0, rows)
