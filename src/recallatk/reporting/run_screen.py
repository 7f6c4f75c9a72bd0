"""A run on one terminal screen: verdict, compact tables, curve, findings, failures and files."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from recallatk.core.measured import SHOWN_FIRST
from recallatk.reporting.compact_tables import compact_tables
from recallatk.reporting.document import Drawing, Items, Lead, Section, Sentences
from recallatk.reporting.findings import MOST_BRIEF, findings_in_brief, shortened_line
from recallatk.reporting.labels import GOAL_BOUNDS, OVER_QUERIES
from recallatk.reporting.plot import MARGIN, WIDTH, plot
from recallatk.reporting.run_notes import cautions, doubts, failure_groups
from recallatk.reporting.run_prose import segment_sections
from recallatk.reporting.run_tables import FRONT
from recallatk.reporting.text import printable
from recallatk.reporting.trial_lines import prices
from recallatk.units import counted

if TYPE_CHECKING:
    from recallatk.reporting.compact_tables import CompactTable
    from recallatk.reporting.document import Block
    from recallatk.reporting.run_report import RunReport

_HEIGHT = 8
# Room for the name of the measure to the right of the axis.
_BESIDE = 12
_MOST_FAILURES = 5
_MORE = "--verbose shows"
_MOST_DOUBTS = 3
_MOST_SEGMENTS = 8


def verdict(report: RunReport) -> Section:
    """The verdict in one sentence, then each goal with its outcome."""
    found = report.whole_verdict
    lead = Lead(found.sentence, found.word, bool(found.met), found.why)
    return Section("", [lead, Items([f"  {each}" for each in found.goals])])


def heading(report: RunReport) -> Section:
    """What was measured on which data, and how much of it."""
    return Section("", [Sentences([report.title, *report.about])])


def compact(report: RunReport) -> list[Section]:
    """The tables with what fits the terminal."""
    made = compact_tables(report.run, report.lines, report.labels, report.columns, by=report.by)
    parts: list[list[Block]] = []
    for place, each in enumerate(made):
        known = {said for before in made[:place] for said in before.same}
        parts.append(_compact(each, known))
    if parts:
        parts[-1].append(Sentences(_legend(report, made)))
    return [Section("", blocks) for blocks in parts]


def _compact(made: CompactTable, known: set[str]) -> list[Block]:
    """A table under its title and what all of its rows share, unless a table above said so."""
    hidden = []
    if made.hidden:
        hidden.append(counted(made.hidden, "more setting", "more settings"))
    if made.dropped:
        hidden.append(", ".join(made.dropped))
    new = [each for each in made.same if each not in known]
    same = f"; {', '.join(new)}" if new else ""
    note = [f"{_MORE} {' and '.join(hidden)}."] if hidden else []
    title = Sentences([f"{made.table.title}{same}"])
    return [title, replace(made.table, title=""), Sentences(note)]


def _legend(report: RunReport, made: list[CompactTable]) -> list[str]:
    weighed = prices(report.lines)
    said = []
    if weighed and sum(len(each.table.rows) for each in made) > 1:
        said = [f"{FRONT} Pareto front by {report.headline} and {', '.join(weighed)}. {OVER_QUERIES}"]
    return [*said, *([GOAL_BOUNDS] if report.whole_verdict.bounded else [])]


def curve(report: RunReport) -> Section:
    """Recall against throughput."""
    room = report.columns - MARGIN - _BESIDE
    return Section("", [Drawing(plot(report.run, width=max(20, min(WIDTH, room)), height=_HEIGHT))])


def filtered(report: RunReport) -> list[Section]:
    """Recall of every engine with and without filters, by selectivity and by correlation."""
    return [
        Section(each.title, [replace(each.table_within(report.columns), title=""), Sentences(each.changes)])
        for each in report.grouped_recall.values()
    ]


def segments(report: RunReport) -> list[Section]:
    """Recall of every engine by the query columns that the settings name, the worst segments first."""
    return segment_sections(report, _MOST_SEGMENTS, report.columns)


def found(report: RunReport) -> Section:
    """One line per rule of the linter; where it did not run, the cautions of the run."""
    width = report.columns
    first = [f"caution: {each}" for each in doubts(report.run, report.lines, report.labels)][:_MOST_DOUBTS]
    if report.findings:
        brief = findings_in_brief(report.findings, width)
        return Section("", [Sentences([*(shortened_line(printable(each), width) for each in first), *brief])])
    said = [*first, *(f"caution: {each}" for each in cautions(report.run, SHOWN_FIRST))]
    more = len(said) - MOST_BRIEF
    if more > 0:
        rest = counted(more + 1, "more caution", "more cautions")
        said = [*said[: MOST_BRIEF - 1], f"{_MORE} {rest}."]
    return Section("", [Sentences([shortened_line(printable(each), width) for each in said])])


def failed(report: RunReport) -> Section:
    """Why trials failed, one line per reason, and where their logs are."""
    groups = failure_groups(report.run, report.labels)
    more = len(groups) - _MOST_FAILURES
    lines = [f"failed: {each}" for each in groups[:_MOST_FAILURES]]
    lines += [f"{_MORE} {counted(more, 'more failure', 'more failures')}."] if more > 0 else []
    logs = [f"Logs of failed trials: {report.logs}"] if groups and report.logs else []
    again = ["Failed trials are not measured again, unless you add --retry-failed to the command."]
    return Section("", [Sentences(lines), Drawing([*logs, *again] if logs else [])])


def files(report: RunReport) -> Section:
    """Where the files of the run are."""
    # A path that is wrapped cannot be copied.
    return Section("", [Drawing(list(report.files))])
