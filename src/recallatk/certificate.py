"""How each query of a truth was decided, so that a reader need not believe it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Decision(IntEnum):
    """The least arithmetic that settled a query."""

    FLOAT32 = 0
    """Bounds of a float32 scan kept every other row out; float64 scores lie apart."""
    FLOAT64 = 1
    """The same with a float64 scan, because float32's bounds were too wide."""
    EXACT = 2
    """Float64 cannot order two of the neighbors and the next row; exact arithmetic did, or found a tie."""

    @property
    def text(self) -> str:
        """As it stands in files."""
        return self.name.lower()


@dataclass(frozen=True, eq=False)
class Certificate:
    """One entry per query."""

    decided: NDArray[np.uint8]
    """A `Decision`."""
    bounds: NDArray[np.float64]
    """How far the scores at the boundary, the last neighbour's and the next row's, can be from the real ones.

    Rows whose scores lie closer than their bounds were ordered, or found to tie, in exact arithmetic.
    NaN without neighbours.
    """
    next_rows: NDArray[np.int64]
    """The best row that was left out; -1 where none is left."""
    next_scores: NDArray[np.float64]
    """Its score; NaN where none is left."""
