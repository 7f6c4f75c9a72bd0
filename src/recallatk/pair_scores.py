"""Float64 scores of query-row pairs, their maximum error, and the accepted range of vectors.

Every sum is NumPy's pairwise sum along a row, which adds in the same order on every machine and whatever
else is in the call. A score is therefore bit-identical wherever it is computed.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.core import Metric
from recallatk.errors import BadValueError

if TYPE_CHECKING:
    from numpy.typing import NDArray

_UNIT_64 = 2.0**-53
_TINY_64 = 2.0**-1074
# Portions of pairs stay in cache between steps; with smaller ones, threads would wait for each other.
_PORTION_BYTES = 2 << 20
# Calling NumPy for fewer pairs of one query costs more than copying the query for each.
_SHORT_RUN = 4
# Below this, a sum of squares may have lost digits to underflow; above, the loss is far below rounding.
_SMALL_SQUARE = 2.0**-900
# Sums of larger squares overflow float64; smaller squares underflow to zero.
_LARGEST, _SMALLEST = 1e150, 1e-150
# Smaller products have fewer digits than float64: 2^-1022 is the smallest number with full precision.
_SMALLEST_PRODUCT = 2.0**-969


def require_range(
    block: NDArray[Any], metric: Metric, where: str, start: int = 0, *, compared_with: float = np.inf
) -> None:
    """Refuse vectors whose scores would overflow or lose digits to underflow.

    The size of a vector is its largest absolute value. Distances keep their digits at any small size. Zero
    vectors are accepted, except under cosine, where reading refuses them.

    Args:
        block: the vectors.
        metric: the metric.
        where: their name for messages.
        start: the number of the first vector.
        compared_with: the smallest size of the vectors on the other side.
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
            f"the largest value of the vector is {size:g}, {problem}",
            f"sizes from {max(least, float(limits.smallest_subnormal)):.3g} to {_LARGEST:g} under {metric}",
            row=start + row,
            hint="Multiply all vectors by one power of two.",
        )


def smallest_size(block: NDArray[Any]) -> float:
    """The smallest size of a nonzero vector; infinite if there is none."""
    sizes = vector_sizes(block)
    return float(sizes.min(where=sizes > 0, initial=np.inf))


def vector_sizes(block: NDArray[Any]) -> NDArray[np.float64]:
    """Largest absolute value of each vector."""
    return np.asarray(np.maximum(block.max(axis=1), -block.min(axis=1)), np.float64)


def pair_scores(
    metric: Metric,
    queries: NDArray[Any],
    query: NDArray[np.int64],
    block: NDArray[Any],
    row: NDArray[np.int64],
) -> NDArray[np.float64]:
    """Distance or inner product (not divided by norms) of pairs of rows from two matrices."""
    scores = np.empty(len(row))
    step = max(1, min(len(row), _PORTION_BYTES // (8 * queries.shape[1])))
    shape = (step, queries.shape[1])
    found, terms = np.empty(shape, block.dtype), np.empty(shape)
    combine = np.subtract if metric is Metric.L2 else np.multiply
    for start in range(0, len(row), step):
        part = slice(start, min(start + step, len(row)))
        here = slice(0, part.stop - start)
        np.take(block, row[part], axis=0, out=found[here], mode="clip")
        terms[here] = found[here]
        _combine(combine, terms[here], queries, query[part])
        if metric is Metric.L2:
            np.square(terms[here], out=terms[here])
        np.add.reduce(terms[here], axis=1, out=scores[part])
    if metric is not Metric.L2:
        return scores
    small = _small(scores, queries.dtype, block.dtype)
    np.sqrt(scores, out=scores)
    for some in _portions(small, step):
        scores[some] = _scaled_norms(block[row[some]].astype(np.float64) - queries[query[some]])
    return scores


def _small(squares: NDArray[np.float64], *dtypes: np.dtype[Any]) -> NDArray[np.int64]:
    """Sums of squares that may have lost digits, which happens only with float64 input."""
    if np.dtype(np.float64) not in dtypes:
        return np.empty(0, np.int64)
    return np.flatnonzero(squares < _SMALL_SQUARE)


def _portions(which: NDArray[np.int64], step: int) -> list[NDArray[np.int64]]:
    return [which[start : start + step] for start in range(0, len(which), step)]


def _scaled_norms(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Norms of very small vectors, scaled exactly by a power of two to a size of about 1."""
    exponents = np.frexp(vector_sizes(vectors))[1]
    with np.errstate(under="ignore"):
        squares = np.square(np.ldexp(vectors, -exponents[:, None]))
        return np.asarray(np.ldexp(np.sqrt(np.add.reduce(squares, axis=1)), exponents))


def _combine(
    combine: np.ufunc, terms: NDArray[np.float64], queries: NDArray[Any], places: NDArray[np.int64]
) -> None:
    """Combine each line of `terms` with its query as float64, in place."""
    starts = np.flatnonzero(np.append(True, places[1:] != places[:-1]))
    if len(starts) * _SHORT_RUN > len(places):
        combine(terms, queries[places], out=terms)
        return
    # Pairs of one query follow each other: no query is copied, and each is converted once.
    for first, last in itertools.pairwise([*starts.tolist(), len(places)]):
        combine(terms[first:last], queries[places[first]].astype(np.float64), out=terms[first:last])


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
    """Maximum error of a float64 score; pairs that lie closer need exact arithmetic.

    It covers the rounding of products, sums and norms, and underflow. `scale` is the product of the two
    norms, which bounds the terms of an inner product. The error of a distance is relative, at any size that
    float64 represents with full precision.
    """
    rounding = (dimension + 8) * _UNIT_64
    if metric is Metric.L2:
        return rounding * scores + _TINY_64
    if metric is Metric.COSINE:
        return np.full_like(scores, 2 * rounding)
    return rounding * scale + dimension * _TINY_64
