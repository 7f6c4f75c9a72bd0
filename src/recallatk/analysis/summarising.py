"""Per-query values as one mean with its interval: Wilson's for shares of queries, BCa's for all else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from recallatk.analysis.betting import lower_bound, upper_bound
from recallatk.analysis.intervals import Interval, mean_interval, share_interval
from recallatk.analysis.measures import parse_measure
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
    known = parse_measure(measure) if isinstance(measure, str) else measure
    interval = interval_of(values, is_share=known.is_share)
    low, high = (None, None) if interval is None else interval
    ids = None if by_ids is None else float(by_ids.mean())
    return Mean(float(values.mean()), ids, len(values), low, high)


def interval_of(values: NDArray[np.float64], *, is_share: bool) -> Interval | None:
    """The 95 % interval of a mean over queries; of few queries what holds for any distribution."""
    if is_share:
        return share_interval(int(values.sum()), len(values))
    if len(values) < FEWEST_RESAMPLED and values.min() >= 0 and values.max() <= 1:
        return Interval(lower_bound(values, 0.975), upper_bound(values, 0.975))
    return mean_interval(values)
