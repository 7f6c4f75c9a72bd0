"""Every metric as a largest inner product in one floating-point type, with a bound on what that costs.

Ranking by cosine is ranking unit vectors by inner product; ranking by distance is ranking q·x - |x|²/2,
an inner product of vectors with one more component. The bounds hold for any order of summation and with
fused multiply-add (Higham, Accuracy and Stability of Numerical Algorithms, chapter 3).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.core import Metric

if TYPE_CHECKING:
    from numpy.typing import NDArray

_PORTION_QUERIES = 256
# Squared norms between these lose nothing to overflow or underflow that the bound does not cover.
_SAFE_SQUARES = (2.0**-80, 2.0**80)


@dataclass(frozen=True)
class Precision:
    """A floating-point type and its limits."""

    dtype: np.dtype[Any]
    unit: float
    """Half the distance from 1 to the next number."""
    smallest: float
    """The smallest number that keeps its precision."""
    largest_norm: float
    """Beyond it, squares and products leave the range."""


FLOAT32 = Precision(np.dtype(np.float32), 2.0**-24, 2.0**-126, 1e18)
FLOAT64 = Precision(np.dtype(np.float64), 2.0**-53, 2.0**-1022, 1e153)


class Space:
    """Where rows and queries are compared by inner product, larger being nearer."""

    def __init__(
        self, metric: Metric, precision: Precision, dimension: int, centre: NDArray[np.float32] | None = None
    ) -> None:
        self.metric, self.precision, self.dimension = metric, precision, dimension
        # Distances do not change when everything moves; numbers near zero leave less to rounding.
        self.centre = centre if metric is Metric.L2 else None
        self.width = dimension + (metric is Metric.L2)

    def queries(self, block: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.float64]]:
        """Queries as the scan takes them, and a bound on the norm of each."""
        prepared = np.ones((len(block), self.width), self.precision.dtype)
        norms = np.empty(len(block))
        # In portions, because fresh memory for all of them in float64 costs more than the arithmetic.
        for start in range(0, len(block), _PORTION_QUERIES):
            part = slice(start, start + _PORTION_QUERIES)
            wide = block[part].astype(np.float64)
            if self.centre is not None:
                wide -= self.centre
            norms[part] = np.sqrt(np.square(wide).sum(axis=1))
            if self.metric is Metric.COSINE:
                wide /= norms[part, None]
                norms[part] = 1.0
            with np.errstate(over="ignore"):
                prepared[part, : self.dimension] = wide
        # Squares of very small numbers vanish, and with them a part of the norm.
        return prepared, norms * (1 + 1e-6) + np.sqrt(self.dimension * FLOAT64.smallest)

    def rows(self, block: NDArray[Any], out: NDArray[Any]) -> float:
        """Corpus rows as the scan takes them, written to `out`; returns a bound on their norms."""
        vectors = out[:, : self.dimension]
        with np.errstate(over="ignore", invalid="ignore"):
            self._place(block, vectors)
            squares = np.einsum("ij,ij->i", vectors, vectors)
            if self.metric is Metric.COSINE:
                self._to_unit_length(block, vectors, squares)
                return 1.0 + 1e-6
            if self.metric is Metric.L2:
                np.multiply(squares, -0.5, out=out[:, self.dimension])
            return self._norm_bound(float(squares.max(initial=0.0)))

    def _place(self, block: NDArray[Any], vectors: NDArray[Any]) -> None:
        if self.centre is None:
            vectors[:] = block
        elif block.dtype == np.float64:
            np.subtract(block, self.centre, out=vectors, casting="same_kind")
        else:
            vectors[:] = block
            vectors -= self.centre

    def _to_unit_length(self, block: NDArray[Any], vectors: NDArray[Any], squares: NDArray[Any]) -> None:
        low, high = _SAFE_SQUARES
        if len(squares) and not (low < squares.min() and squares.max() < high):
            wide = block.astype(np.float64)
            vectors[:] = wide / np.sqrt(np.square(wide).sum(axis=1))[:, None]
            return
        vectors *= (1 / np.sqrt(squares))[:, None]

    def _norm_bound(self, square: float) -> float:
        lost = np.sqrt(self.dimension * self.precision.smallest)
        return float(np.sqrt(square) * (1 + 4 * self.dimension * self.precision.unit) + lost)

    def is_safe(self, norm: float) -> bool:
        """Whether vectors of this norm stay in range; NaN does not."""
        return norm < self.precision.largest_norm

    @property
    def rounding(self) -> float:
        """How much of the size of its terms a score can be off by."""
        terms = (2 * self.dimension + 32) * self.precision.unit
        return terms / (1 - terms)

    def error(self, query_norms: NDArray[np.float64], row_norm: float) -> NDArray[np.float64]:
        """How far the scan's score of each query with any row up to this norm can be from the real one.

        It covers the conversion to this type, centring, norms and squares, the products and their sum,
        and underflow (also where the hardware flushes small numbers to zero).
        """
        size = query_norms * row_norm
        if self.metric is Metric.L2:
            size = size + row_norm**2 / 2
        lost = self.dimension * self.precision.smallest * (1 + query_norms + row_norm)
        return np.asarray(self.rounding * size + lost)

    def floors(
        self, queries: NDArray[Any], scores: NDArray[np.float64], bounds: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Scan scores that no row can be below that is as good as these scores, each off by its bound.

        NaN, which stands for no score, gives -inf.
        """
        if self.metric is not Metric.L2:
            floors = scores - 2 * bounds
        else:
            wide = queries.astype(np.float64) - (0.0 if self.centre is None else self.centre)
            squares, distances = np.square(wide).sum(axis=1), np.square(scores + 2 * bounds)
            rounding = (self.dimension + 16) * FLOAT64.unit
            floors = (squares - distances) / 2 - rounding * (squares + distances)
        return np.asarray(np.where(np.isnan(floors), -np.inf, floors))


def centre_of(block: NDArray[Any]) -> NDArray[np.float32] | None:
    """A point amid some rows, or None where they lie around zero anyway."""
    wide = block.astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        middle = wide.mean(axis=0)
        spread = float(np.square(wide - middle).sum(axis=1).mean())
        if not float(middle @ middle) > spread / 16:
            return None
        centre: NDArray[np.float32] = middle.astype(np.float32)
    return centre if np.isfinite(centre).all() else None
