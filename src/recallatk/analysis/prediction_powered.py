"""Prediction-powered means: exact recalls of few queries, corrected by the proxy recalls of many.

A proxy judges answers by a cheap, nearly exact search instead of the exact one. PPI++ (Angelopoulos, Duchi
and Zrnic, "PPI++: efficient prediction-powered inference", 2023) subtracts a share of the proxy recall from
every exact recall and adds the same share of the mean proxy recall of the other queries. The share is
estimated: it is close to 1 for a good proxy and to 0 for a bad one, which costs width and no validity.

All queries are a sample of the workload. The mean is that of the workload, not that of the file.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from recallatk.analysis.distribution import FEWEST_RESAMPLED
from recallatk.analysis.intervals import Interval, mean_interval
from recallatk.analysis.proxy_betting import checked_pairs, proxy_lower_bound, proxy_upper_bound
from recallatk.errors import UsageError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

# How likely it would be to see none of the queries that `_unseen` makes room for. Chosen by the coverage of
# real recalls with far more others than exact queries (benchmarks/probe_statistics.py).
SEEN_NONE = 0.2
# Closer recalls are the same but for rounding.
_SAME = 1e-9


class ProxyMean(NamedTuple):
    """A mean exact recall, estimated with a proxy."""

    value: float
    low: float
    high: float
    bound: float
    """What the mean is above, by `proxy_lower_bound`: to decide by."""
    weight: float
    """The share of the proxy recall that is subtracted, from 0 for a useless proxy to nearly 1."""
    worth: float
    """About as many exact queries without the proxy would have an interval of the same width."""


def proxy_mean(
    exact: Floats, proxy: Floats, others: Floats, confidence: float = 0.95, seed: int = 0
) -> ProxyMean:
    """The mean exact recall of the workload, with an interval and a bound.

    `proxy` has the proxy recalls of the queries in `exact`, in their order; `others` those of the queries
    without an exact recall. Which queries have one must have been drawn at random.

    The exact queries and the others are independent. The estimate adds a mean of each: of exact - weight
    proxy, and of weight proxy. Each has the interval that is shown of plain means (`mean_interval`), which
    follows skew. Their distances from the means are combined side by side as the root of the sum of squares
    (Zou and Donner, "Construction of confidence limits about effect measures", 2008). Fewer than 30 exact
    queries have betting bounds as their interval.
    """
    known, judged, rest = checked_pairs(exact, proxy, others)
    if not len(known):
        raise UsageError("cannot correct the proxy: no query has an exact recall. Accepted: 1 or more")
    weight = proxy_weight(known, judged, len(rest))
    value = _estimate(known, judged, rest, weight)
    found = _interval(known, judged, rest, weight, confidence, seed)
    plain = _interval(known, judged, rest[:0], 0.0, confidence, seed)
    low, high = max(0.0, min(found.low, value)), min(1.0, max(found.high, value))
    bound = proxy_lower_bound(known, judged, rest, confidence, seed)
    worth = len(known) * ((plain.high - plain.low) / (high - low)) ** 2 if high > low else float(len(known))
    return ProxyMean(value, low, high, bound, weight, worth)


def proxy_weight(exact: Floats, proxy: Floats, others: int) -> float:
    """The weight of the smallest variance: the slope of exact over proxy recalls, from 0 to 1.

    The fewer others there are, the less certain is their mean: the slope is multiplied by their share of all
    queries. A proxy that falls where the exact recall rises is not used.
    """
    deviations = proxy - float(np.mean(proxy))
    squares = float(np.sum(deviations**2))
    if not others or squares <= _SAME**2:
        return 0.0
    slope = float(np.sum(deviations * exact)) / squares
    return min(max(slope, 0.0), 1.0) * others / (others + len(exact))


def _estimate(exact: Floats, proxy: Floats, others: Floats, weight: float) -> float:
    correction = weight * (float(np.mean(proxy)) - float(np.mean(others))) if weight else 0.0
    return min(max(float(np.mean(exact)) - correction, 0.0), 1.0)


def _interval(
    exact: Floats, proxy: Floats, others: Floats, weight: float, confidence: float, seed: int
) -> Interval:
    if len(exact) >= FEWEST_RESAMPLED:
        found = _combined(exact, proxy, others, weight, confidence)
        if found is not None:
            return found
    sure = 0.5 + confidence / 2
    ends = (bound(exact, proxy, others, sure, seed) for bound in (proxy_lower_bound, proxy_upper_bound))
    return Interval(*ends)


def _combined(
    exact: Floats, proxy: Floats, others: Floats, weight: float, confidence: float
) -> Interval | None:
    rectified = exact - weight * proxy
    first = mean_interval(rectified, confidence)
    if not weight or first is None:
        return first
    second = mean_interval(others, confidence)
    if second is None:
        return None
    means = float(np.mean(rectified)), float(np.mean(others))
    unseen = _unseen(exact, proxy, others)
    value = means[0] + weight * means[1]
    below = math.hypot(means[0] - first.low, weight * (means[1] - second.low), weight * unseen.low)
    above = math.hypot(first.high - means[0], weight * (second.high - means[1]), weight * unseen.high)
    return Interval(value - below, value + above)


def _unseen(exact: Floats, proxy: Floats, others: Floats) -> Interval:
    """How much the mean may move to either side by queries of a kind that no exact query shows.

    If no exact recall is further above its proxy than usual, the share of queries that are is taken to be at
    most 1 - 0.2^(1/n), and each to move by the smallest step between recalls.
    """
    differences = exact - proxy
    usual = float(np.median(differences))
    steps = np.diff(np.unique(np.concatenate([exact, proxy, others])))
    step = float(np.min(steps[steps > _SAME], initial=1.0))
    most = step * (1 - SEEN_NONE ** (1 / len(exact)))
    seen_below, seen_above = np.any(differences < usual - _SAME), np.any(differences > usual + _SAME)
    return Interval(0.0 if seen_below else most, 0.0 if seen_above else most)
