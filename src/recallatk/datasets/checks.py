"""Checks of values where they are read: NaN, Inf, and zero vectors under cosine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.core import VECTOR_DTYPES, Metric
from recallatk.datasets.matrix import VectorsView
from recallatk.errors import BadValueError, FormatError, choices

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from recallatk.core import Corpus, Records


@dataclass(frozen=True, eq=False)
class CheckedVectors(VectorsView):
    """A matrix that checks every block when it is read."""

    where: str
    refuse_zero: bool = False
    """Cosine has no value for a vector without a direction."""
    reopen: Callable[[], Corpus] | None = None
    """Opens the corpus of these vectors in another process; hashable, picklable. None for data in memory."""

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Some rows, all of them finite."""
        block = self.vectors.read(start, stop)
        if block.dtype.kind == "f":
            self._check_finite(block, start)
        if self.refuse_zero:
            self._check_nonzero(block, start)
        return block

    def _check_finite(self, block: NDArray[Any], start: int) -> None:
        # Adding up is faster than looking at every number; it can only overflow to a false alarm.
        with np.errstate(all="ignore"):
            if np.isfinite(np.add.reduce(block, axis=None, dtype=np.promote_types(block.dtype, np.float32))):
                return
        bad = ~np.isfinite(block)
        if bad.any():
            row, column = (int(i) for i in np.argwhere(bad)[0])
            where, number = self._place(start + row)
            found = f"{block[row, column]} at position {column} of the vector"
            raise BadValueError(where, found, "finite numbers", row=number)

    def _check_nonzero(self, block: NDArray[Any], start: int) -> None:
        # Few vectors begin with zero, so one column rules out nearly all of them.
        suspects = np.flatnonzero(block[:, 0] == 0)
        zero = suspects[~block[suspects].any(axis=1)]
        if len(zero):
            where, number = self._place(start + int(zero[0]))
            raise BadValueError(
                where,
                "a zero vector, for which cosine is undefined",
                "nonzero vectors, or the metric ip or l2",
                row=number,
            )

    def _place(self, row: int) -> tuple[str, int]:
        """The file that a row is in and its number there; of several shards, the one that has it."""
        place = getattr(self.vectors, "place", None)
        return place(row) if place else (self.where, row)


def checked(records: Records, metric: Metric | None = None) -> CheckedVectors:
    """The vectors of some records, refusing what cannot be compared under the metric."""
    refuse_zero, found = metric is Metric.COSINE, records.vectors
    if isinstance(found, CheckedVectors):
        return CheckedVectors(found.vectors, records.name, refuse_zero, found.reopen)
    return CheckedVectors(found, records.name, refuse_zero)


def require_vectors(records: Records) -> None:
    """Refuse a matrix of something other than vectors, such as neighbors."""
    if records.vectors.dtype.name not in VECTOR_DTYPES:
        name = records.vectors.dtype.name
        integers = name in ("int32", "int64", "uint32", "uint64")
        raise FormatError(
            records.name,
            f"a matrix of {name}{', the type of neighbor ids' if integers else ''}",
            f"vectors of {choices(VECTOR_DTYPES)}",
            hint="For vectors of whole numbers: vectors.astype('float32')." if integers else "",
        )
    if records.dimension < 1:
        raise FormatError(records.name, "vectors without numbers", "at least one dimension")
