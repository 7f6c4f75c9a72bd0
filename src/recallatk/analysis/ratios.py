"""Ratios of sums over queries: the share of true neighbors found, with an interval over queries."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from recallatk.analysis.intervals import Interval, mean_interval
from recallatk.core import Mean

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_CONFIDENCE = 0.95
_NORMAL = 1.959964


def ratio_of(parts: Floats, wholes: Floats) -> Mean:
    """The sum of the parts over the sum of the wholes, with its 95 % interval over queries.

    Neighbors of one query are found or missed together, so the unit of resampling is the query.

    Args:
        parts: per query, from 0 up to its whole.
        wholes: per query; queries with a whole of 0 do not count.
    """
    inside = wholes > 0
    parts, wholes = parts[inside], wholes[inside]
    if not len(wholes):
        return Mean(None, None, 0)
    ratio = float(parts.sum() / wholes.sum())
    return Mean(ratio, None, len(wholes), *ratio_interval(parts, wholes))


def ratio_interval(parts: Floats, wholes: Floats) -> Interval:
    """The 95 % interval of a ratio of sums, all wholes above 0.

    The ratio R is linearized: its error is the mean of (part - R whole) / mean(whole) to first order, whose
    bootstrap distribution is exact (`mean_interval`). The ends are stretched from the normal quantile to
    Student's for the effective number of queries, (sum of wholes)^2 / (sum of squared wholes), because few
    queries with many neighbors may carry the ratio.

    Where all queries have the same share, nothing varies: the bound of `bca_interval` applies, for the
    effective number of queries.
    """
    from scipy.special import stdtrit

    ratio = float(parts.sum() / wholes.sum())
    effective = float(wholes.sum()) ** 2 / float(wholes @ wholes)
    errors = (parts - ratio * wholes) / wholes.mean()
    if np.abs(errors).max() < 1e-12:
        least = (1 - _CONFIDENCE) ** (1 / effective)
        return Interval(ratio * least, 1 - (1 - ratio) * least)
    found = mean_interval(errors)
    if found is None:  # unreachable for values that vary
        return Interval(0.0, 1.0)
    stretch = float(stdtrit(max(effective - 1, 1.0), 0.5 + _CONFIDENCE / 2)) / _NORMAL
    return Interval(max(0.0, ratio + found.low * stretch), min(1.0, ratio + found.high * stretch))
