"""Rows and queries in 8 bits: codes, their scales, and how far a product of codes can be from the real one.

A row x is S (u - z) + dx with codes u, one scale S and one zero point z for a block; a query q is t n + dq
with codes n and a scale t of its own. By Cauchy and Schwarz, q x is no further from t S n (u - z) than
|dx| |q| + |dq| |S (u - z)|. Where rows have an offset besides, as under l2, it is spread over a few more
components, whose weight t w = b is the same for every query.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.truths.space import FLOAT32

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recallatk.truths.space import Space

# Components for the offset of a row.
OFFSET_PARTS = 8
_LARGEST_CODE = 127
# Rows whose largest number is so many times the usual one would cost all others their digits.
_OUTLIER = 4.0
_MOST_OUTLIERS = 1 / 16
# Numbers between these lose nothing to underflow or overflow on the way that the bound does not cover.
_SAFE = (2.0**-40, 2.0**40)
_PORTION_BYTES = 1 << 18
_PORTION_QUERIES = 64


@dataclass(frozen=True, eq=False)
class QueryCodes:
    """Some queries in 8 bits."""

    codes: NDArray[np.int8]
    """(components, queries)."""
    scales: NDArray[np.float64]
    norms: NDArray[np.float64]
    """Norm of each query, rounded up."""
    residuals: NDArray[np.float64]
    """Norm of what is left of each query, rounded up."""
    sums: NDArray[np.int64]
    """Sum of each query's codes, without those of the offset."""
    offset_weight: float
    """b; 0 without offsets."""

    @property
    def offset_sums(self) -> NDArray[np.int64]:
        """What the codes for the offset add up to."""
        sums: NDArray[np.int64] = self.codes[-1].astype(np.int64)
        sums *= OFFSET_PARTS if self.offset_weight else 0
        return sums

    @classmethod
    def of(cls, space: Space, prepared: NDArray[Any], weight: float) -> QueryCodes:
        """Queries in the form that the space gives them, in 8 bits.

        Args:
            space: the space.
            prepared: (queries, width or more).
            weight: b, or 0 where rows have no offset.
        """
        count, components = len(prepared), space.dimension + (OFFSET_PARTS if weight else 0)
        whole = np.empty((components, count), np.int8)
        scales, norms, residuals = np.empty((3, count))
        sums = np.empty(count, np.int64)
        for start in range(0, count, _PORTION_QUERIES):
            part = slice(start, start + _PORTION_QUERIES)
            numbers = prepared[part, : space.dimension].astype(np.float64)
            scales[part], whole[space.dimension :, part] = _query_scales(numbers, weight)
            codes = np.rint(numbers / scales[part, None])
            np.clip(codes, -128, 127, out=codes)
            whole[: space.dimension, part] = codes.astype(np.int8).T
            sums[part] = codes.sum(axis=1)
            norms[part] = _norms(numbers)
            # The product of scale and code is rounded by so much of it.
            numbers -= scales[part, None] * codes
            residuals[part] = _norms(numbers) + 2.0**-50 * norms[part]
        return cls(whole, scales, norms, residuals, sums, weight)


