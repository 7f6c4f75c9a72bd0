"""Compact tables of a run: the columns and rows that a terminal shows at a glance."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from recallatk.analysis.filtered import FILTERED, UNFILTERED
from recallatk.analysis.headline import headline_measure
from recallatk.reporting.charts.points import thinned
from recallatk.reporting.labels import fitted
from recallatk.reporting.run_tables import (
    LONGEST_CELL,
    UNWEIGHTED,
    cells_of,
    columns_of,
    filled,
    grouped,
    in_order,
)
from recallatk.reporting.text import columns_taken
from recallatk.reporting.trial_lines import measure_names

if TYPE_CHECKING:
    from recallatk.core import Run
    from recallatk.reporting.document import Table
    from recallatk.reporting.labels import Naming
    from recallatk.reporting.run_tables import Column
    from recallatk.reporting.trial_lines import TrialLine

# The columns that a narrow terminal drops, the least needed first. Other measures than the headline follow.
_DROPPED = ("size MB", "build s", "p50 ms", "p99 ms", "memory MB", "seconds", "via", "batch", "late")
_LAST_DROPPED = (UNWEIGHTED, UNFILTERED, FILTERED, "refused")
# A terminal shows this many rows of each table.
_MOST_ROWS = 12
_NARROWEST_CELL = 16


class CompactTable(NamedTuple):
    """A table that fits a width, and what it leaves out."""

    table: Table
    same: list[str]
    """Columns with the same value in every row, each as `name value`."""
    dropped: list[str]
    """Names of the columns for which there is no room."""
    hidden: int
    """Number of rows that are not shown."""


def compact_tables(
    run: Run, lines: list[TrialLine], names: Naming, width: int, *, by: str = "mode"
) -> list[CompactTable]:
    """The tables with as many columns and rows as a terminal shows at a glance."""
    return [_compact(run, members, names, title, width) for title, members in grouped(lines, by=by).items()]


def _compact(run: Run, lines: list[TrialLine], names: Naming, title: str, width: int) -> CompactTable:
    headline = headline_measure(run)
    ordered = in_order(lines, headline)
    shown = _glanced(ordered, headline)
    columns = columns_of(run, ordered, names, wide=False, rounds=False)
    always = {
        headline,
        UNWEIGHTED,
        "search",
        "QPS",
        "",
        "highest rate/s",
        *(["p95 ms"] if len(shown) < 2 else []),
    }
    # Over all rows: a value that only the rows in sight share is not the same everywhere.
    same = [
        (column, found.pop())
        for column in columns
        if len(ordered) > 1
        and column.name not in always
        and len(found := {column.cell(line) for line in ordered}) == 1
    ]
    moved = {column.name for column, _ in same}
    kept = [column for column in columns if column.name not in moved]
    dropped: list[str] = []
    for name in _drop_order(run, headline):
        if _taken([cells_of(column, shown, wide=False) for column in kept], kept) <= width:
            break
        if any(column.name == name for column in kept):
            kept = [column for column in kept if column.name != name]
            dropped.append(name)
    cells = [cells_of(column, shown, wide=False) for column in kept]
    said = [_same_in_words(column.name, value) for column, value in same if value != "-"]
    return CompactTable(narrowed(filled(title, kept, cells), width), said, dropped, len(ordered) - len(shown))


def _drop_order(run: Run, headline: str | None) -> list[str]:
    others = [name for name in measure_names(run) if name != headline]
    return [*_DROPPED, *reversed(others), *_LAST_DROPPED]


def _taken(cells: list[list[str]], columns: list[Column]) -> int:
    rows = [list(row) for row in zip(*cells, strict=True)]
    return columns_taken([column.name for column in columns], rows)


def narrowed(table: Table, width: int) -> Table:
    """The table with its labels cut, the longest first, until it fits."""
    for longest in range(LONGEST_CELL, _NARROWEST_CELL - 1, -4):
        if columns_taken(table.header, table.rows) <= width:
            break
        columns = [list(column) for column in zip(*table.rows, strict=True)]
        columns[: table.words] = [fitted(column, longest) for column in columns[: table.words]]
        table = replace(table, rows=[list(row) for row in zip(*columns, strict=True)])
    return table


def _same_in_words(name: str, value: str) -> str:
    """A column as words: its unit, the last word of its name, follows the value."""
    *words, unit = name.split()
    return f"{' '.join(words)} {value} {unit}" if words and unit in ("s", "MB", "ms") else f"{name} {value}"


def _glanced(ordered: list[TrialLine], measure: str | None) -> list[TrialLine]:
    """The highest recall of every engine, then the front, then others, up to the number of rows shown."""
    if len(ordered) <= _MOST_ROWS:
        return ordered
    front = thinned([line for line in ordered if line.front], _MOST_ROWS)
    best: dict[str, TrialLine] = {}
    for line in sorted(ordered, key=lambda each: (each.value(measure) or 0.0, each.qps.median or 0.0)):
        best[line.trial.engine] = line
    wanted = [*best.values(), *front, *_distinct(ordered), *ordered]
    kept = list({id(line): line for line in wanted}.values())[: max(_MOST_ROWS, len(best))]
    return in_order(kept, measure)


def _distinct(ordered: list[TrialLine]) -> list[TrialLine]:
    """One line per engine, build, load and values of all measures, the cheapest: others tell nothing new."""
    found: dict[object, TrialLine] = {}
    for line in ordered:
        means = tuple(mean.value for mean in line.measurement.score.measures.values())
        key = (line.trial.engine, line.trial.build, line.trial.load, means)
        if key not in found or (line.qps.median or 0.0) > (found[key].qps.median or 0.0):
            found[key] = line
    return list(found.values())
