"""The report of a run: what its sections are built from, their order, and its three forms."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from recallatk.errors import UsageError
from recallatk.goals.runs import run_verdict, trial_numbers
from recallatk.reporting import run_page
from recallatk.reporting.charts.points import curve_of, shortened
from recallatk.reporting.charts.theme import unchecked_charts
from recallatk.reporting.document import Document, Drawing, Form, Items, Section, build_sections
from recallatk.reporting.labels import naming
from recallatk.reporting.markdown import render_markdown
from recallatk.reporting.plot import plot
from recallatk.reporting.run_notes import cautions, failures, notes
from recallatk.reporting.run_tables import tables
from recallatk.reporting.text import render_text
from recallatk.reporting.trial_lines import trial_lines
from recallatk.reporting.verdict_words import goal_said, spoken_verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from recallatk.core import Dataset, Run, Truth
    from recallatk.goals import Verdict
    from recallatk.reporting.charts.points import Curve
    from recallatk.reporting.charts.theme import Chart
    from recallatk.reporting.comparison import Comparison
    from recallatk.reporting.document import Builders
    from recallatk.reporting.labels import Naming
    from recallatk.reporting.per_query import Facts
    from recallatk.reporting.setting_detail import Part
    from recallatk.reporting.trial_lines import TrialLine
    from recallatk.reporting.verdict_words import SpokenVerdict

_GROUPS = ("mode", "load")
_NOT_TOLD = "no recall was measured, or the truth does not fit the answers"


@dataclass(frozen=True, eq=False)
class RunReport:
    """A run with everything that sections say of it, computed when the first of them asks.

    Its fields are the arguments of `to_text` and `to_html`.
    """

    run: Run
    truth: Truth | None = None
    dataset: Dataset | None = None
    judged: Verdict | None = None
    """On its goals; None: what the run tells without its truth and data."""
    findings: Iterable[Any] | None = None
    others: Sequence[Run] = ()
    names: Sequence[str] = ()
    no_truth: str = ""
    """Why there is no truth, where somebody has looked for it."""
    wide: bool = False
    by: str = "mode"
    logs: str | None = None
    go_on: str | None = None

    def __post_init__(self) -> None:
        if self.by not in _GROUPS:
            raise UsageError(f"by = {self.by!r}. Accepted: {' or '.join(_GROUPS)}")

    @cached_property
    def labels(self) -> Naming:
        """How its trials are told apart."""
        return naming(self.run)

    @cached_property
    def lines(self) -> list[TrialLine]:
        """The numbers of every measured trial."""
        return trial_lines(self.run)

    @property
    def title(self) -> str:
        """The engine, or how many there are, on which data."""
        engines = self.labels.engines
        if len(engines) == 1:
            what = self.labels.engine(engines[0])
        else:
            what = f"{len(engines)} engines" if engines else "Nothing yet"
        return f"{what} on {self.run.dataset}, {self.run.metric}"

    @property
    def about(self) -> list[str]:
        """Engines with what is the same in all of their trials, and how far the run has come."""
        engines = self.labels.engines
        shared = [self.labels.engine(name) for name in engines] if len(engines) > 1 else []
        return [*shared, *_progress(self.run, self.go_on)]

    @cached_property
    def _inputs(self) -> tuple[Truth | None, Dataset | None, str]:
        if self.truth is not None or self.no_truth:
            return self.truth, self.dataset, self.no_truth
        from recallatk.bench.recorded_benchmark import RecordedBenchmark

        found = RecordedBenchmark(self.run)
        return found.truth, found.dataset, found.no_truth

    @cached_property
    def _every_setting(self) -> tuple[Curve, SpokenVerdict]:
        whole = curve_of(self.run)
        return whole, spoken_verdict(whole, *self._inputs[:2])

    @cached_property
    def _shown(self) -> tuple[Curve, SpokenVerdict]:
        """The settings that the page has room for, with the verdict's among them."""
        whole, verdict = self._every_setting
        curve, number = shortened(whole, verdict.number)
        return curve, replace(verdict, number=number)

    @property
    def curve(self) -> Curve:
        """The settings that the page shows, as points."""
        return self._shown[0]

    @property
    def verdict(self) -> SpokenVerdict:
        """The verdict in words, on a point of the curve."""
        return self._shown[1]

    @cached_property
    def facts(self) -> dict[int, Facts]:
        """Single queries by point; empty where they cannot be told."""
        # Analysis of single queries takes a while to import, for which a terminal should not wait.
        from recallatk.reporting.per_query import facts_of

        return facts_of(self.curve, *self._inputs[:2])

    @property
    def untold(self) -> str:
        """Why segments and the worst queries cannot be told; empty where they can."""
        truth, _, no_truth = self._inputs
        return "" if self.facts and truth is not None else no_truth or _NOT_TOLD

    @cached_property
    def parts(self) -> list[Part]:
        """What the page shows of each point, when a reader chooses it."""
        from recallatk.reporting.setting_detail import setting_details

        return setting_details(self.curve, self.facts, *self._inputs[:2])

    @cached_property
    def comparison(self) -> Comparison | None:
        """The other runs beside this one; None where there are none."""
        from recallatk.reporting.comparison import compared

        return compared(self._every_setting[0], self.others, self.names, self._inputs[0])

    @cached_property
    def page(self) -> Document:
        """The document that the HTML file shows."""
        with unchecked_charts():
            return self.document(Form.HTML)

    @property
    def charts(self) -> Mapping[str, Chart]:
        """Every chart of the page by name."""
        return self.page.charts

    def document(self, form: Form) -> Document:
        """What there is to say in a form."""
        sections = build_sections(SECTIONS, self, form)
        if form is not Form.HTML:
            return Document(self.title, sections, self.about)
        return Document(
            self.title,
            sections,
            self.about,
            window_title=run_page.window_title(self.run),
            files=run_page.files(self.run),
            parts=self.parts,
            chosen=self.verdict.number,
        )