def _query_scales(
    numbers: NDArray[np.float64], weight: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The scale of each query, and its code for every part of an offset."""
    low, high = numbers.min(axis=1), numbers.max(axis=1)
    sizes = np.maximum(high, -low)
    fits = (high <= _LARGEST_CODE) & (low >= -_LARGEST_CODE - 1)
    integers = fits & (numbers == np.rint(numbers)).all(axis=1)
    scales = np.where(integers, 1.0, np.where(sizes > 0, sizes, 1.0) / _LARGEST_CODE)
    if not weight:
        return scales, np.zeros(len(sizes))
    weights = np.clip(np.floor(weight / scales), 1, _LARGEST_CODE)
    return weight / weights, weights


def offset_weight(space: Space, prepared: NDArray[Any]) -> float:
    """A weight of offsets that suits some queries; any positive one is right."""
    numbers = prepared[:, : space.dimension]
    size = float(np.median(np.abs(numbers).max(axis=1, initial=0.0)))
    if size <= _LARGEST_CODE + 1 and _are_whole(numbers[0]):
        # Whole numbers keep a scale of 1.
        return float(_LARGEST_CODE)
    return size if _SAFE[0] < size < _SAFE[1] else 1.0


def _are_whole(numbers: NDArray[Any]) -> bool:
    return bool((numbers == np.rint(numbers)).all())


def _norms(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    # In float64, where 2^-30 covers the rounding of any sum of so few squares, and 2^-500 what underflows.
    return np.asarray(np.sqrt(np.square(numbers).sum(axis=1)) * (1 + 2.0**-30) + 2.0**-500)


@dataclass(frozen=True, eq=False)
class RowCodes:
    """Some rows of a block in 8 bits."""

    codes: NDArray[np.uint8]
    """(rows, components); what is here for loose rows is meaningless."""
    loose: NDArray[np.int64]
    """Rows that do not fit the scale or the range of the offsets of the others."""
    scale: float
    zero: int
    norm: float
    """The largest norm of a row in codes, rounded up."""
    residual: float
    """The largest norm of what is left of a row, rounded up."""
    offset_zero: int
    """The code of a part of an offset that stands for nothing."""
    middle: float
    """The offset that all parts at zero stand for."""
    offset_error: float
    """How far an offset can be from its codes."""

    def error(self, queries: QueryCodes) -> NDArray[np.float64]:
        """How far the products of each query's codes can be from the products of the vectors."""
        return self.residual * queries.norms + queries.residuals * self.norm + self.offset_error

    def _zeros(self, queries: QueryCodes) -> NDArray[np.float64]:
        """The integer product of each query with a row of zeros."""
        zeros = self.zero * queries.sums + self.offset_zero * queries.offset_sums
        return zeros.astype(np.float64)

    def limits(self, queries: QueryCodes, least: NDArray[np.float64]) -> NDArray[np.int32]:
        """For each query, an integer product that every row has whose real product reaches `least`."""
        error, unit = self.error(queries), queries.scales * self.scale
        with np.errstate(over="ignore", invalid="ignore"):
            reached = (least - error - self.middle) / unit
            # Float64 rounds each step by less than 2^-50 of the largest term.
            reached -= 2.0**-48 * (np.abs(least) + error + abs(self.middle)) / unit + 1
            reached += self._zeros(queries)
        # Nothing reaches infinity; NaN comes from other infinite terms, of which nothing can be said.
        reached = np.where(np.isnan(reached), -np.inf, np.floor(reached))
        reached[np.isposinf(least)] = np.inf
        # The least number stands for loose rows, which no limit may reach; products stay far above it.
        return np.clip(reached, 1 - 2.0**31, 2.0**31 - 1).astype(np.int32)


class RowQuantizer:
    """Turns blocks of rows into codes, in memory of its own."""

    def __init__(self, space: Space, tile_rows: int, highest: int) -> None:
        self.space, self.highest = space, highest
        self.has_offsets = space.width > space.dimension
        self._half = (highest + 1) // 2
        self.components = space.dimension + (OFFSET_PARTS if self.has_offsets else 0)
        self._codes = np.empty((tile_rows, self.components), np.uint8)
        step = max(1, min(tile_rows, _PORTION_BYTES // (4 * max(1, space.dimension))))
        self._numbers = np.empty((step, space.dimension), np.float32)
        self._rest = np.empty_like(self._numbers)

    def codes(self, rows: NDArray[Any], weight: float) -> RowCodes | None:
        """Rows in the form that the space gives them, in 8 bits; None where no scale suits them."""
        dimension = self.space.dimension
        numbers = rows[:, :dimension]
        low, high = numbers.min(axis=1), numbers.max(axis=1)
        sizes = np.maximum(high, -low)
        usual = float(np.median(sizes))
        far = sizes > _OUTLIER * usual
        if far.mean() > _MOST_OUTLIERS:
            far[:] = False
        near = ~far
        least, most = float(low[near].min()), float(high[near].max())
        scale, zero = self._scale(numbers, least, most)
        if not _SAFE[0] < scale < _SAFE[1]:
            return None
        middle, offset_error = 0.0, 0.0
        if self.has_offsets:
            middle, offset_error, beyond = self._put_offsets(rows[:, dimension], near, scale * weight)
            far |= beyond
            if far.mean() > _MOST_OUTLIERS:
                return None
        norm, residual = self._put(numbers, scale, zero, ~far)
        codes = self._codes[: len(rows)]
        return RowCodes(
            codes,
            np.flatnonzero(far),
            scale,
            zero,
            norm,
            residual,
            self._half,
            middle,
            offset_error,
        )

    def _scale(self, numbers: NDArray[Any], least: float, most: float) -> tuple[float, int]:
        """A scale and a zero point for numbers between these; whole numbers that fit keep a scale of 1."""
        zero = 0 if least >= 0 else self._half
        fits = -zero <= least and most <= self.highest - zero and most - least >= 1
        # Hardly any other numbers pass for whole ones in the first row.
        if fits and _are_whole(numbers[0]) and _are_whole(numbers):
            return 1.0, zero
        scale = max(most / (self.highest - zero), -least / zero if zero else 0.0)
        # A float32, so that products with codes have the float32 bound.
        return float(np.float32(scale)), zero

    def _put(
        self, numbers: NDArray[Any], scale: float, zero: int, counted: NDArray[np.bool_]
    ) -> tuple[float, float]:
        """Write codes; return bounds on the norms of the counted rows in codes and of their residuals."""
        dimension, unit = self.space.dimension, FLOAT32.unit
        squares, rests = np.empty(len(numbers), np.float32), np.empty(len(numbers), np.float32)
        inverse, factor = np.float32(1 / scale), np.float32(scale)
        for start in range(0, len(numbers), len(self._numbers)):
            part = slice(start, min(start + len(self._numbers), len(numbers)))
            codes, rest = (each[: part.stop - start] for each in (self._numbers, self._rest))
            np.multiply(numbers[part], inverse, out=codes)
            np.rint(codes, out=codes)
            np.clip(codes, np.float32(-zero), np.float32(self.highest - zero), out=codes)
            np.einsum("ij,ij->i", codes, codes, out=squares[part])
            np.multiply(codes, factor, out=rest)
            np.subtract(numbers[part], rest, out=rest)
            np.einsum("ij,ij->i", rest, rest, out=rests[part])
            np.add(codes, np.float32(zero), out=codes)
            self._codes[part, :dimension] = codes
        rounding = 1 + 2 * (dimension + 8) * unit
        norm = scale * float(np.sqrt(squares[counted].max(initial=0))) * rounding
        left = float(np.sqrt(rests[counted].max(initial=0))) * rounding
        # The product of scale and code is rounded, and so is what is left; small squares may vanish.
        left += 2 * unit * (norm + left) + np.sqrt(dimension) * 2.0**-62
        return norm, 0.0 if scale == 1.0 and not rests[counted].any() else left

    def _put_offsets(
        self, offsets: NDArray[Any], near: NDArray[np.bool_], unit: float
    ) -> tuple[float, float, NDArray[np.bool_]]:
        """Write the codes of the offsets; return their middle, their error, and the rows out of range."""
        wide = offsets.astype(np.float64)
        middle = float(np.median(wide[near]))
        counts = np.rint((wide - middle) / unit)
        most = OFFSET_PARTS * (self._half - 1)
        beyond = ~(np.abs(counts) <= most)
        counts = np.where(beyond, 0, counts).astype(np.int64)
        # Spread evenly, so that no part leaves its range.
        share, more = np.divmod(counts, OFFSET_PARTS)
        parts = share[:, None] + (np.arange(OFFSET_PARTS) < more[:, None]) + self._half
        self._codes[: len(offsets), self.space.dimension :] = parts
        lost = float(np.abs(wide - middle - counts * unit)[~beyond].max(initial=0.0))
        return middle, lost + 2.0**-40 * (abs(middle) + most * unit), beyond
