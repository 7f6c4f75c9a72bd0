"""Recall by filter selectivity: one setting of every engine, the chosen or the best one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from recallatk.analysis.distribution import mean_of
from recallatk.analysis.segments import by_selectivity
from recallatk.reporting.document import Table
from recallatk.reporting.labels import fitted, with_margin
from recallatk.reporting.per_query import recall_per_query
from recallatk.reporting.run_tables import LONGEST_CELL
from recallatk.reporting.text import columns_taken

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recallatk.core import Mean, Truth
    from recallatk.reporting.charts.points import Curve
    from recallatk.reporting.charts.theme import Row

TITLE = "Recall by filter selectivity"
_OF_ROWS = " of the rows"


@dataclass(frozen=True, eq=False)
class SelectivityRow:
    """One engine: its setting and the recall of that setting by selectivity."""

    engine: str
    label: str
    overall: Mean
    means: dict[str, Mean]
    """By name of the group of queries."""


@dataclass(frozen=True, eq=False)
class Selectivity:
    """Recall of every engine by the share of rows that the filters admit."""

    measure: str
    groups: dict[str, int]
    """Number of queries in each group, the least selective first."""
    rows: list[SelectivityRow]

    def table(self, longest: int = LONGEST_CELL, *, overall: bool = True) -> Table:
        """One row per engine and one column per group, with the number of queries at the end.

        Args:
            longest: cut labels of settings to this many characters.
            overall: with the recall over all queries.
        """
        labels = fitted([each.label for each in self.rows], longest)
        rows = [
            [label, *([with_margin(each.overall)] if overall else []), *_cells(each, self.groups)]
            for label, each in zip(labels, self.rows, strict=True)
        ]
        counts = [f"{count:,}" for count in self.groups.values()]
        rows.append(["queries", *([f"{sum(self.groups.values()):,}"] if overall else []), *counts])
        names = [name.removesuffix(_OF_ROWS) for name in self.groups]
        return Table(TITLE, ["rows admitted", *(["overall"] if overall else []), *names], rows, 1)

    def table_within(self, width: int) -> Table:
        """The table that shows most within the columns of a terminal."""
        sizes = [(longest, overall) for overall in (True, False) for longest in (LONGEST_CELL, 24, 16)]
        made = [self.table(longest, overall=overall) for longest, overall in sizes]
        return next((each for each in made if columns_taken(each.header, each.rows) <= width), made[-1])

    def cells(self) -> list[Row]:
        """One entry per engine and group, for a heat map."""
        return [
            {
                "engine": each.label,
                "group": name.removesuffix(_OF_ROWS),
                "recall": mean.value,
                "text": with_margin(mean),
                "queries": mean.n,
            }
            for each in self.rows
            for name, mean in each.means.items()
            if mean.value is not None
        ]

    @property
    def said(self) -> str:
        """What the table shows, in a sentence."""
        return (
            f"{self.measure} by the share of rows that a query's filter admits. One setting per engine: the "
            "cheapest that reaches the target or the recall of the verdict, else the highest recall."
        )


def _cells(row: SelectivityRow, groups: dict[str, int]) -> list[str]:
    return [with_margin(row.means.get(name)) for name in groups]


def selectivity_of(curve: Curve, truth: Truth | None, chosen: int | None) -> Selectivity | None:
    """Recall of each engine by selectivity; None without filters, recall or a matching truth.

    Args:
        curve: the settings of the run.
        truth: the truth of the run.
        chosen: the number of the verdict's point.
    """
    k = curve.k
    if truth is None or k is None or truth.depth < k:
        return None
    grouping = by_selectivity(truth)
    if grouping is None:
        return None
    points = [each for each in settings_by_engine(curve, chosen) if _fits(curve, each, truth)]
    present = {each for each in grouping.labels if each is not None}
    order = [name for name in grouping.order or () if name in present]
    rows = []
    for point in points:
        measurement, measure = curve.lines[point["n"]].measurement, curve.measure or ""
        values, weights = recall_per_query(measurement, truth, k), measurement.weights
        means = {}
        for name in order:
            inside = _inside(grouping.labels, name)
            counts = None if weights is None else weights[inside]
            means[name] = mean_of(values[inside], measure, weights=counts)
        overall = mean_of(values, measure, weights=weights)
        rows.append(SelectivityRow(point["engine"], point["label"], overall, means))
    groups = {name: int(_inside(grouping.labels, name).sum()) for name in order}
    return Selectivity(curve.measure or "", groups, rows) if rows and groups else None


def _inside(labels: NDArray[np.object_], name: str) -> NDArray[np.bool_]:
    return np.asarray(labels == name, bool)


def _fits(curve: Curve, point: Row, truth: Truth) -> bool:
    return len(curve.lines[point["n"]].measurement.answers) == len(truth)


def settings_by_engine(curve: Curve, chosen: int | None) -> list[Row]:
    """One point per engine under the first load: the chosen one, or the best of its engine.

    The best is the cheapest that reaches the target, without one the recall of the chosen setting; where no
    setting of an engine does, its highest recall.
    """
    points = [each for each in curve.main if each["recall"] is not None]
    mine = next((each for each in points if each["n"] == chosen), None)
    wanted = max(curve.wanted, default=1.0 if mine is None else mine["recall"])
    found: dict[str, Row] = {name: {} for name in curve.engines.values()}
    for name in found:
        members = [each for each in points if each["engine"] == name]
        enough = [each for each in members if each["recall"] >= wanted and each["latency"]]
        if mine is not None and mine["engine"] == name:
            found[name] = mine
        elif enough:
            found[name] = min(enough, key=lambda each: each["latency"])
        elif members:
            found[name] = max(members, key=lambda each: each["recall"])
    return [each for each in found.values() if each]
