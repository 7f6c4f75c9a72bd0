"""The report of a tuning: its sections in their order, and its three forms."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from recallatk.reporting import tuned_churn, tuned_downstream, tuned_page, tuned_screen
from recallatk.reporting.charts.theme import unchecked_charts
from recallatk.reporting.charts.tuned_curve import AXES, tuned_curve
from recallatk.reporting.document import (
    Code,
    Document,
    Form,
    Lead,
    Section,
    Sentences,
    build_sections,
)
from recallatk.reporting.findings import linter_section
from recallatk.reporting.labels import Naming
from recallatk.reporting.markdown import render_markdown
from recallatk.reporting.text import for_console, render_text, terminal_width
from recallatk.reporting.tuned_file import TUNED, tuned_text
from recallatk.reporting.tuned_words import (
    about_front,
    about_prices,
    front_rows,
    front_table,
    mean_in_words,
    measure_of,
    short,
    trial_of,
    tried_table,
    verdict,
    weighting,
)
from recallatk.units import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from recallatk.core.judgments import Finding
    from recallatk.core.tuned import Tuned
    from recallatk.reporting.charts.theme import Chart
    from recallatk.reporting.charts.tuned_curve import TunedCurve
    from recallatk.reporting.document import Builders

# Fewer queries are too few for a bootstrap interval.
_FEW_QUERIES = 30


@dataclass(frozen=True, eq=False)
class TunedReport:
    """A tuning with what its sections are built from."""

    tuned: Tuned
    findings: Sequence[Finding] | None = None
    """Findings of the linter; None if it did not run."""
    width: int | None = None
    """Columns of the terminal; None: of the one that this process writes to."""
    files: Sequence[str] = ()
    """Sentences that say where the files are."""

    @cached_property
    def curve(self) -> TunedCurve:
        """Its settings as points."""
        return tuned_curve(self.tuned)

    @property
    def measure(self) -> str:
        """The measure of the first target."""
        return measure_of(self.tuned) or "recall"

    @cached_property
    def columns(self) -> int:
        """Columns of the terminal."""
        return terminal_width() if self.width is None else self.width

    @property
    def axis(self) -> str:
        """The preferred cost, with its unit."""
        return AXES.get(self.tuned.prefer, f"{self.tuned.prefer} latency (ms)")

    def document(self, form: Form) -> Document:
        """The document in one form."""
        sections = build_sections(SECTIONS, self, form)
        if form is not Form.HTML:
            # In a terminal, the verdict is the first line.
            return Document("Tuning" if form is Form.MARKDOWN else "", sections)
        tuned = self.tuned
        within = f"Within {' and '.join(tuned.budgets)}; " if tuned.budgets else ""
        return Document(
            f"Tuning for {' and '.join(tuned.targets)}",
            sections,
            [f"{within}cheapest by {tuned.prefer}."],
            window_title=f"Tuning for {short(' and '.join([*tuned.targets, *tuned.budgets]))}",
            files={TUNED: tuned_text(tuned, self.findings)},
        )


def tuned_to_text(
    tuned: Tuned,
    *,
    verbose: bool = False,
    findings: Iterable[Finding] | None = None,
    width: int | None = None,
    files: Sequence[str] = (),
    ascii_only: bool | None = None,
) -> str:
    """A tuning for the terminal: verdict, code to paste, Pareto front, curve, findings, files.

    Args:
        tuned: the outcome.
        verbose: with the runner-up, prices, worst segment, attempts and every finding.
        findings: findings of the linter; None if it did not run.
        width: columns of the terminal; by default those of the current one.
        files: sentences that say where the files are.
        ascii_only: draw with ASCII; by default if the encoding of standard output needs it.
    """
    report = TunedReport(
        tuned,
        None if findings is None else list(findings),
        width,
        [files] if isinstance(files, str) else files,
    )
    form = Form.TEXT if verbose else Form.SCREEN
    text = render_text(report.document(form), report.columns if form is Form.SCREEN else None)
    return for_console(text, ascii_only=ascii_only)


def tuned_to_markdown(tuned: Tuned) -> str:
    """The report of a tuning as Markdown."""
    return render_markdown(TunedReport(tuned).document(Form.MARKDOWN))


def tuned_to_html(tuned: Tuned, *, findings: Iterable[Finding] | None = None, home: str = "") -> str:
    """A tuning as one HTML file that loads nothing; its content security policy enforces that.

    Args:
        tuned: the outcome.
        findings: findings of the linter; None if it did not run.
        home: address of the first page, on a site.
    """
    from recallatk.reporting.html.page import render_html

    report = TunedReport(tuned, None if findings is None else list(findings))
    with unchecked_charts():
        return render_html(replace(report.document(Form.HTML), home=home))


def tuned_charts(tuned: Tuned) -> dict[str, Chart]:
    """Every chart of a tuning by name."""
    return TunedReport(tuned).document(Form.HTML).charts


def _verdict(report: TunedReport) -> Section:
    tuned = report.tuned
    first, *others = verdict(tuned)
    lead = Lead(first, "Met" if tuned.met else "Missed", tuned.met)
    blocks = [lead, Sentences([*others, *weighting(tuned)]), *tuned_page.tiles(tuned)]
    return Section("Verdict", blocks, "verdict", headed=Form.HTML)


def _paste(report: TunedReport) -> Section:
    return Section("Code", [Code(report.tuned.snippet or "", "The setting as code")], "paste", "Code")


def _runner_up(report: TunedReport) -> Section:
    return Section("Runner-up", [Sentences(tuned_page.about_runner_up(report.tuned))])


def _front(report: TunedReport) -> Section:
    tuned = report.tuned
    names = Naming(trial_of(each) for each in front_rows(tuned))
    about = about_front(tuned, names, report.measure)
    return Section("Front", [Sentences(about), front_table(tuned, names, report.measure)])


def _prices(report: TunedReport) -> Section:
    return Section("Cost of more recall", [Sentences(about_prices(report.tuned, report.measure))])


def _worst(report: TunedReport) -> Section | None:
    if report.tuned.worst_segment is None:
        return None
    name, mean = report.tuned.worst_segment
    few = " Too few queries for a reliable interval." if mean.n < _FEW_QUERIES else ""
    said = f"{name}: {mean_in_words(mean)} on held-out queries.{few}"
    return Section("Worst segment", [Sentences([said])], "worst", "Worst segment")


def _tried(report: TunedReport) -> Section:
    return Section("Tried and skipped", [tried_table(report.tuned)])


def _took(report: TunedReport) -> Section:
    tuned = report.tuned
    builds, settings = counted(tuned.builds, "build", "builds"), counted(tuned.trials, "setting", "settings")
    said = f"{tuned.seconds:,.1f} s for {builds} and {settings}"
    grid = tuned.grid_seconds_estimate
    if grid is not None and tuned.seconds:
        # Of a grid that is cheaper than the tuning there is no factor to save.
        times = grid / tuned.seconds
        more = f" ({times:,.1f}×)" if times > 1 else ", less than this tuning"
        said += f"; the full grid would take about {grid:,.0f} s{more}"
    return Section("Tuning cost", [Sentences([f"{said}."])], "took")


def _cautions(report: TunedReport) -> Section:
    return Section("Cautions", [Sentences([each.message for each in report.tuned.cautions])])


def _linter(report: TunedReport) -> Section | None:
    return None if report.findings is None else linter_section(report.findings, short=True)


SECTIONS: Builders = (
    (Form.ALL, _verdict),
    (Form.ALL, _paste),
    (Form.ALL, tuned_churn.section),
    (Form.SCREEN, tuned_downstream.in_brief),
    (Form.PROSE | Form.HTML, tuned_downstream.whole),
    (Form.PROSE, _runner_up),
    (Form.PROSE, _front),
    (Form.SCREEN, tuned_screen.front),
    (Form.TERMINAL, tuned_screen.curve),
    (Form.HTML, tuned_page.curve),
    (Form.PROSE, _prices),
    (Form.HTML, tuned_page.price_steps),
    (Form.PROSE | Form.HTML, _worst),
    (Form.PROSE, _tried),
    (Form.HTML, tuned_page.attempts),
    (Form.ALL, _took),
    (Form.PROSE, _cautions),
    (Form.TEXT, _linter),
    (Form.SCREEN, tuned_screen.notices),
    (Form.HTML, tuned_page.care),
    (Form.HTML, tuned_page.files),
    (Form.TERMINAL, tuned_screen.files),
)