def _tables(report: RunReport) -> list[Section]:
    made = tables(report.run, report.lines, report.labels, wide=report.wide, by=report.by)
    return [Section(each.title, [each]) for each in made]


def _plot(report: RunReport) -> Section:
    return Section("", [Drawing(plot(report.run))])


def _goals(report: RunReport) -> Section:
    """The verdict with the setting that it is on, then each goal with its outcome."""
    run = report.run
    verdict = run_verdict(run) if report.judged is None else report.judged
    numbers = {number: trial for trial, number in trial_numbers(run).items()}
    at = f" at {report.labels.label(numbers[verdict.trial])}" if verdict.trial in numbers else ""
    said = [f"verdict: {verdict.outcome}{at}", *(f"goal: {goal_said(each)}" for each in verdict.goals)]
    return _list("Goals", said if verdict.goals else [])


def _failures(report: RunReport) -> Section:
    said = failures(report.run, report.labels)
    logs = [f"What their processes said: {report.logs}"] if said and report.logs else []
    return _list("Failed", [*said, *logs], "failed")


def _cautions(report: RunReport) -> Section:
    return _list("Cautions", cautions(report.run), "caution")


def _notes(report: RunReport) -> Section:
    return _list("Notes", notes(report.run, report.lines, report.labels))


def _list(title: str, lines: list[str], label: str = "") -> Section:
    return Section(title, [Items(lines, label)], headed=Form.MARKDOWN)


def _progress(run: Run, go_on: str | None) -> list[str]:
    if run.complete or run.planned is None:
        return []
    failed = f", {len(run.failures):,} failed" if run.failures else ""
    how = go_on or "the same command again"
    return [f"{len(run.measurements):,} of {len(run.planned):,} trials measured{failed}; to go on: {how}"]


SECTIONS: Builders = (
    (Form.HTML, run_page.verdict),
    (Form.PROSE, _tables),
    (Form.TEXT, _plot),
    (Form.HTML, run_page.curves),
    (Form.HTML, run_page.settings),
    (Form.HTML, run_page.setting_choice),
    (Form.HTML, run_page.recall),
    (Form.HTML, run_page.queries),
    (Form.HTML, run_page.cost),
    (Form.HTML, run_page.loads),
    (Form.HTML, run_page.runs),
    (Form.PROSE, _goals),
    (Form.PROSE, _failures),
    (Form.PROSE, _cautions),
    (Form.PROSE, _notes),
    (Form.HTML, run_page.care),
    (Form.HTML, run_page.origin),
)


def to_text(
    run: Run,
    *,
    verdict: Verdict | None = None,
    wide: bool = False,
    by: str = "mode",
    logs: str | None = None,
    go_on: str | None = None,
) -> str:
    """The tables of a run, what failed, what to be careful about, and notes.

    Args:
        run: what was measured.
        verdict: on its goals; by default what the run tells without its truth and data.
        wide: with every interval and percentile, and whole parameters.
        by: one table per `mode`, or one per `load`.
        logs: where the logs of failed trials are.
        go_on: the command that measures what is missing.
    """
    report = RunReport(run, judged=verdict, wide=wide, by=by, logs=logs, go_on=go_on)
    return render_text(report.document(Form.TEXT))


def to_markdown(
    run: Run,
    *,
    verdict: Verdict | None = None,
    wide: bool = False,
    by: str = "mode",
    logs: str | None = None,
    go_on: str | None = None,
) -> str:
    """The same as Markdown under headings, with the arguments of `to_text`."""
    report = RunReport(run, judged=verdict, wide=wide, by=by, logs=logs, go_on=go_on)
    return render_markdown(report.document(Form.MARKDOWN))


def to_html(
    run: Run,
    *,
    truth: Truth | None = None,
    dataset: Dataset | None = None,
    findings: Iterable[Any] | None = None,
    others: Sequence[Run] = (),
    names: Sequence[str] = (),
) -> str:
    """The report as one HTML file: nothing is loaded from anywhere, and a policy in it says so.

    Args:
        run: what was measured.
        truth: what it was scored against; by default what the run names, if that is still the same.
        dataset: what it was measured on, likewise; it has the words of queries and rows.
        findings: what a linter found: objects with rule, severity, title, message, why and remedy; None:
            nobody looked.
        others: more runs, to compare with this one.
        names: what the runs are called, this one first.
    """
    from recallatk.reporting.html.page import render_html

    report = RunReport(run, truth, dataset, findings=findings, others=others, names=names)
    return render_html(report.page)
