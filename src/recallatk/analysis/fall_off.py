"""The selectivity at which recall falls off, and the one at which an engine switches to a scan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from recallatk.analysis.segments import selectivity_grouping

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from recallatk.analysis.filtered import FilterGroup
    from recallatk.core import Mean, Measurement

# Smaller differences are no fall, however many queries show them.
LEAST_DROP = 0.02
# A scan finds every neighbor, up to ties in float32.
SCANNED = 0.999
# Rank correlation of latency with eligible rows, from which latency follows them.
FOLLOWS = 0.5
_FEWEST_QUERIES, _FEWEST_COUNTS = 10, 3


@dataclass(frozen=True)
class FallOff:
    """The first group of filters whose recall is clearly below that of the broadest one."""

    group: str
    recall: Mean
    broadest: str
    """The group with the broadest filters, or without."""
    before: Mean
    worst: str
    """The lowest of the groups that have fallen."""
    worst_recall: Mean


@dataclass(frozen=True)
class ScanSwitch:
    """The first group of filters under which an engine finds everything, though not under broader ones."""

    group: str
    recall: Mean
    broader: str
    """The group before it."""
    before: Mean
    latency_follows: bool | None
    """Whether latency grows with the eligible rows from here on, as in a scan; None if not told."""


def find_fall_off(groups: Sequence[FilterGroup]) -> FallOff | None:
    """The fall-off among groups by selectivity, the broadest first; None if there is none.

    A group has fallen if its interval lies below that of the broadest one, and its mean by at least 0.02.
    """
    broadest, lower = _lower_groups(groups)
    fallen = [each for each in lower if broadest is not None and _below(each.recall, broadest.recall)]
    if broadest is None or not fallen:
        return None
    first, worst = fallen[0], _lowest(fallen)
    return FallOff(first.name, first.recall, broadest.name, broadest.recall, worst.name, worst.recall)


def find_undecided_fall(groups: Sequence[FilterGroup]) -> FallOff | None:
    """The lowest group that is 0.02 or more below the broadest, but too uncertain to be a fall-off.

    None if a fall-off is certain, or if no group is that low.
    """
    broadest, lower = _lower_groups(groups)
    if broadest is None or not lower or find_fall_off(groups) is not None:
        return None
    worst = _lowest(lower)
    return FallOff(worst.name, worst.recall, broadest.name, broadest.recall, worst.name, worst.recall)


def _lower_groups(groups: Sequence[FilterGroup]) -> tuple[FilterGroup | None, list[FilterGroup]]:
    """The broadest group with recall, and those whose mean is at least 0.02 lower."""
    known = [each for each in groups if each.recall.value is not None]
    if not known:
        return None, []
    first = known[0]
    return first, [each for each in known if _value(first.recall) - _value(each.recall) >= LEAST_DROP]


def _lowest(groups: list[FilterGroup]) -> FilterGroup:
    return min(groups, key=lambda each: _value(each.recall))


def find_scan_switch(groups: Sequence[FilterGroup], measurement: Measurement) -> ScanSwitch | None:
    """The switch to a scan among the same groups; None if there is none.

    Recall jumps to 1 from a mean at least 0.02 lower, with intervals that do not overlap.
    """
    known = [each for each in groups if each.recall.value is not None]
    for place in range(1, len(known)):
        before, each = known[place - 1], known[place]
        jump = _value(each.recall) - _value(before.recall) >= LEAST_DROP
        if jump and _value(each.recall) >= SCANNED and _below(before.recall, each.recall):
            names = [later.name for later in known[place:]]
            follows = _latency_follows(measurement, names)
            return ScanSwitch(each.name, each.recall, before.name, before.recall, follows)
    return None


def _value(mean: Mean) -> float:
    return 0.0 if mean.value is None else mean.value


def _below(lower: Mean, upper: Mean) -> bool:
    """Whether the intervals do not overlap; a mean without an interval is compared by its value."""
    high = _value(lower) if lower.high is None else lower.high
    low = _value(upper) if upper.low is None else upper.low
    return high < low


def _latency_follows(measurement: Measurement, names: list[str]) -> bool | None:
    """Whether the latency of queries in these groups grows with their eligible rows."""
    facts, calls = measurement.filters, measurement.calls
    if facts is None or calls.batch != 1:
        return None
    labels = selectivity_grouping(facts.eligible, facts.corpus_rows).labels
    inside = np.isin(labels.astype(str), names)[calls.query]
    eligible, latency = facts.eligible[calls.query][inside], calls.latency_ns[inside]
    if len(np.unique(calls.query[inside])) < _FEWEST_QUERIES or len(np.unique(eligible)) < _FEWEST_COUNTS:
        return None
    return rank_correlation(eligible, latency) >= FOLLOWS


def rank_correlation(one: NDArray[np.int64], other: NDArray[np.int64]) -> float:
    """Spearman's correlation: that of the ranks, equal values having their mean rank."""
    ranks = np.stack([_ranks(one), _ranks(other)])
    ranks -= ranks.mean(axis=1, keepdims=True)
    scale = np.sqrt((ranks**2).sum(axis=1).prod())
    return float(ranks.prod(axis=0).sum() / scale) if scale else 0.0


def _ranks(values: NDArray[np.int64]) -> NDArray[np.float64]:
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return np.asarray((last - (counts - 1) / 2)[place], np.float64)
