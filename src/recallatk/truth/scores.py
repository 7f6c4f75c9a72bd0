"""Scores in float64, pair by pair, and how far from the real number they can be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.core import Metric

if TYPE_CHECKING:
    from numpy.typing import NDArray

_UNIT_64 = 2.0**-53
_TINY_64 = 2.0**-1074
_PAIR_BYTES = 16 << 20


def pair_scores(metric: Metric, queries: NDArray[Any], rows: NDArray[Any]) -> NDArray[np.float64]:
    """The score of each query with the row beside it, from the numbers as they are stored.

    Each pair is added up by itself, so that its score does not depend on what else is in the call.
    """
    scores = np.empty(len(queries), np.float64)
    step = max(1, _PAIR_BYTES // (8 * queries.shape[1]))
    for start in range(0, len(queries), step):
        part = slice(start, start + step)
        left = queries[part].astype(np.float64)
        right = rows[part].astype(np.float64)
        scores[part] = _scores(metric, left, right)
    return scores


def _scores(metric: Metric, left: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.float64]:
    result: NDArray[np.float64]
    if metric is Metric.L2:
        result = np.sqrt(np.square(left - right).sum(axis=1))
        return result
    result = (left * right).sum(axis=1)
    if metric is Metric.COSINE:
        result /= np.sqrt(np.square(left).sum(axis=1)) * np.sqrt(np.square(right).sum(axis=1))
    return result


def tolerance(
    metric: Metric, scores: NDArray[np.float64], scale: NDArray[np.float64], dimension: int
) -> NDArray[np.float64]:
    """How far a float64 score can be from the real one; closer pairs are undecidable.

    What it covers is the rounding of products, sums and norms, and underflow. `scale` is the product
    of the two norms, which bounds the terms of an inner product.
    """
    rounding = (dimension + 8) * _UNIT_64
    if metric is Metric.L2:
        return rounding * scores + float(np.sqrt(dimension * _TINY_64))
    if metric is Metric.COSINE:
        return np.full_like(scores, 2 * rounding)
    return rounding * scale + dimension * _TINY_64
