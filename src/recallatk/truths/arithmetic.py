"""The order of a few rows by their exact scores, for where floating point cannot tell them apart.

Every number is cut into limbs: whole numbers of so few bits that a sum of products of two of them is exact
in float64, whatever the order of the additions. Matrix products of limbs then give the integers by which
the scores compare, without rounding anywhere.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.core import Metric

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

# Up to here every whole number is a float64.
_EXACT_BITS = 53

# What the limbs, or the products of limbs, of one block of rows may fill.
_BLOCK_NUMBERS = 1 << 20


def exact_ranks(metric: Metric, query: NDArray[Any], rows: NDArray[Any]) -> NDArray[np.int64]:
    """The dense rank of each row by its score in real arithmetic, from the numbers exactly as stored.

    Args:
        metric: How a row is compared with the query. Under the cosine neither may be all zeros.
        query: One vector of finite numbers.
        rows: (rows, dimension) of finite numbers, not necessarily of the query's type.

    Returns:
        For each row 0 if no row is better, and so on; rows of equal rank have exactly equal scores.
    """
    distinct, places = _collapse(rows)
    if len(distinct) < 2:
        return places
    keys = _keys(metric, query, distinct)
    ranks = {key: rank for rank, key in enumerate(sorted(set(keys)))}
    return np.array([ranks[key] for key in keys], dtype=np.int64)[places]


def _collapse(rows: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """The rows without repetitions, and where in them each row is."""
    # Rows that differ in the sign of a zero stay apart here, and get the same key later.
    seen: dict[bytes, int] = {}
    places = [seen.setdefault(row.tobytes(), len(seen)) for row in rows]
    if len(seen) == len(rows):
        return rows, np.array(places, dtype=np.int64)
    distinct = np.frombuffer(b"".join(seen), dtype=rows.dtype).reshape(len(seen), rows.shape[1])
    return distinct, np.array(places, dtype=np.int64)


def _keys(metric: Metric, query: NDArray[Any], rows: NDArray[Any]) -> list[int]:
    """One integer for each row: smaller for a better score, equal for an equal one."""
    grid = _grid(query, rows)
    dots: list[int] = []
    squares: list[int] = []
    for block in _blocks(rows, grid):
        limbs = _limbs(np.vstack((query, block), dtype=np.float64), grid)
        dots += _integers(limbs[1:] @ limbs[0].T, grid)
        if metric is not Metric.IP:
            squares += _integers(limbs[1:] @ limbs[1:].transpose(0, 2, 1), grid)
    if metric is Metric.IP:
        return [-dot for dot in dots]
    if metric is Metric.L2:
        # The squared distance, less the square of the query, which is the same for every row.
        return [square - 2 * dot for dot, square in zip(dots, squares, strict=True)]
    # The square of the cosine, with its sign, is a fraction. Two fractions that differ do so by at least one
    # over the product of their denominators, so with this many binary places their floors differ too.
    shift = 2 * max(squares).bit_length()
    return [-((dot * abs(dot) << shift) // square) for dot, square in zip(dots, squares, strict=True)]


@dataclass(frozen=True)
class _Grid:
    """The limbs that some numbers are cut into."""

    lowest: int
    """Every number is a multiple of two to this power."""
    bits: int
    """How many bits a limb has."""
    count: int
    """How many limbs a number has."""


def _grid(query: NDArray[Any], rows: NDArray[Any]) -> _Grid:
    """The grid on which the query and the rows are exact."""
    (query_lowest, query_end), (rows_lowest, rows_end) = _span(query), _span(rows)
    lowest = min(query_lowest, rows_lowest)
    # A sum over all dimensions of products of two limbs must stay exact.
    bits = (_EXACT_BITS - (query.size - 1).bit_length()) // 2
    return _Grid(lowest, bits, -((lowest - max(query_end, rows_end)) // bits))


def _span(numbers: NDArray[Any]) -> tuple[int, int]:
    """Exponents of two: all numbers are multiples of the first, and smaller than the second."""
    if numbers.dtype.kind != "f":
        return 0, 8 * numbers.dtype.itemsize
    magnitudes = np.abs(numbers)
    largest = magnitudes.max()
    smallest = magnitudes.min(where=magnitudes > 0, initial=largest)
    precision = np.finfo(numbers.dtype).nmant + 1
    return math.frexp(smallest)[1] - precision, math.frexp(largest)[1]


def _blocks(rows: NDArray[Any], grid: _Grid) -> Iterator[NDArray[Any]]:
    """Rows in portions, to limit the memory of their limbs."""
    step = max(1, _BLOCK_NUMBERS // (grid.count * max(grid.count, rows.shape[1])))
    return (rows[start : start + step] for start in range(0, len(rows), step))


def _limbs(numbers: NDArray[np.float64], grid: _Grid) -> NDArray[np.float64]:
    """(numbers, limbs, dimension): what to multiply with growing powers of two to get the numbers back."""
    limbs = np.empty((len(numbers), grid.count, numbers.shape[1]))
    # A number far below a limb underflows there, to the nothing that it adds to it.
    with np.errstate(under="ignore"):
        for place in reversed(range(grid.count)):
            exponent = grid.lowest + grid.bits * place
            limb = np.trunc(_scaled(numbers, -exponent))
            limbs[:, place] = limb
            numbers = numbers - _scaled(limb, exponent)
    return limbs


def _scaled(numbers: NDArray[np.float64], exponent: int) -> NDArray[np.float64]:
    """The numbers times a power of two."""
    # In two steps, as the power itself may be out of range; several times as fast as ldexp.
    half = exponent // 2
    return numbers * 2.0**half * 2.0 ** (exponent - half)


def _integers(products: NDArray[np.float64], grid: _Grid) -> list[int]:
    """The integer of each row, from the products of every limb with every limb."""
    # Fewer than a thousand limbs, so that the sums fit into int64.
    sums = np.zeros((len(products), 2 * grid.count - 1), dtype=np.int64)
    for place in range(grid.count):
        sums[:, place : place + grid.count] += products[:, place].astype(np.int64)
    totals = [0] * len(products)
    for column in reversed(sums.T.tolist()):
        totals = [(total << grid.bits) + term for total, term in zip(totals, column, strict=True)]
    return totals
