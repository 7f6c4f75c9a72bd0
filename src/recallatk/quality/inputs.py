"""What a judge is given: a query and the rows retrieved for it, as plain values."""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.datasets.layout import text_column
from recallatk.datasets.sampling import gathered_columns
from recallatk.fingerprint import Hash
from recallatk.ids import plain_ids

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from recallatk.core import Dataset, Records


@dataclass(frozen=True)
class JudgedQuery:
    """A query, as a judge gets it."""

    id: str | int
    text: str | None
    """None if the queries have no text column."""
    columns: dict[str, Any] = field(default_factory=dict)
    """All columns except the id."""


@dataclass(frozen=True)
class RetrievedRow:
    """A corpus row that was retrieved for a query, as a judge gets it."""

    id: str | int
    rank: int
    """From 1."""
    text: str | None
    """None if the corpus has no text column."""
    columns: dict[str, Any] = field(default_factory=dict)
    """All columns except the id."""


@dataclass(frozen=True)
class _Content:
    """One row of the queries or the corpus, and the fingerprint of it."""

    id: str | int
    text: str | None
    columns: dict[str, Any]
    digest: str


class JudgeInputs:
    """Queries and corpus rows of a dataset, each read when it is first needed.

    Args:
        dataset: corpus and queries.
    """

    def __init__(self, dataset: Dataset) -> None:
        self._queries, self._corpus = _Contents(dataset.queries), _Contents(dataset.corpus)

    def read(self, queries: Iterable[int], rows: Iterable[int]) -> None:
        """Read these queries and corpus rows, each part in one pass."""
        self._queries.read(queries)
        self._corpus.read(rows)

    def query(self, number: int) -> JudgedQuery:
        """A query that was read; its columns are a copy, which a judge may change."""
        found = self._queries[number]
        return JudgedQuery(found.id, found.text, copy.deepcopy(found.columns))

    def retrieved(self, rows: Sequence[int]) -> list[RetrievedRow]:
        """Corpus rows that were read, in their order."""
        found = (self._corpus[row] for row in rows)
        return [
            RetrievedRow(each.id, rank, each.text, copy.deepcopy(each.columns))
            for rank, each in enumerate(found, 1)
        ]

    def digests(self, query: int, rows: Sequence[int]) -> list[str]:
        """Fingerprints of all that a judge is given: of the query, then of each retrieved row in order."""
        return [self._queries[query].digest, *(self._corpus[row].digest for row in rows)]


class _Contents:
    def __init__(self, records: Records) -> None:
        self._records = records
        self._text = text_column(records.columns.schema)
        self._read: dict[int, _Content] = {}

    def __getitem__(self, row: int) -> _Content:
        return self._read[row]

    def read(self, rows: Iterable[int]) -> None:
        """Read the rows that are not known yet."""
        new = sorted(set(rows) - self._read.keys())
        if new:
            self._read.update(zip(new, self._contents(np.array(new)), strict=True))

    def _contents(self, rows: NDArray[np.int64]) -> list[_Content]:
        records = self._records
        names = list(records.columns.schema.names)
        if not names:
            return [self._content(row, None, {}) for row in rows.tolist()]
        table = gathered_columns(records, names, rows)
        ids = rows.tolist()
        if records.id_column is not None:
            ids = plain_ids(table[records.id_column], records.name).to_pylist()
        texts = [None] * len(ids) if self._text is None else table[self._text].to_pylist()
        others = table.select(records.metadata_names)
        columns = others.to_pylist() if others.column_names else [{} for _ in ids]
        return [self._content(*each) for each in zip(ids, texts, columns, strict=True)]

    @staticmethod
    def _content(name: str | int, text: str | None, columns: dict[str, Any]) -> _Content:
        said = json.dumps([name, text, columns], sort_keys=True, default=_typed)
        return _Content(name, text, columns, Hash("judged row", said).text())


def _typed(value: object) -> str:
    """Dates, decimals and bytes, told apart from text that looks the same."""
    return f"{type(value).__name__}: {value!r}"
