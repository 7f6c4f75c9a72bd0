"""Limits of weighted means that one more value of the heaviest weight could reach (Fay and Feuer 1997)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


def rare_limits(in_order: Floats, weights: Floats, confidence: float) -> tuple[float, float]:
    """The lower and the upper limit of a weighted mean, each with this one-sided confidence.

    Values other than the weighted median are rare events, whose weighted sum has the gamma limit of Fay and
    Feuer: that of the events seen and of one more, which is as heavy as the heaviest value and lies at 0 or
    at 1. Values on the other side of the median are not counted, so a limit is wide where many values differ.

    Args:
        in_order: values from 0 to 1 in ascending order.
        weights: above 0, in the order of the values.
        confidence: of each limit, more than 0 and less than 1.
    """
    shares = weights / float(np.max(weights))
    shares = shares / float(np.sum(shares))
    middle = min(int(np.searchsorted(np.cumsum(shares), 0.5)), len(in_order) - 1)
    median = float(in_order[middle])
    offsets = in_order - median
    below = _farthest(shares, np.maximum(-offsets, 0.0), median, confidence)
    above = _farthest(shares, np.maximum(offsets, 0.0), 1.0 - median, confidence)
    return median - below, median + above


def _farthest(shares: Floats, distances: Floats, reach: float, confidence: float) -> float:
    """The upper limit of the mean distance, at most the whole reach."""
    from scipy.special import gammaincinv

    if reach <= 0.0:
        return 0.0
    parts, one_more = shares * distances, float(np.max(shares)) * reach
    total = float(np.sum(parts)) + one_more
    squares = float(np.sum(parts * parts)) + one_more**2
    return min(reach, float(gammaincinv(total**2 / squares, confidence)) * squares / total)
