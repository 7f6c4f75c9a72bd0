"""The tables of a tuning's page: all settings, what recall costs, and everything that was tried."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recallatk.report.html.sheet import shown
from recallatk.report.naming import listed
from recallatk.report.summary import number
from recallatk.report.tables import Table, interval
from recallatk.report.tuned_settings import bound_name, marks_of, measure_of, number_names, numbers

if TYPE_CHECKING:
    from recallatk.core.tuned import Tuned
    from recallatk.report.charts.tuned_points import TunedCurve

# So many attempts can be read, and the page stays small; tuned.json has all.
MOST_ATTEMPTS = 300
_TITLES = {
    "p95 ms": "p95 (ms)",
    "QPS": "QPS (1/s)",
    "memory MiB": "Memory (MiB)",
    "build s": "Build (s)",
}
_CELL, _LONG_CELL = 120, 300


def settings_table(curve: TunedCurve) -> Table:
    """Every setting that the chart shows, the front first, and those that it cannot show."""
    measure = curve.measure or ""
    rows = []
    for candidate, point in zip(curve.candidates, curve.points, strict=True):
        mean = candidate.measures.get(measure)
        marks = [*(["front"] if point["costFront"] else []), *marks_of(curve.tuned, candidate)]
        rows.append(
            [
                point["label"],
                ", ".join(marks),
                number(None if mean is None else mean.value, ".4f"),
                interval(mean, ".4f"),
                *numbers(candidate),
            ]
        )
    header = ["Setting", "Is", shown(measure, _CELL) or "recall", "95 % interval"]
    title = "All settings measured at full size, the front first"
    return Table(title, [*header, *(_title(name) for name in number_names(measure))], rows, 2)


def _title(name: str) -> str:
    return _TITLES.get(name, name[:1].upper() + name[1:])


def price_table(tuned: Tuned) -> Table:
    """How many times as much each round number costs as the one before."""
    rows = [[f"{each.low:g}", f"{each.high:g}", f"{each.ratio:.2f} times"] for each in tuned.prices]
    return Table("Between measured settings, never beyond them", ["From", "To", "Costs"], rows, 2)


def attempts_table(tuned: Tuned) -> Table:
    """Everything that was tried or skipped, in its order."""
    rows = [
        [
            shown(each.engine, _CELL),
            shown(listed(each.build), _CELL) or "-",
            "the whole build" if each.search is None else shown(listed(each.search), _CELL) or "-",
            shown(each.verdict, _CELL),
            shown(each.why, _LONG_CELL) or "-",
            f"{each.rows:,}",
            number(each.bound, ".4f"),
            number(each.p95_ms, ".3f"),
            number(each.seconds, ",.1f"),
        ]
        for each in tuned.attempts[:MOST_ATTEMPTS]
    ]
    bound = _title(bound_name(measure_of(tuned)))
    header = ["Engine", "Build", "Search", "Came of it", "Why", "Rows", bound, "p95 (ms)", "Seconds"]
    return Table("Everything that was tried or skipped, in its order", header, rows, 5)


def printed(table: Table | None) -> Table | None:
    """The same with nothing in it that is obeyed, and with words for every column."""
    if table is None:
        return None
    rows = [[shown(cell, _LONG_CELL) for cell in row] for row in table.rows]
    header = [name[:1].upper() + name[1:] for name in table.header]
    return Table(table.title, header, rows, table.words)
