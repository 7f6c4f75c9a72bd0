"""Percentiles, throughput and lateness of calls, with nothing invented where the sample is too small."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from recallatk.analysis.intervals import quantile_ranks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recallatk.core import Calls

PERCENTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p99.9": 0.999}

# A send is late beyond the larger of these: a time, and a share of the median latency.
LATE_NS, LATE_SHARE = 1_000_000, 0.1


@dataclass(frozen=True)
class Percentile:
    """A percentile of latencies in milliseconds, with its 95 % interval."""

    value: float | None
    """None where the sample is too small to have it."""
    low: float | None
    """None where the sample is too small to have this end."""
    high: float | None


@dataclass(frozen=True)
class Spread:
    """A figure over rounds: the median, the lowest and the highest; None without any round."""

    median: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Lateness:
    """How much later than they were to be calls were sent; None without any."""

    share: float | None
    """Of the sends, those later than 1 ms and than a tenth of the median latency."""
    p99_ms: float | None
    worst_ms: float | None


def percentile(latencies_ns: NDArray[np.int64], share: float) -> float | None:
    """The smallest latency, in milliseconds, that at least `share` of the calls did not exceed.

    None when not even one call is expected beyond it: a p99 of fifty calls is only their maximum.
    """
    return _percentile(np.sort(latencies_ns, axis=None), share)


def percentile_interval(latencies_ns: NDArray[np.int64], share: float) -> tuple[float | None, float | None]:
    """The 95 % interval of a percentile, in milliseconds: two of the latencies, whatever their distribution.

    None for an end that the sample is too small to have: the upper one of a p99 needs 368 calls.
    """
    return _interval(np.sort(latencies_ns, axis=None), share)


def percentiles(calls: Calls) -> dict[str, Percentile]:
    """All percentiles of the calls of all rounds together."""
    in_order = np.sort(calls.latency_ns)
    return {
        name: Percentile(_percentile(in_order, share), *_interval(in_order, share))
        for name, share in PERCENTILES.items()
    }


def qps(calls: Calls, *, one_client: bool) -> Spread:
    """Queries answered in a second, over rounds.

    Args:
        calls: of all rounds.
        one_client: count the time inside calls only, which is all that a client without work of its own would
            need; otherwise the time from the beginning of a round to its last answer counts.
    """
    counts = calls.answered
    time_ns = calls.round_ns
    if one_client:
        time_ns = np.zeros(calls.rounds, np.int64)
        np.add.at(time_ns, calls.round, calls.latency_ns)
    took = time_ns > 0
    rates = counts[took] / (time_ns[took] / 1e9)
    if not len(rates):
        return Spread(None, None, None)
    return Spread(float(np.median(rates)), float(rates.min()), float(rates.max()))


def keeping_up(calls: Calls) -> Lateness:
    """Whether calls were sent when they were to be; otherwise the load was not the one asked for."""
    if not len(calls):
        return Lateness(None, None, None)
    allowed = max(LATE_NS, LATE_SHARE * float(np.median(calls.latency_ns)))
    return Lateness(
        share=float(np.mean(calls.late_ns > allowed)),
        p99_ms=percentile(calls.late_ns, 0.99),
        worst_ms=float(calls.late_ns.max()) / 1e6,
    )


def _percentile(in_order: NDArray[np.int64], share: float) -> float | None:
    if len(in_order) * (1.0 - share) < 1.0 - 1e-9:
        return None
    rank = max(1, int(np.ceil(share * len(in_order) - 1e-9)))
    return float(in_order[rank - 1]) / 1e6


def _interval(in_order: NDArray[np.int64], share: float) -> tuple[float | None, float | None]:
    ends = quantile_ranks(len(in_order), share)
    low, high = (None if place is None else float(in_order[place]) / 1e6 for place in ends)
    return low, high
