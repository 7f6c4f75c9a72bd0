"""Scores in float64, pair by pair, how far from the real number they can be, and which sizes they hold for.

Every sum here is NumPy's pairwise one along a row, which adds in the same order on every machine and
whatever else is in the call: a score is the same to the last bit wherever it is computed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.core import Metric
from recallatk.errors import BadValueError

if TYPE_CHECKING:
    from numpy.typing import NDArray

_UNIT_64 = 2.0**-53
_TINY_64 = 2.0**-1074
# Pairs are taken in portions that stay in the cache between one step and the next; smaller ones would
# have threads wait for each other.
_PORTION_BYTES = 2 << 20
# A sum of squares below this may have lost digits to underflow; above, what underflows is far below rounding.
_SMALL_SQUARE = 2.0**-900
# Squares of larger numbers, added up, would leave the range of float64; those of smaller ones vanish.
_LARGEST, _SMALLEST = 1e150, 1e-150
# Products of sizes below this have fewer digits than float64: 2^-1022 is the least number with all of them.
_SMALLEST_PRODUCT = 2.0**-969


def require_range(
    block: NDArray[Any], metric: Metric, where: str, start: int = 0, *, compared_with: float = np.inf
) -> None:
    """Refuse vectors whose scores would be infinite, or would lose digits to underflow.

    The size of a vector is its largest number. Distances keep their digits at any small size; a vector of
    zeros is accepted, except under cosine, where it is refused when it is read.

    Args:
        block: vectors.
        metric: how they are compared.
        where: what messages call them.
        start: the number of the first vector.
        compared_with: the smallest size of the vectors that they are compared with.
    """
    least = {Metric.COSINE: _SMALLEST, Metric.IP: _SMALLEST_PRODUCT / compared_with}.get(metric, 0.0)
    if block.dtype.kind != "f" or not len(block):
        return
    limits = np.finfo(block.dtype)
    if float(limits.max) <= _LARGEST and float(limits.smallest_subnormal) >= least:
        return
    sizes = vector_sizes(block)
    beyond = (sizes > _LARGEST) | ((sizes < least) & (sizes > 0))
    if beyond.any():
        row = int(np.argmax(beyond))
        size = sizes[row]
        problem = (
            "too large for float64 scores" if size > _LARGEST else "too small: its scores would lose digits"
        )
        raise BadValueError(
            where,
            f"the largest number of the vector is {size:g}, {problem}",
            f"sizes from {max(least, float(limits.smallest_subnormal)):.3g} to {_LARGEST:g} under {metric}",
            row=start + row,
            hint="Multiply all vectors by one power of two.",
        )


def smallest_size(block: NDArray[Any]) -> float:
    """The smallest size of a vector that is not all zeros; infinite without one."""
    sizes = vector_sizes(block)
    return float(sizes.min(where=sizes > 0, initial=np.inf))


def vector_sizes(block: NDArray[Any]) -> NDArray[np.float64]:
    """The largest absolute number of each vector."""
    return np.asarray(np.maximum(block.max(axis=1), -block.min(axis=1)), np.float64)


def pair_scores(
    metric: Metric,
    queries: NDArray[Any],
    query: NDArray[np.int64],
    block: NDArray[Any],
    row: NDArray[np.int64],
) -> NDArray[np.float64]:
    """The distance, or the inner product (not yet divided by norms), of pairs of places in two matrices."""
    scores = np.empty(len(row))
    step = max(1, min(len(row), _PORTION_BYTES // (8 * queries.shape[1])))
    shape = (step, queries.shape[1])
    found, terms, others = np.empty(shape, block.dtype), np.empty(shape), np.empty(shape)
    for start in range(0, len(row), step):
        part = slice(start, min(start + step, len(row)))
        here = slice(0, part.stop - start)
        np.take(block, row[part], axis=0, out=found[here], mode="clip")
        terms[here] = found[here]
        _take_wide(queries, query[part], others[here])
        if metric is Metric.L2:
            terms[here] -= others[here]
            np.square(terms[here], out=terms[here])
        else:
            terms[here] *= others[here]
        np.add.reduce(terms[here], axis=1, out=scores[part])
    if metric is not Metric.L2:
        return scores
    small = _small(scores, queries.dtype, block.dtype)
    np.sqrt(scores, out=scores)
    for some in _portions(small, step):
        scores[some] = _scaled_norms(block[row[some]].astype(np.float64) - queries[query[some]])
    return scores


def _small(squares: NDArray[np.float64], *dtypes: np.dtype[Any]) -> NDArray[np.int64]:
    """Sums of squares that may have lost digits, which numbers of other types than float64 never do."""
    if np.dtype(np.float64) not in dtypes:
        return np.empty(0, np.int64)
    return np.flatnonzero(squares < _SMALL_SQUARE)


def _portions(which: NDArray[np.int64], step: int) -> list[NDArray[np.int64]]:
    return [which[start : start + step] for start in range(0, len(which), step)]


def _scaled_norms(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Norms of very small vectors, scaled by a power of two, which is exact, to a size of about 1."""
    exponents = np.frexp(vector_sizes(vectors))[1]
    with np.errstate(under="ignore"):
        squares = np.square(np.ldexp(vectors, -exponents[:, None]))
        return np.asarray(np.ldexp(np.sqrt(np.add.reduce(squares, axis=1)), exponents))


def _take_wide(queries: NDArray[Any], places: NDArray[np.int64], out: NDArray[np.float64]) -> None:
    """Write queries as float64, each of them converted once where the places are close together."""
    first, last = int(places.min()), int(places.max())
    if last - first < len(places):
        np.take(queries[first : last + 1].astype(np.float64), places - first, axis=0, out=out, mode="clip")
    else:
        out[:] = queries[places]


def norms(block: NDArray[Any], rows: NDArray[np.int64] | None = None) -> NDArray[np.float64]:
    """The norm of every row, or of some."""
    count = len(block) if rows is None else len(rows)
    found = np.empty(count)
    step = max(1, _PORTION_BYTES // (8 * block.shape[1]))
    terms = np.empty((min(step, count), block.shape[1]))
    for start in range(0, count, step):
        part = slice(start, start + step)
        here = terms[: len(found[part])]
        here[:] = block[part] if rows is None else block[rows[part]]
        np.square(here, out=here)
        np.add.reduce(here, axis=1, out=found[part])
    small = _small(found, block.dtype)
    np.sqrt(found, out=found)
    for some in _portions(small, step):
        found[some] = _scaled_norms(block[some if rows is None else rows[some]])
    return found


def tolerance(
    metric: Metric, scores: NDArray[np.float64], scale: NDArray[np.float64], dimension: int
) -> NDArray[np.float64]:
    """How far a float64 score can be from the real one; pairs that lie closer need exact arithmetic.

    What it covers is the rounding of products, sums and norms, and underflow. `scale` is the product of the
    two norms, which bounds the terms of an inner product. A distance is off by a share of itself, at any
    size that float64 holds with all digits.
    """
    rounding = (dimension + 8) * _UNIT_64
    if metric is Metric.L2:
        return rounding * scores + _TINY_64
    if metric is Metric.COSINE:
        return np.full_like(scores, 2 * rounding)
    return rounding * scale + dimension * _TINY_64
