"""Corpus rows by the integer labels of an index object."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.adapters.attached import RowsById
from recallatk.errors import MismatchError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recallatk.core import Corpus

# A lookup table is faster than binary search unless labels are sparse.
_TABLE_ROWS = 1 << 20
_TABLE_SPREAD = 8


class LabelRows:
    """Corpus rows by the integer labels of an index.

    Labels are corpus ids if all of them occur there, else row numbers if all of them are in range. If
    both hold, stored vectors decide; without stored vectors, labels are ids, as for `callable`.
    """

    def __init__(
        self, labels: NDArray[np.int64], corpus: Corpus, name: str, stored: NDArray[Any] | None = None
    ) -> None:
        self.unknown = corpus.rows
        self.are_ids = False
        rows = self._read(labels, corpus, name, stored)
        self._identical = bool(np.array_equal(rows, labels))
        order = np.argsort(labels)
        self._sorted, self._rows = labels[order], rows[order]
        self._table: NDArray[np.int64] | None = None
        highest = int(labels.max(initial=0))
        if labels.min(initial=0) >= 0 and highest < max(_TABLE_ROWS, _TABLE_SPREAD * len(labels)):
            # Index -1 reads the last entry, so it holds the value for padding.
            self._table = np.full(highest + 2, self.unknown, np.int64)
            self._table[labels], self._table[-1] = rows, -1

    def _read(
        self, labels: NDArray[np.int64], corpus: Corpus, name: str, stored: NDArray[Any] | None
    ) -> NDArray[np.int64]:
        by_id, outside = RowsById(corpus), labels[(labels < 0) | (labels >= corpus.rows)]
        rows = labels
        if by_id.rows is not None:
            rows = np.array([by_id.row(each) for each in labels.tolist()], np.int64)
            if ((rows >= 0) & (rows < self.unknown)).all():
                numbered = not len(outside) and stored is not None and _nearer(stored, labels, rows, corpus)
                self.are_ids = not numbered
                return labels if numbered else rows
        if len(outside):
            known = "row numbers as ids" if by_id.rows is None else f"ids such as {by_id.example()!r}"
            raise MismatchError(
                f"label mismatch: {name} has {len(outside):,} labels that are not corpus ids, such as "
                f"{int(outside[0])}; the corpus has {known}"
            )
        return labels

    def labels(self, mask: NDArray[np.bool_]) -> NDArray[np.int64]:
        """The labels of the rows that a mask lets pass."""
        return self._sorted[mask[self._rows]]

    def rows(self, found: NDArray[np.int64]) -> NDArray[np.int64]:
        """The rows of these labels; labels that the index did not list are unknown."""
        if self._identical:
            return found
        if self._table is not None:
            return self._table[found]
        places = np.minimum(np.searchsorted(self._sorted, found), len(self._sorted) - 1)
        rows = np.where(self._sorted[places] == found, self._rows[places], self.unknown)
        return np.where(found == -1, -1, rows)


def _nearer(stored: NDArray[Any], labels: NDArray[np.int64], rows: NDArray[np.int64], corpus: Corpus) -> bool:
    """Whether stored vectors match labels read as row numbers better than they match these rows."""

    def likeness(chosen: NDArray[np.int64]) -> float:
        # Read row by row: the sample is small, and the corpus may exceed memory.
        vectors = [np.array(corpus.vectors.read(row, row + 1)[0]) for row in chosen[: len(stored)].tolist()]
        return float(np.mean(_unit(stored) * _unit(np.array(vectors))))

    return likeness(labels) > likeness(rows)


def _unit(vectors: NDArray[Any]) -> NDArray[np.float64]:
    wide = np.asarray(vectors, np.float64)
    norms = np.linalg.norm(wide, axis=1, keepdims=True)
    unit: NDArray[np.float64] = wide / np.maximum(norms, np.finfo(np.float64).tiny)
    return unit
