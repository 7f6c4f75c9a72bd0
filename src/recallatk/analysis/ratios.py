"""Ratios of sums over queries: the share of true neighbors found, with an interval over queries."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from recallatk.analysis.intervals import Interval, mean_interval
from recallatk.core import Mean
from recallatk.core.weights import effective_number, unequal

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_CONFIDENCE = 0.95
_NORMAL = 1.959964


def ratio_of(parts: Floats, wholes: Floats, weights: Floats | None = None) -> Mean:
    """The sum of the parts over the sum of the wholes, with its 95 % interval over queries.

    Neighbors of one query are found or missed together, so the unit of resampling is the query.

    Args:
        parts: per query, from 0 up to its whole.
        wholes: per query; queries with a whole of 0 do not count.
        weights: factor of each query's part and whole; equal by default. A weight of 0 leaves the query out.
    """
    inside = wholes > 0
    if weights is None:
        return _ratio(parts[inside], wholes[inside])
    counts = inside & (weights > 0)
    if not counts.any():
        return Mean(None, None, 0)
    unweighted = float(parts[inside].sum() / wholes[inside].sum())
    found = _ratio(parts[counts], wholes[counts], unequal(weights[counts]))
    return replace(found, unweighted=unweighted, effective=effective_number(weights[counts]))


def _ratio(parts: Floats, wholes: Floats, weights: Floats | None = None) -> Mean:
    if not len(wholes):
        return Mean(None, None, 0)
    if weights is None:
        ends = ratio_interval(parts, wholes)
    else:
        # Relative to the heaviest, because squares of large counts overflow.
        shares = weights / float(weights.max())
        parts, wholes = parts * shares, wholes * shares
        ends = _with_unseen(ratio_interval(parts, wholes), parts, wholes)
    return Mean(float(parts.sum() / wholes.sum()), None, len(wholes), *ends)


def _with_unseen(ends: Interval, parts: Floats, wholes: Floats) -> Interval:
    """The interval with room for misses of queries as heavy as the heaviest that are too rare to be seen."""
    ratio = float(parts.sum() / wholes.sum())
    rare = _without_variation(ratio, float(wholes.sum() / wholes.max()))
    return Interval(min(ends.low, rare.low), max(ends.high, rare.high))


def _without_variation(ratio: float, effective: float) -> Interval:
    least = (1 - _CONFIDENCE) ** (1 / effective)
    return Interval(ratio * least, 1 - (1 - ratio) * least)


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
        return _without_variation(ratio, effective)
    found = mean_interval(errors)
    if found is None:  # unreachable for values that vary
        return Interval(0.0, 1.0)
    stretch = float(stdtrit(max(effective - 1, 1.0), 0.5 + _CONFIDENCE / 2)) / _NORMAL
    return Interval(max(0.0, ratio + found.low * stretch), min(1.0, ratio + found.high * stretch))
