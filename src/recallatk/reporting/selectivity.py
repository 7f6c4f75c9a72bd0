"""Recall by filter selectivity: one setting of every engine, the chosen or the best one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from recallatk.analysis.segments import by_selectivity
from recallatk.reporting.document import Table
from recallatk.reporting.engine_segments import segments_by_engine
from recallatk.reporting.labels import fitted, with_margin
from recallatk.reporting.run_tables import LONGEST_CELL
from recallatk.reporting.text import columns_taken

if TYPE_CHECKING:
    from recallatk.core import Truth
    from recallatk.reporting.charts.points import Curve
    from recallatk.reporting.charts.theme import Row
    from recallatk.reporting.engine_segments import EngineRow

TITLE = "Recall by filter selectivity"
_OF_ROWS = " of the rows"


@dataclass(frozen=True, eq=False)
class Selectivity:
    """Recall of every engine by the share of rows that the filters admit."""

    measure: str
    groups: dict[str, int]
    """Number of queries in each group, the least selective first."""
    rows: list[EngineRow]

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


def _cells(row: EngineRow, groups: dict[str, int]) -> list[str]:
    return [with_margin(row.means.get(name)) for name in groups]


def selectivity_of(curve: Curve, truth: Truth | None, chosen: int | None) -> Selectivity | None:
    """Recall of each engine by selectivity; None without filters, recall or a matching truth.

    Args:
        curve: the settings of the run.
        truth: the truth of the run.
        chosen: the number of the verdict's point.
    """
    grouping = None if truth is None else by_selectivity(truth)
    found = None if grouping is None else segments_by_engine(curve, truth, grouping, chosen)
    return None if found is None else Selectivity(found.measure, found.groups, found.rows)
