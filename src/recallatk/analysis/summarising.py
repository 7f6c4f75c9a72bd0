"""Per-query values as one mean with its interval: of shares of queries Wilson's, of all else BCa's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from recallatk.analysis.intervals import mean_interval, share_interval
from recallatk.analysis.measures import parse_measure
from recallatk.core import Mean

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recallatk.analysis.measures import Measure


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
    interval = share_interval(int(values.sum()), len(values)) if known.is_share else mean_interval(values)
    low, high = (None, None) if interval is None else interval
    ids = None if by_ids is None else float(by_ids.mean())
    return Mean(float(values.mean()), ids, len(values), low, high)
