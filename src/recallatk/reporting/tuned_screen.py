"""The outcome of a tuning on one terminal screen: the front as a table and a curve, findings and files."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from recallatk.core.filtering import REFUSED
from recallatk.core.measured import SHOWN_FIRST
from recallatk.core.tuned import FEW_HELD_OUT
from recallatk.reporting.charts.tuned_curve import cost_of
from recallatk.reporting.document import Drawing, Section, Sentences
from recallatk.reporting.findings import MOST_BRIEF, findings_in_brief, shortened_line
from recallatk.reporting.labels import Naming
from recallatk.reporting.plot import MARGIN, WIDTH, Dot, scatter
from recallatk.reporting.text import columns_taken, printable
from recallatk.reporting.tuned_words import (
    about_choice,
    cost_axis,
    front_rows,
    front_table,
    held,
    shared_parameters,
    trial_of,
)

if TYPE_CHECKING:
    from recallatk.reporting.document import Table
    from recallatk.reporting.tuned import TunedReport

_HEIGHT = 8
_BESIDE = 12
_MOST_ROWS = 12
# Also engines that were left out, and targets that few queries validated.
_APART = (*SHOWN_FIRST, REFUSED, FEW_HELD_OUT)
# The columns that a narrow terminal drops, the least needed first.
_DROPPED = ("build s", "queries", "memory MiB", "at least", "at most", "QPS")


def front(report: TunedReport) -> Section:
    """The Pareto front, as many rows and columns as fit."""
    tuned = report.tuned
    names = Naming(trial_of(each) for each in front_rows(tuned))
    made = front_table(tuned, names, report.measure)
    shared = shared_parameters(names)
    more = len(made.rows) - _MOST_ROWS
    kept = [*made.rows[:_MOST_ROWS]]
    # The choice is shown wherever it is in the table.
    kept += [row for row in made.rows[_MOST_ROWS:] if row[0]] if more > 0 else []
    title = f"Pareto front on the tuning queries{f'; {shared}' if shared else ''}"
    hidden = (
        [f"--verbose shows {len(made.rows) - len(kept):,} more settings."]
        if len(kept) < len(made.rows)
        else []
    )
    table = _fitted(replace(made, title="", rows=kept), report.columns)
    hidden += about_choice(tuned)
    return Section("", [Sentences([title]), table, Sentences(hidden)] if kept else [])


def _fitted(table: Table, width: int) -> Table:
    """The table without the columns for which there is no room."""
    for name in _DROPPED:
        if columns_taken(table.header, table.rows) <= width:
            break
        if name in table.header:
            place = table.header.index(name)
            rows = [[cell for at, cell in enumerate(row) if at != place] for row in table.rows]
            header = [each for each in table.header if each != name]
            table = replace(table, header=header, rows=rows)
    return table


def curve(report: TunedReport) -> Section:
    """Recall against the preferred cost, of every setting that was measured on the whole corpus."""
    tuned, measure = report.tuned, report.measure
    found = held(tuned)
    on_front = {trial_of(each) for each in tuned.front}
    dots = []
    for each in found:
        mean, cost = each.measures.get(measure), cost_of(tuned, each)
        if mean is not None and mean.value is not None and cost:
            dots.append(Dot(mean.value, cost, each.engine, trial_of(each) in on_front))
    engines = list(dict.fromkeys(each.engine for each in found))
    width = max(20, min(WIDTH, report.columns - MARGIN - _BESIDE))
    return Section("", [Drawing(scatter(dots, engines, cost_axis(tuned), measure, width, _HEIGHT))])


def notices(report: TunedReport) -> Section:
    """Cautions that no rule of the linter repeats, then its rules; without it, all cautions."""
    if report.findings:
        apart = [f"caution: {each.message}" for each in report.tuned.cautions if each.kind in _APART]
        brief = [shortened_line(printable(each), report.columns) for each in apart[:MOST_BRIEF]]
        return Section("", [Sentences([*brief, *findings_in_brief(report.findings, report.columns)])])
    # The table has the caution about a choice that is not on the front.
    rest = [each for each in report.tuned.cautions if each.kind != "off-front"]
    said = [f"caution: {each.message}" for each in rest[:MOST_BRIEF]]
    return Section("", [Sentences([shortened_line(printable(each), report.columns) for each in said])])


def files(report: TunedReport) -> Section:
    """Where the files of the tuning are."""
    # A path that is wrapped cannot be copied.
    return Section("", [Drawing(list(report.files))])
