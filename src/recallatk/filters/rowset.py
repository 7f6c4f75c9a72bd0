"""A set of corpus rows that takes little memory, whether it holds few of them or most."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class RowSet:
    """An immutable set of corpus rows, made by `of_mask` or `of_rows`.

    It keeps sorted row numbers or one bit for every row of the corpus, whichever is smaller.
    """

    corpus_rows: int
    """How many rows the corpus has."""
    count: int
    """How many of them are in the set."""
    _packed: bool
    _stored: NDArray[Any]

    @classmethod
    def of_mask(cls, mask: NDArray[np.bool_]) -> RowSet:
        """The rows whose truth value is true."""
        count = int(np.count_nonzero(mask))
        stored = _bits(mask) if _packs(count, len(mask)) else _numbers(np.flatnonzero(mask), len(mask))
        return cls(len(mask), count, _packs(count, len(mask)), stored)

    @classmethod
    def of_rows(cls, sorted_rows: NDArray[np.integer[Any]], corpus_rows: int) -> RowSet:
        """These rows, which are in ascending order and without repetitions."""
        if _packs(len(sorted_rows), corpus_rows):
            mask = np.zeros(corpus_rows, bool)
            mask[sorted_rows] = True
            return cls(corpus_rows, len(sorted_rows), True, _bits(mask))
        return cls(corpus_rows, len(sorted_rows), False, _numbers(sorted_rows, corpus_rows))

    @property
    def nbytes(self) -> int:
        """The memory that the rows take."""
        return int(self._stored.nbytes)

    def contains(self, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether each row is in the set; a negative one, which pads an answer, never is."""
        real = rows >= 0
        if not self.count:
            return np.zeros(len(rows), bool)
        if self._packed:
            safe = np.where(real, rows, 0)
            bits: NDArray[np.bool_] = (self._stored[safe >> 3] >> (safe & 7).astype(np.uint8) & 1).view(bool)
            return real & bits
        # In the type of the stored numbers; otherwise every search would first convert all of these.
        wanted = rows.astype(self._stored.dtype)
        place = np.searchsorted(self._stored, wanted)
        found: NDArray[np.bool_] = self._stored[np.minimum(place, self.count - 1)] == wanted
        return real & found

    def between(self, start: int, stop: int) -> NDArray[np.int64]:
        """The members in [start, stop) in ascending order, counted from `start`."""
        if self._packed:
            return np.flatnonzero(self.mask(start, stop))
        first, last = np.searchsorted(self._stored, np.asarray([start, stop], self._stored.dtype))
        return self._stored[first:last].astype(np.int64) - start

    def mask(self, start: int, stop: int) -> NDArray[np.bool_]:
        """One truth value for each row in [start, stop)."""
        if self._packed:
            skipped = start % 8
            around = np.unpackbits(self._stored[start // 8 : -(-stop // 8)], bitorder="little")
            return around[skipped : skipped + stop - start].view(bool)
        mask = np.zeros(stop - start, bool)
        mask[self.between(start, stop)] = True
        return mask


def _packs(count: int, corpus_rows: int) -> bool:
    return -(-corpus_rows // 8) < count * _number_type(corpus_rows).itemsize


def _number_type(corpus_rows: int) -> np.dtype[Any]:
    # The end of a range may be asked for too, so the number of rows itself has to fit.
    return np.dtype(np.uint32 if corpus_rows < 2**32 else np.int64)


def _bits(mask: NDArray[np.bool_]) -> NDArray[Any]:
    return _sealed(np.packbits(mask, bitorder="little"))


def _numbers(rows: NDArray[np.integer[Any]], corpus_rows: int) -> NDArray[Any]:
    # A copy, since a slice would keep alive all that it was cut from.
    return _sealed(np.array(rows, _number_type(corpus_rows)))


def _sealed(stored: NDArray[Any]) -> NDArray[Any]:
    stored.flags.writeable = False
    return stored
