"""Segments across the settings of one engine: the worst one, and the one that gains most from effort."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.analysis.comparison import difference_interval
from recallatk.analysis.distribution import plain_mean, scored_values, weighted_mean
from recallatk.analysis.intervals import mean_interval
from recallatk.analysis.segments import FEWEST
from recallatk.core import Mean
from recallatk.core.weights import effective_number
from recallatk.reporting.document import Table
from recallatk.reporting.labels import cut, fitted, with_margin
from recallatk.reporting.per_query import recall_per_query
from recallatk.reporting.text import printable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from recallatk.analysis.segments import Grouping
    from recallatk.core import Truth
    from recallatk.reporting.charts.points import Curve
    from recallatk.reporting.charts.theme import Row

_LONGEST = 40


@dataclass(frozen=True, eq=False)
class EffortGains:
    """What each segment gains in recall between two settings of one build, query by query."""

    lowest: str
    """The setting with the lowest recall."""
    highest: str
    overall: Mean
    segments: dict[str, Mean]
    """Segments with enough queries to rank, the largest gain first."""

    @property
    def said(self) -> str:
        """The segment that gains most, in a sentence."""
        name, gain = next(iter(self.segments.items()))
        above = gain.low is not None and self.overall.value is not None and gain.low > self.overall.value
        chance = "" if above else ", which may be chance"
        return (
            f"{cut(printable(name), _LONGEST)} gains most from effort: {_signed(gain)} from {self.lowest} to "
            f"{self.highest}; all queries {_signed(self.overall)}{chance}."
        )

    def table(self) -> Table:
        """Every segment with its gain and its number of queries, the largest gain first."""
        names = fitted([printable(each) for each in self.segments], _LONGEST)
        rows = [
            [name, _signed(gain), f"{gain.n:,}"]
            for name, gain in zip(names, self.segments.values(), strict=True)
        ]
        rows.append(["all queries", _signed(self.overall), f"{self.overall.n:,}"])
        return Table(
            f"From {self.lowest} to {self.highest}", ["Segment", "Gain", "Queries"], rows, 1, "narrow"
        )

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        from recallatk.reporting.as_dict import mean_to_dict

        return {
            "from": self.lowest,
            "to": self.highest,
            "overall": mean_to_dict(self.overall),
            "segments": [{"name": name, **mean_to_dict(gain)} for name, gain in self.segments.items()],
        }


def _signed(gain: Mean) -> str:
    text = with_margin(gain)
    return text if text.startswith("-") else f"+{text}"


def efforts_of(curve: Curve, point: Row) -> list[Row]:
    """The settings of a point's index under the first load, by rising recall."""
    build = curve.lines[point["n"]].trial
    same = [
        each
        for each in curve.main
        if each["recall"] is not None
        and (trial := curve.lines[each["n"]].trial).engine == build.engine
        and (trial.build, trial.repeat) == (build.build, build.repeat)
    ]
    return sorted(same, key=lambda each: (each["recall"], each["n"]))


def effort_gains(curve: Curve, truth: Truth, grouping: Grouping, point: Row) -> EffortGains | None:
    """Gains between the lowest and the highest recall of an index; None without two segments and settings."""
    points = [
        each
        for each in efforts_of(curve, point)
        if len(curve.lines[each["n"]].measurement.answers) == len(truth)
    ]
    k = curve.k
    if k is None or len(points) < 2:
        return None
    low, high = (
        recall_per_query(curve.lines[each["n"]].measurement, truth, k) for each in (points[0], points[-1])
    )
    gains, weights = high - low, curve.lines[points[-1]["n"]].measurement.weights
    found: dict[str, Mean] = {}
    for name in sorted({each for each in grouping.labels if each is not None}):
        inside = np.asarray(grouping.labels == name, bool)
        gain = _gain(gains[inside], None if weights is None else weights[inside])
        if gain.n >= FEWEST:
            found[name] = gain
    ranked = dict(sorted(found.items(), key=lambda each: -(each[1].value or 0.0)))
    labels = (points[0]["label"], points[-1]["label"])
    return EffortGains(*labels, _gain(gains, weights), ranked) if len(ranked) > 1 else None


def _gain(gains: NDArray[np.float64], weights: NDArray[np.float64] | None) -> Mean:
    known, counts = scored_values(gains, weights)
    if not len(known):
        return Mean(None, None, 0)
    if counts is None:
        found = Mean(float(known.mean()), None, len(known), *(mean_interval(known) or (None, None)))
    else:
        ends = difference_interval(known, weights=counts) or (None, None)
        found = Mean(weighted_mean(known, counts), None, len(known), *ends)
    if weights is None:
        return found
    effective = float(len(known)) if counts is None else effective_number(counts)
    return replace(found, unweighted=plain_mean(gains[~np.isnan(gains)]), effective=effective)


def worst_said(by: str, groups: Mapping[str, int], means: Mapping[str, Mean], overall: Mean) -> list[str]:
    """The worst segment that is large enough to rank, in a sentence."""
    ranked = [
        (mean.value, name)
        for name, mean in means.items()
        if groups.get(name, 0) >= FEWEST and mean.value is not None
    ]
    if len(ranked) < 2:
        return []
    name = min(ranked)[1]
    high = means[name].high
    below = high is not None and overall.value is not None and high < overall.value
    chance = "" if below else ", which may be chance"
    return [
        f"Worst {cut(printable(by), _LONGEST)}: {cut(printable(name), _LONGEST)} with "
        f"{with_margin(means[name])}; all queries {with_margin(overall)}{chance}."
    ]
