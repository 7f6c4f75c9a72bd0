"""Bounds of a mean paired difference that also count losses which no query has shown.

Resampling shows what was seen. Where no query lost, a loss that one query in a hundred has may be unseen: all
of n queries miss what a share s of them has with a probability of (1 - s)^n. So with a confidence of
1 - alpha, the unseen share is at most 1 - alpha^(1/n), and each query of it may lose everything. That is
sharp where nothing else varies: 299 queries without a difference are enough for a margin of 0.01 at 95 %.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from recallatk.analysis.comparison import difference_interval
from recallatk.analysis.intervals import Interval

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

# Equal shares may differ by rounding.
_ROUNDING = 1e-12


def unseen_share(queries: float, confidence: float) -> float:
    """The largest share of queries that a sample of this size may miss, with this confidence.

    Args:
        queries: size of the sample; of weighted queries, their weight over the heaviest.
        confidence: more than 0 and less than 1.
    """
    return float(1.0 - (1.0 - confidence) ** (1.0 / queries))


def queries_to_exclude(share: float, confidence: float) -> int:
    """The number of queries whose unseen share is at most `share`, which is more than 0 and less than 1."""
    return max(1, math.ceil(math.log(1.0 - confidence) / math.log1p(-share)))


def paired_bounds(
    first: Floats,
    second: Floats,
    confidence: float,
    weights: Floats | None = None,
    *,
    factor: float = 1.0,
    shift: float = 0.0,
    lower_is_better: bool = False,
) -> Interval | None:
    """Bounds of the mean of second - factor x first - shift, each with this confidence; None without bounds.

    Args:
        first: a value from 0 to 1 for every query, without NaN.
        second: the same of the other side.
        confidence: of each bound.
        weights: how much each query counts; equally by default.
        factor: of the first side.
        shift: what is taken off.
        lower_is_better: whether a loss is a larger value.
    """
    contrast = second - factor * first - shift
    gained = (first - second if lower_is_better else second - first) >= -_ROUNDING
    lost = (first - second if lower_is_better else second - first) <= _ROUNDING
    if not gained.all():
        return difference_interval(contrast, 2 * confidence - 1, weights)
    share = unseen_share(
        len(contrast) if weights is None else float(np.sum(weights / np.max(weights))), confidence
    )
    if np.ptp(contrast) > _ROUNDING:
        seen = difference_interval(contrast, 2 * confidence - 1, weights)
        if seen is None:
            return None
    else:
        seen = Interval(float(contrast[0]), float(contrast[0]))
    # A query of recall 1 that loses all of it, and one of recall 0 that gains all.
    worst, best = -factor - shift, 1.0 - shift
    low = (1 - share) * seen.low + share * worst
    high = (1 - share) * seen.high + share * best
    equal = bool(lost.all())
    if lower_is_better:
        return Interval(low if equal else seen.low, high)
    return Interval(low, high if equal else seen.high)
