"""Change points of a series of means, by a self-starting cumulative sum (Hawkins, Technometrics 1987)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

# In standard errors: half the smallest shift worth finding, and the sum that raises the alarm. A series that
# does not change raises one about once in 460 entries (Montgomery, Statistical Quality Control).
SLACK, ALARM = 0.5, 5.0
# One wild entry alone shows a change, and no entry counts for more.
_MOST = 2 * ALARM
# Median of the absolute difference of two normal values of variance 1.
_MEDIAN_DIFFERENCE = 0.67449 * float(np.sqrt(2))
_FEWEST_FOR_SCATTER = 6


class ChangePoint(NamedTuple):
    """The first entry after a change."""

    place: int
    before: float
    """Mean of the entries since the change before."""
    after: float
    """Mean of the entries from this one to the one that raised the alarm."""


def change_points(values: Sequence[float], errors: Sequence[float]) -> list[ChangePoint]:
    """Where the level of a series changes, up or down.

    Each entry is compared with the mean of all since the last change. These differences are independent while
    nothing changes, so that their cumulative sums have the known rate of false alarms.

    Args:
        values: one mean per entry, by time.
        errors: the standard error of each; where entries scatter more than that, as builds do, their scatter
            counts.
    """
    series = np.asarray(values, np.float64)
    scales = np.maximum(np.asarray(errors, np.float64), _scatter(series))
    found: list[ChangePoint] = []
    start = 0
    while (change := _first_change(series, scales, start)) is not None:
        found.append(change)
        start = change.place
    return found


def _first_change(series: NDArray[np.float64], scales: NDArray[np.float64], start: int) -> ChangePoint | None:
    """The first change after the level that begins at `start`."""
    sums = {1: 0.0, -1: 0.0}
    for place in range(start + 1, len(series)):
        z = _standardized(series, scales, start, place)
        for sign, so_far in tuple(sums.items()):
            sums[sign] = max(0.0, so_far + sign * z - SLACK)
            if sums[sign] > ALARM:
                return _likeliest(series[: place + 1], start)
    return None


def _likeliest(series: NDArray[np.float64], start: int) -> ChangePoint:
    """The place that divides the entries since `start` best, by squared error."""

    def gain(place: int) -> float:
        before, after = series[start:place], series[place:]
        share = len(before) * len(after) / (len(before) + len(after))
        return float(share * (before.mean() - after.mean()) ** 2)

    first = max(range(start + 1, len(series)), key=gain)
    return ChangePoint(first, float(series[start:first].mean()), float(series[first:].mean()))


def _standardized(series: NDArray[np.float64], scales: NDArray[np.float64], start: int, place: int) -> float:
    """An entry's difference from the mean of those before, in standard errors."""
    before = place - start
    off = float(series[place] - series[start:place].mean())
    error = float(np.sqrt(scales[place] ** 2 + (scales[start:place] ** 2).sum() / before**2))
    # Means of equal values differ by rounding alone.
    if abs(off) < 1e-12:
        return 0.0
    return float(np.clip(off / error, -_MOST, _MOST)) if error > 0 else float(np.sign(off)) * _MOST


def _scatter(series: NDArray[np.float64]) -> float:
    """Standard deviation of the entries around their level, which a few changes of level do not move."""
    if len(series) < _FEWEST_FOR_SCATTER:
        return 0.0
    # The median of few differences is often too small, which false alarms feel.
    inflated = 1 + 3 / len(series)
    return inflated * float(np.median(np.abs(np.diff(series)))) / _MEDIAN_DIFFERENCE
