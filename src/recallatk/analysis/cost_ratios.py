"""Ratios of costs between two settings: within interleaved rounds where there are any, else across runs."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from recallatk.analysis.latency import PERCENTILES, percentile
from recallatk.analysis.sides import same_indexes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from recallatk.analysis.latency import Percentile
    from recallatk.analysis.sides import SideBuild, SideSetting
    from recallatk.core import Calls

RATES = ("qps", "cost")
COSTS = ("qps", "memory", "size", "build", "cost")
_CONFIDENCE = 0.95


@dataclass(frozen=True)
class CostRatio:
    """A cost of two settings, and the ratio of the second to the first."""

    name: str
    """A latency percentile, `qps`, `memory`, `size`, `build` or `cost`."""
    first: float
    second: float
    ratio: float
    low: float | None = None
    """Lower end of the 95 % interval of the ratio; None if there is none."""
    high: float | None = None
    interleaved: bool = False
    """Whether both settings were measured in turns on one index, so that the machine's pace cancels."""

    @property
    def timed(self) -> bool:
        """Whether it depends on the pace of the machine."""
        return self.name not in ("memory", "size")


def cost_ratios(first: SideSetting, second: SideSetting) -> list[CostRatio]:
    """Every cost that both settings have."""
    same = same_indexes(first, second)
    found = [_latency(name, first.builds, second.builds, same=same) for name in PERCENTILES]
    # Searches of one index have one memory, size and build time.
    found += [_cost(name, first.builds, second.builds) for name in COSTS if not same or name in RATES]
    if same and first.load == second.load:
        found = [_interleaved_rate(each, first, second) for each in found]
    return [each for each in found if each is not None]


def _latency(
    name: str, first: Sequence[SideBuild], second: Sequence[SideBuild], *, same: bool
) -> CostRatio | None:
    one, other = latency_over_builds(name, first), latency_over_builds(name, second)
    if one is None or other is None or not one[0] or not other[0]:
        return None
    ratio = other[0] / one[0]
    share = PERCENTILES[name]
    within = _within_rounds(first, second, lambda calls: _by_round(calls, share)) if same else None
    if within is not None:
        return CostRatio(name, one[0], other[0], *within, interleaved=True)
    if None in (*one, *other):
        return CostRatio(name, one[0], other[0], ratio)
    # Independent errors of the logarithms.
    (a, a_low, a_high), (b, b_low, b_high) = (
        [math.log(max(each or 0.0, 1e-12)) for each in ends] for ends in (one, other)
    )
    low, high = b - a - math.hypot(b - b_low, a_high - a), b - a + math.hypot(b_high - b, a - a_low)
    return CostRatio(name, one[0], other[0], ratio, math.exp(low), math.exp(high))


def latency_over_builds(
    name: str, builds: Sequence[SideBuild]
) -> tuple[float, float | None, float | None] | None:
    """The median over builds, and the widest ends."""
    found: list[Percentile] = [each.latencies[name] for each in builds if name in each.latencies]
    values = [each.value for each in found if each.value is not None]
    if not found or len(values) < len(found):
        return None
    low = [each.low for each in found if each.low is not None]
    high = [each.high for each in found if each.high is not None]
    complete = len(low) == len(high) == len(found)
    return float(np.median(values)), min(low) if complete else None, max(high) if complete else None


def _within_rounds(
    first: Sequence[SideBuild],
    second: Sequence[SideBuild],
    by_round: Callable[[Calls], Sequence[float | None]],
) -> tuple[float, float | None, float | None] | None:
    """The geometric mean over the rounds of all builds with its interval; None without rounds."""
    logs: list[float] = []
    for one, other in zip(first, second, strict=True):
        if one.calls is None or other.calls is None:
            return None
        pairs = zip(by_round(one.calls), by_round(other.calls), strict=False)
        logs += [math.log(after / before) for before, after in pairs if before and after]
    if not logs:
        return None
    center = float(np.mean(logs))
    if len(logs) < 2:
        return math.exp(center), None, None
    from scipy.special import stdtrit

    error = float(np.std(logs, ddof=1)) / math.sqrt(len(logs))
    margin = float(stdtrit(len(logs) - 1, 0.5 + _CONFIDENCE / 2)) * error
    return math.exp(center), math.exp(center - margin), math.exp(center + margin)


def _interleaved_rate(found: CostRatio | None, first: SideSetting, second: SideSetting) -> CostRatio | None:
    """A rate as the ratio within rounds; a cost per query is the inverse of one."""
    if found is None or found.name not in RATES:
        return found
    busy = first.load.startswith("latency")
    within = _within_rounds(first.builds, second.builds, lambda calls: _rates(calls, busy=busy))
    if within is None:
        return found
    ratio, low, high = within
    if found.name == "cost":
        ratio, low, high = 1 / ratio, None if high is None else 1 / high, None if low is None else 1 / low
    return replace(found, ratio=ratio, low=low, high=high, interleaved=True)


def _rates(calls: Calls, *, busy: bool) -> list[float | None]:
    """Queries per second of each round: of the time inside calls, or of the whole round."""
    time_ns = np.bincount(calls.round, calls.latency_ns, calls.rounds) if busy else calls.round_ns
    return [
        float(count / took) if took > 0 else None for count, took in zip(calls.answered, time_ns, strict=True)
    ]


def _by_round(calls: Calls, share: float) -> list[float | None]:
    """The percentile of each round; None where a round is too small to have it."""
    return [percentile(calls.latency_ns[calls.round == each], share) for each in range(calls.rounds)]


def _cost(name: str, first: Sequence[SideBuild], second: Sequence[SideBuild]) -> CostRatio | None:
    one, other = cost_over_builds(name, first), cost_over_builds(name, second)
    if not one or not other:
        return None
    return CostRatio(name, one, other, other / one)


def cost_over_builds(name: str, builds: Sequence[SideBuild]) -> float | None:
    """The mean of a cost over builds; None unless all have it."""
    values = [each.costs.get(name) for each in builds]
    known = [each for each in values if each is not None]
    return float(np.mean(known)) if known and len(known) == len(values) else None
