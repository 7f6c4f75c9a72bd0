"""Rows that a filter lets pass, for engines that are told rows instead of conditions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from recallatk.adapters.batch import completed
from recallatk.filters.eligibility import eligibility

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from recallatk.core import Corpus
    from recallatk.filters import Filter


class AllowedRows:
    """Masks of filters over the metadata of a corpus and of rows inserted after it."""

    def __init__(self, corpus: Corpus) -> None:
        self.corpus = corpus
        self._inserted: list[pa.Table] = []

    def insert(self, count: int, metadata: pa.Table | None) -> None:
        """Append inserted rows to the corpus."""
        self._inserted.append(completed(metadata, self.corpus.columns.schema, count))

    def mask(self, condition: Filter) -> NDArray[np.bool_]:
        """Whether each row passes the filter."""
        rows, schema = self.corpus.rows, self.corpus.columns.schema
        named = sorted(condition.columns())
        # The mask refuses unknown column names before anything is read.
        known = set(named) <= set(schema.names)
        table = self.corpus.columns.read(named, 0, rows) if known else schema.empty_table()
        masks = [_allowed(condition, table, rows)]
        masks += [_allowed(condition, each.select(named), each.num_rows) for each in self._inserted]
        return np.concatenate(masks)


def _allowed(condition: Filter, table: pa.Table, rows: int) -> NDArray[np.bool_]:
    allowed = eligibility([condition], table, None, rows).sets[0]
    return np.ones(rows, bool) if allowed is None else allowed.mask(0, rows)
