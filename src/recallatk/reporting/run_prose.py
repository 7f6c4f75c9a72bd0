"""The sections of a run's report in prose: verdict, tables, filters, cautions, notes, failures."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from recallatk.reporting import run_notes, run_tables
from recallatk.reporting.document import Code, Form, Heading, Items, Lead, Section, Sentences
from recallatk.reporting.findings import linter_section
from recallatk.reporting.labels import GOAL_BOUNDS

_MOST_SEGMENTS = 30

if TYPE_CHECKING:
    from recallatk.reporting.run_report import RunReport


def tables(report: RunReport) -> list[Section]:
    """All rows and columns, one table per load mode or load."""
    made = run_tables.tables(report.run, report.lines, report.labels, wide=report.wide, by=report.by)
    return [Section(each.title, [each]) for each in made]


def verdict(report: RunReport) -> Section:
    """The verdict, then each goal with its outcome."""
    found = report.whole_verdict
    lead = Lead(found.sentence, found.word, bool(found.met), found.why)
    bounds = Sentences([GOAL_BOUNDS] if found.bounded else [])
    return Section("Verdict", [lead, Items(found.goals), bounds])


def filtered(report: RunReport) -> list[Section]:
    """Recall and rates by filter, selectivity and correlation, for runs with filters."""
    sections = []
    for each in report.grouped_recall.values():
        about = [Sentences([each.said]), each.table(), Items(each.changes)]
        sections.append(Section(each.title, [*about, Sentences([each.rates_said]), each.rates()]))
    return sections


def rows(report: RunReport) -> list[Section]:
    """True neighbors found by corpus column, and the rows that are lost."""
    if not report.run.by_row:
        return []
    from recallatk.reporting.row_segments import row_sections

    return row_sections(report.rows, report.no_rows)


def missed(report: RunReport) -> Section | None:
    """Which missed neighbors mattered, of one setting per engine."""
    from recallatk.reporting.missed_neighbors import missed_section

    return missed_section(report)


def segments(report: RunReport) -> list[Section]:
    """Recall of every engine by the query columns that the settings name."""
    return segment_sections(report, _MOST_SEGMENTS)


def segment_sections(report: RunReport, most: int, width: int | None = None) -> list[Section]:
    """A section per column with at most so many segments, then why columns are missing."""
    found, missing = report.segments
    if not found:
        return [Section("", [Sentences(missing)])]
    # Analysis of single queries takes a while to import, for which a terminal should not wait.
    from recallatk.reporting.engine_segments import segment_section

    first, *others = (segment_section(each, most, width) for each in found)
    # The settings are the same for every column.
    first = replace(first, blocks=[*first.blocks, Sentences([found[0].settings])])
    return [first, *others, Section("", [Sentences(missing)])]


def runs(report: RunReport) -> Section | None:
    """Comparison with other runs."""
    if report.comparison is None:
        return None
    from recallatk.reporting.comparison import COMPARED, comparison_blocks

    return Section(COMPARED, comparison_blocks(report.comparison))


def builds(report: RunReport) -> Section | None:
    """Build time, memory and size of every index."""
    return (
        Section("Build time, memory and size", [run_tables.cost_table(report.curve)])
        if report.lines
        else None
    )


def provenance(report: RunReport) -> Section:
    """The data, the machine, and the command that repeats the run."""
    from recallatk.reporting import provenance

    run = report.run
    return Section(
        "Provenance",
        [
            provenance.identity(run),
            provenance.environment(run),
            Heading("Repeat this run"),
            Code(provenance.command(run)),
            Code(provenance.bench_file(run) or ""),
        ],
    )


def failures(report: RunReport) -> Section:
    """Every trial that failed, and where the logs are."""
    said = run_notes.failures(report.run, report.labels)
    logs = [f"Logs of failed trials: {report.logs}"] if said and report.logs else []
    return _list("Failed", [*said, *logs], "failed")


def cautions(report: RunReport) -> Section:
    """Cautions about the machine and the measurement."""
    return _list("Cautions", run_notes.cautions(report.run), "caution")


def notes(report: RunReport) -> Section:
    """Facts about the run that a reader must know."""
    return _list("Notes", run_notes.notes(report.run, report.lines, report.labels))


def linter(report: RunReport) -> Section | None:
    """Every finding of the linter in a line, where it ran."""
    return None if report.findings is None else linter_section(list(report.findings), short=True)


def linter_explained(report: RunReport) -> Section | None:
    """The same with reasons and remedies."""
    return None if report.findings is None else linter_section(list(report.findings))


def _list(title: str, lines: list[str], label: str = "") -> Section:
    return Section(title, [Items(lines, label)], headed=Form.MARKDOWN)
