"""Numbers written in another type, only where none of them changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.errors import UsageError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recallatk.core import Vectors


def widened(block: NDArray[Any], dtype: np.dtype[Any], where: str) -> NDArray[Any]:
    """The block in another type; a type that cannot hold every number of the first is refused."""
    same_width = dtype == np.int32 and block.dtype == np.int64 and _fits(block)
    if not np.can_cast(block.dtype, dtype, "safe") and not same_width:
        raise UsageError(
            f"{where}: {block.dtype} numbers would be rounded to {dtype.name}. "
            f"If that is meant, say so: --dtype {dtype.name}"
        )
    return block.astype(dtype, copy=False)


def _fits(block: NDArray[Any]) -> bool:
    return bool(block.size == 0 or (block.max() < 1 << 31 and block.min() >= -(1 << 31)))


@dataclass(frozen=True, eq=False)
class RoundedVectors:
    """A matrix in another type because the user asked for it."""

    vectors: Vectors
    dtype: np.dtype[Any]

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and dimension."""
        return self.vectors.shape

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Some rows, rounded to the nearest; numbers beyond the type's range stay within it."""
        block = self.vectors.read(start, stop)
        if self.dtype.kind in "iu":
            # float64 holds every limit of these types; narrower floats would round them outwards.
            limits = np.iinfo(self.dtype)
            block = np.clip(np.rint(block.astype(np.float64)), limits.min, limits.max)
        elif np.promote_types(block.dtype, self.dtype) != self.dtype:
            largest = np.finfo(self.dtype).max
            block = np.clip(block.astype(np.float64), -float(largest), float(largest))
        return block.astype(self.dtype)
