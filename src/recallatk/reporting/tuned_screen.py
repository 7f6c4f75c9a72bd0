"""The outcome of a tuning on one terminal screen: the front as a table and a curve, findings and files."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from recallatk.core.filtering import REFUSED
from recallatk.core.measured import SHOWN_FIRST
from recallatk.core.tuned import FEW_HELD_OUT
from recallatk.reporting.charts.tuned_curve import cost_of
from recallatk.reporting.compact_tables import narrowed
from recallatk.reporting.document import Drawing, Section, Sentences
from recallatk.reporting.findings import MOST_BRIEF, findings_in_brief, shortened_line
from recallatk.reporting.labels import Naming, fitted
from recallatk.reporting.plot import MARGIN, WIDTH, Dot, scatter
from recallatk.reporting.text import columns_taken, printable
from recallatk.reporting.tuned_file import price_of_tuning
from recallatk.reporting.tuned_words import (
    about_choice,
    cost_axis,
    front_rows,
    front_table,
    held,
    other_measures,
    shared_parameters,
    short,
    trial_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from recallatk.reporting.document import Table
    from recallatk.reporting.tuned import TunedReport

_HEIGHT = 8
_BESIDE = 12
_MOST_ROWS = 12
# Also engines that were left out, and targets that few queries validated.
_APART = (*SHOWN_FIRST, REFUSED, FEW_HELD_OUT)
# The columns that a narrow terminal drops, the least needed first.
_DROPPED = ("build s", "queries", "memory MiB", "at least", "at most")
# Lengths of column names that a narrow terminal tries in turn.
_NAMES = (24, 16, 12)


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
    table, said = _fitted(replace(made, title="", rows=kept), report)
    return Section(
        "", [Sentences([title]), table, Sentences([*said, *hidden, *about_choice(tuned)])] if kept else []
    )


def _fitted(table: Table, report: TunedReport) -> tuple[Table, list[str]]:
    """The table without what a terminal has no room for, and what to say about measures of targets."""
    others = [short(name) for name in other_measures(report.tuned)]
    for count in range(len(others), -1, -1):
        shown, unshown = others[:count], others[count:]
        made = _shrunk(_without(table, unshown), report, shown)
        if _fits(made, report.columns):
            break
    numbered = [f"{place} {name}" for place, name in _numbers(shown).items() if place in made.header]
    said = [f"{', '.join(numbered)}."] if numbered else []
    return made, said + (
        [f"No room for {', '.join(unshown)}; --verbose shows all columns."] if unshown else []
    )


def _shrunk(table: Table, report: TunedReport, others: list[str]) -> Table:
    """The table after as many steps as it takes to fit: fewer columns, no margins, shorter texts."""
    price, by_cost = price_of_tuning(report.tuned), report.tuned.prefer == "cost"
    costs = ["p95 ms"] if by_cost else [] if price is None else [price.unit]
    steps: list[Callable[[Table], Table]] = [
        *(partial(_without, names=[name]) for name in _DROPPED),
        partial(_without_margins, names=others),
        partial(_numbered, names=others),
        *(partial(_without, names=[name]) for name in ("QPS", *costs, "unweighted")),
        *(partial(_with_short_names, longest=longest) for longest in _NAMES),
        partial(narrowed, width=report.columns),
    ]
    for step in steps:
        if _fits(table, report.columns):
            break
        table = step(table)
    return table


def _fits(table: Table, width: int) -> bool:
    return columns_taken(table.header, table.rows) <= width


def _without(table: Table, names: Sequence[str]) -> Table:
    kept = [place for place, name in enumerate(table.header) if name not in names]
    rows = [[row[place] for place in kept] for row in table.rows]
    return replace(table, header=[table.header[place] for place in kept], rows=rows)


def _without_margins(table: Table, names: Sequence[str]) -> Table:
    """The table with values alone in these columns; the first target keeps its margin."""
    plain = [name in names for name in table.header]
    rows = [
        [cell.partition(" ")[0] if bare else cell for cell, bare in zip(row, plain, strict=True)]
        for row in table.rows
    ]
    return replace(table, rows=rows)


def _numbered(table: Table, names: Sequence[str]) -> Table:
    """The table with numbers of targets for their names, which a line below tells."""
    numbers = {name: place for place, name in _numbers(names).items()}
    return replace(table, header=[numbers.get(name, name) for name in table.header])


def _numbers(names: Sequence[str]) -> dict[str, str]:
    """Targets after the first by number."""
    return {f"({place})": name for place, name in enumerate(names, start=2)}


def _with_short_names(table: Table, longest: int) -> Table:
    return replace(table, header=fitted(table.header, longest))


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
