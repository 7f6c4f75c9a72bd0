"""Percentiles of latencies, with nothing invented where the sample is too small."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def percentile(latencies_ns: NDArray[np.int64], share: float) -> float | None:
    """The smallest latency, in milliseconds, that at least `share` of the calls did not exceed.

    None when not even one call is expected beyond it: a p99 of fifty calls is only their maximum.
    """
    calls = np.sort(latencies_ns, axis=None)
    if len(calls) * (1.0 - share) < 1.0 - 1e-9:
        return None
    rank = max(1, int(np.ceil(share * len(calls) - 1e-9)))
    return float(calls[rank - 1]) / 1e6
