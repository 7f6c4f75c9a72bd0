"""Differences without shared queries: of two means with their intervals, and of two low percentiles."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from recallatk.analysis.comparison import Difference
from recallatk.analysis.distribution import FEWEST_RESAMPLED
from recallatk.analysis.intervals import quantile
from recallatk.errors import UsageError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recallatk.core import Mean

    Floats = NDArray[np.float64]

RESAMPLES = 1_999
# Queries drawn at once.
_AT_ONCE = 2_000_000
_Z = 1.959963984540054


def unpaired_difference(first: Mean, second: Mean) -> Difference:
    """The difference of two means over different queries.

    The ends of the intervals of both means add up like independent errors (MOVER; Zou and Donner 2008), and
    the p value is that of the normal distribution with the same width.
    """
    from scipy.special import ndtr

    if first.value is None or second.value is None:
        raise UsageError("cannot compare: no query has values")
    found = second.value - first.value
    low = high = None
    p_value = 1.0
    if None not in (first.low, first.high, second.low, second.high):
        low = found - math.hypot(second.value - _end(second.low), _end(first.high) - first.value)
        high = found + math.hypot(_end(second.high) - second.value, first.value - _end(first.low))
        nearest = found - low if found > 0 else high - found
        p_value = min(1.0, 2 * float(ndtr(-_Z * abs(found) / nearest))) if nearest > 0 else float(found == 0)
    n = min(first.n, second.n)
    return Difference("first", "second", found, low, high, p_value, p_value, n, n, p_value < 0.05)


def _end(value: float | None) -> float:
    return math.nan if value is None else value


def percentile_difference(
    first: Floats, second: Floats, share: float, confidence: float = 0.95, seed: int = 0
) -> Difference:
    """The difference of a percentile over the same queries, by the paired bootstrap.

    The interval is that of the percentiles of the resampled differences; with fewer than 30 queries there is
    none. The p value is twice the share of resampled differences on the other side of 0, or at it.

    Args:
        first: one value per query.
        second: the same of the second system.
        share: the percentile as a share, such as 0.05.
        confidence: of the interval.
        seed: random seed of the resamples.
    """
    found = quantile(second, share) - quantile(first, share)
    n, differing = len(first), int(np.count_nonzero(first != second))
    if n < FEWEST_RESAMPLED or not differing:
        return Difference("first", "second", found, None, None, 1.0, 1.0, n, differing, False)
    random = np.random.default_rng(seed)
    rank = max(0, math.ceil(share * n - 1e-9) - 1)
    drawn: list[Floats] = []
    left = RESAMPLES
    while left:
        some = min(left, max(1, _AT_ONCE // n))
        which = random.integers(0, n, (some, n))
        ends = [np.partition(each[which], rank, axis=1)[:, rank] for each in (first, second)]
        drawn.append(ends[1] - ends[0])
        left -= some
    resampled = np.concatenate(drawn)
    low, high = (float(np.quantile(resampled, each)) for each in ((1 - confidence) / 2, (1 + confidence) / 2))
    beyond = min(int(np.count_nonzero(resampled <= 0)), int(np.count_nonzero(resampled >= 0)))
    p_value = min(1.0, 2 * (1 + beyond) / (RESAMPLES + 1))
    return Difference("first", "second", found, low, high, p_value, p_value, n, differing, p_value < 0.05)
