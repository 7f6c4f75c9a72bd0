"""Per-query values summarized: mean with interval, percentiles, histogram, zero-recall share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from recallatk.analysis.betting import lower_bound, upper_bound
from recallatk.analysis.intervals import Interval, mean_interval, quantile, quantile_interval, share_interval
from recallatk.analysis.measures import recorded_measure
from recallatk.core import Mean

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recallatk.analysis.measures import Measure

# Fewer queries than this are too few to resample: two of them would be sure of all that lies between.
FEWEST_RESAMPLED = 30


def mean_of(
    values: NDArray[np.float64], measure: Measure | str, by_ids: NDArray[np.float64] | None = None
) -> Mean:
    """The mean over the queries that have a value, which are those that are not NaN."""
    scored = ~np.isnan(values)
    if not scored.all():
        values, by_ids = values[scored], None if by_ids is None else by_ids[scored]
    if not len(values):
        return Mean(None, None, 0)
    known = recorded_measure(measure) if isinstance(measure, str) else measure
    interval = interval_of(values, is_share=known.is_share)
    low, high = (None, None) if interval is None else interval
    ids = None if by_ids is None else plain_mean(by_ids)
    return Mean(plain_mean(values), ids, len(values), low, high)


def plain_mean(values: NDArray[np.float64]) -> float:
    """The mean of at least one value; that of equal values is their value, without rounding."""
    least = float(values.min())
    return least if least == values.max() else float(values.mean())


def interval_of(values: NDArray[np.float64], *, is_share: bool) -> Interval | None:
    """The 95 % interval of a mean over queries; of few queries what holds for any distribution."""
    if is_share:
        return share_interval(int(values.sum()), len(values))
    if len(values) < FEWEST_RESAMPLED and values.min() >= 0 and values.max() <= 1:
        return Interval(lower_bound(values, 0.975), upper_bound(values, 0.975))
    return mean_interval(values)


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
