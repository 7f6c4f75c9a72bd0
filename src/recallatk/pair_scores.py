"""Scores in float64, pair by pair, and how far from the real number they can be.

Every sum here is NumPy's pairwise one along a row, which adds in the same order on every machine and
whatever else is in the call: a score is the same to the last bit wherever it is computed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.core import Metric

if TYPE_CHECKING:
    from numpy.typing import NDArray

_UNIT_64 = 2.0**-53
_TINY_64 = 2.0**-1074
# Pairs are taken in portions that stay in the cache between one step and the next; smaller ones would
# have threads wait for each other.
_PORTION_BYTES = 2 << 20


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
    return np.sqrt(scores) if metric is Metric.L2 else scores


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
    return np.sqrt(found)


def tolerance(
    metric: Metric, scores: NDArray[np.float64], scale: NDArray[np.float64], dimension: int
) -> NDArray[np.float64]:
    """How far a float64 score can be from the real one; pairs that lie closer need exact arithmetic.

    What it covers is the rounding of products, sums and norms, and underflow. `scale` bounds the product
    of the two norms, and so the terms of an inner product.
    """
    rounding = (dimension + 8) * _UNIT_64
    if metric is Metric.L2:
        return rounding * scores + float(np.sqrt(dimension * _TINY_64))
    if metric is Metric.COSINE:
        return np.full_like(scores, 2 * rounding)
    return rounding * scale + dimension * _TINY_64
