"""Per-query values summarized: mean with interval, percentiles, histogram, zero-recall share."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from recallatk.analysis.betting import lower_bound, upper_bound
from recallatk.analysis.intervals import (
    Interval,
    mean_interval,
    quantile,
    quantile_interval,
    share_interval,
    weighted_spread,
)
from recallatk.analysis.measures import recorded_measure
from recallatk.core import Mean
from recallatk.core.weights import effective_number, unequal

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recallatk.analysis.measures import Measure

# Fewer queries than this are too few to resample: two of them would be sure of all that lies between.
FEWEST_RESAMPLED = 30


def mean_of(
    values: NDArray[np.float64],
    measure: Measure | str,
    by_ids: NDArray[np.float64] | None = None,
    weights: NDArray[np.float64] | None = None,
) -> Mean:
    """The mean over the queries that have a value, which are those that are not NaN.

    Args:
        values: one value per query.
        measure: what the values are of.
        by_ids: the same by strict ids.
        weights: how much each query counts; equally by default. A weight of 0 leaves the query out.
    """
    known = recorded_measure(measure) if isinstance(measure, str) else measure
    mean = mean_of_values(values, is_share=known.is_share, weights=weights)
    if by_ids is None or mean.value is None:
        return mean
    found, counts = scored_values(np.where(np.isnan(values), np.nan, by_ids), weights)
    return replace(mean, ids=weighted_mean(found, counts))


def plain_mean(values: NDArray[np.float64]) -> float:
    """The mean of at least one value; that of equal values is their value, without rounding."""
    least = float(values.min())
    return least if least == values.max() else float(values.mean())


def mean_of_values(
    values: NDArray[np.float64], *, is_share: bool = False, weights: NDArray[np.float64] | None = None
) -> Mean:
    """The mean with its interval; with weights also the unweighted mean and the effective number."""
    found, counts = scored_values(values, weights)
    if not len(found):
        return Mean(None, None, 0)
    low, high = interval_of(found, is_share=is_share, weights=counts) or (None, None)
    mean = Mean(weighted_mean(found, counts), None, len(found), low, high)
    if weights is None:
        return mean
    unweighted = plain_mean(values[~np.isnan(values)])
    effective = float(len(found)) if counts is None else effective_number(counts)
    return replace(mean, unweighted=unweighted, effective=effective)


def scored_values(
    values: NDArray[np.float64], weights: NDArray[np.float64] | None = None
) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
    """The values that count, and their weights: None where they are equal, as without weights."""
    counts = ~np.isnan(values) if weights is None else ~np.isnan(values) & (weights > 0)
    if not counts.all():
        values, weights = values[counts], None if weights is None else weights[counts]
    return values, unequal(weights)


def weighted_mean(values: NDArray[np.float64], weights: NDArray[np.float64] | None = None) -> float:
    """The mean of values without NaN; equal weights by default."""
    if unequal(weights) is None or weights is None:
        return plain_mean(values)
    shares = weights / float(np.max(weights))
    found = float(np.sum(shares * values)) / float(np.sum(shares))
    # A mean of equal values is that value; rounding must not move it beyond 1.
    return min(max(found, float(values.min())), float(values.max()))


def interval_of(
    values: NDArray[np.float64], *, is_share: bool, weights: NDArray[np.float64] | None = None
) -> Interval | None:
    """The 95 % interval of a mean over queries; of few queries what holds for any distribution."""
    weights = unequal(weights)
    effective = float(len(values)) if weights is None else effective_number(weights)
    if is_share and weights is None:
        return share_interval(int(values.sum()), len(values))
    if effective < FEWEST_RESAMPLED and values.min() >= 0 and values.max() <= 1:
        return Interval(
            lower_bound(values, 0.975, weights=weights), upper_bound(values, 0.975, weights=weights)
        )
    if is_share and weights is not None and np.ptp(values) > 0:
        # Heavy queries that seem to vary less may have misses that are too rare to be seen.
        worth = effective / max(1.0, weighted_spread(values, weights)) ** 2
        return share_interval(weighted_mean(values, weights) * worth, worth)
    return mean_interval(values, weights=weights)


_QUANTILES = {"p1": 0.01, "p5": 0.05, "median": 0.5}
_BINS = 10


@dataclass(frozen=True)
class Estimate:
    """A number and its 95 % interval over queries."""

    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Distribution:
    """The spread of one measure between 0 and 1 over the queries that have it."""

    n: int
    least: float
    quantiles: dict[str, Estimate]
    """p1, p5 and the median, as order statistics: each is the value of a query."""
    zeros: Estimate
    """The share of queries at 0."""
    ones: Estimate
    histogram: tuple[int, ...]
    """Queries from 0 up to 0.1, from 0.1 up to 0.2 and so on; the last also has those at 1."""


def distribution(values: NDArray[np.float64]) -> Distribution | None:
    """The spread of per-query values; None when no query has one."""
    values = values[~np.isnan(values)]
    if not len(values):
        return None
    counts = np.bincount(_bins(values), minlength=_BINS)
    return Distribution(
        n=len(values),
        least=float(values.min()),
        quantiles={
            name: _estimate(quantile(values, share), quantile_interval(values, share))
            for name, share in _QUANTILES.items()
        },
        zeros=_share(values == 0.0),
        ones=_share(values == 1.0),
        histogram=tuple(counts.tolist()),
    )


def _bins(values: NDArray[np.float64]) -> NDArray[np.int64]:
    # 0.7 times 10 is below 7 in floating point, and seven of ten belongs to the bin from 0.7.
    return np.clip(np.floor(values * _BINS + 1e-9).astype(np.int64), 0, _BINS - 1)


def _estimate(value: float, interval: Interval | None) -> Estimate:
    low, high = (None, None) if interval is None else interval
    return Estimate(value, low, high)


def _share(flags: NDArray[np.bool_]) -> Estimate:
    return _estimate(float(flags.mean()), share_interval(int(flags.sum()), len(flags)))
