"""The report of a run: what its sections are built from, their order, and its three forms."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from recallatk.analysis.headline import headline_measure
from recallatk.analysis.weighting import weights_of_run
from recallatk.errors import RecallError, UsageError
from recallatk.goals.runs import goals_of
from recallatk.reporting import downstream, losses, path_stages, run_page, run_prose, run_screen
from recallatk.reporting.charts.points import curve_of, shortened
from recallatk.reporting.charts.theme import unchecked_charts
from recallatk.reporting.document import Document, Form, build_sections
from recallatk.reporting.labels import naming
from recallatk.reporting.markdown import render_markdown
from recallatk.reporting.run_notes import kept, progress, weighting
from recallatk.reporting.run_title import has_filters, run_title
from recallatk.reporting.text import for_console, render_text, terminal_width
from recallatk.reporting.trial_lines import trial_lines
from recallatk.reporting.verdict_words import spoken_verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from recallatk.analysis.downstream import Downstream
    from recallatk.core import Dataset, Run, Truth, Weights
    from recallatk.goals import Verdict
    from recallatk.reporting.charts.points import Curve
    from recallatk.reporting.charts.theme import Chart
    from recallatk.reporting.comparison import Comparison
    from recallatk.reporting.document import Builders
    from recallatk.reporting.engine_segments import EngineSegments
    from recallatk.reporting.filtered import GroupedRecall
    from recallatk.reporting.labels import Naming
    from recallatk.reporting.missed_neighbors import SettingMisses
    from recallatk.reporting.per_query import Facts
    from recallatk.reporting.row_segments import SettingRows
    from recallatk.reporting.setting_detail import Part
    from recallatk.reporting.trial_lines import TrialLine
    from recallatk.reporting.verdict_words import SpokenVerdict

_GROUPS = ("mode", "load")
_NO_DATA = "the data of the run were not found. Name them: --corpus CORPUS --queries QUERIES"
_NOT_TOLD = "no recall was measured, or the truth does not match the answers"


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
    width: int | None = None
    """Columns of the terminal; None: of the one that this process writes to."""
    files: Sequence[str] = ()
    """Sentences that say where the files are."""

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
        """The engine, or how many there are, on which data: queries, filters, metric and goals."""
        return run_title(self.run, self.labels, self.weights)

    @cached_property
    def weights(self) -> Weights | None:
        """The weights of the queries; None if all count the same."""
        return weights_of_run(self.run)

    @property
    def headline(self) -> str:
        """The name of the headline measure."""
        return headline_measure(self.run) or "recall"

    @cached_property
    def columns(self) -> int:
        """Columns of the terminal."""
        return terminal_width() if self.width is None else self.width

    @property
    def about(self) -> list[str]:
        """Engines with what is the same in all of their trials, and how far the run has come."""
        return [*self._engines, *self._state]

    @property
    def _engines(self) -> list[str]:
        engines = self.labels.engines
        return [self.labels.engine(name) for name in engines] if len(engines) > 1 else []

    @property
    def _state(self) -> list[str]:
        finished = [*progress(self.run, self.go_on), *kept(self.run, self.labels)]
        return [*weighting(self.weights), *finished]

    @cached_property
    def _inputs(self) -> tuple[Truth | None, Dataset | None, str]:
        if self.truth is not None or self.no_truth:
            return self.truth, self.dataset, self.no_truth
        from recallatk.bench.recorded_benchmark import RecordedBenchmark

        found = RecordedBenchmark(self.run)
        return found.truth, found.judged_dataset, found.no_truth

    @cached_property
    def _every_setting(self) -> tuple[Curve, SpokenVerdict]:
        whole = curve_of(self.run)
        if self.judged is not None or not goals_of(self.run):
            # Goals alone need the data, which may have to be opened.
            return whole, spoken_verdict(whole, judged=self.judged)
        return whole, spoken_verdict(whole, *self._inputs[:2])

    @property
    def whole_verdict(self) -> SpokenVerdict:
        """The verdict in words, on a point of all settings."""
        return self._every_setting[1]

    @cached_property
    def grouped_recall(self) -> dict[str, GroupedRecall]:
        """Recall by filter, selectivity and correlation; empty without filters."""
        if not has_filters(self.run):
            return {}
        from recallatk.reporting.filtered import grouped_recall

        curve, verdict = self._every_setting
        recorded = any(line.measurement.filters is not None for line in curve.lines)
        # Runs of format 4 tell without their truth, which may have to be opened.
        return grouped_recall(curve, None if recorded else self._inputs[0], verdict.number)

    @property
    def rows(self) -> list[SettingRows]:
        """True neighbors found by corpus column, and rows that are lost; `no_rows` says why it is empty."""
        return self._rows[0]

    @property
    def no_rows(self) -> str:
        """Why recall by corpus row cannot be told; empty where it can."""
        return self._rows[1]

    @cached_property
    def _rows(self) -> tuple[list[SettingRows], str]:
        if not self.run.by_row:
            return [], "no corpus column was named"
        from recallatk.reporting.row_segments import rows_by_engine

        truth, dataset, no_truth = self._inputs
        curve, verdict = self._every_setting
        try:
            found = rows_by_engine(curve, truth, dataset, verdict.number, self.run.by_row)
        except RecallError as problem:
            # The columns that a run names may be gone from its data, which costs only this section.
            return [], str(problem)
        why = _NOT_TOLD if truth is not None and dataset is not None else no_truth or _NO_DATA
        return found, "" if found else why

    @cached_property
    def missed(self) -> list[SettingMisses]:
        """Missed neighbors that mattered, of one setting per engine; empty without truth and data."""
        from recallatk.reporting.missed_neighbors import misses_by_engine

        return misses_by_engine(self._every_setting[0], *self._inputs[:2], self.whole_verdict.number)

    @cached_property
    def segments(self) -> tuple[list[EngineSegments], list[str]]:
        """Recall by the columns that the settings name, and why columns are missing."""
        if not self.run.by or not self.lines:
            return [], []
        from recallatk.reporting.engine_segments import segments_by_columns

        (curve, verdict), (truth, dataset, no_truth) = self._every_setting, self._inputs
        return segments_by_columns(curve, truth, dataset, verdict.number, no_truth or _NOT_TOLD)

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
    def downstream(self) -> list[Downstream]:
        """What lost neighbors cost downstream, by measure; empty where nothing judged the answers."""
        from recallatk.analysis.downstream import downstream_of

        return downstream_of(self.run)

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
        """The document in one form."""
        sections = build_sections(SECTIONS, self, form)
        if form & Form.TERMINAL:
            # In a terminal, the verdict comes before the title.
            return Document("", sections)
        if form is Form.MARKDOWN:
            return Document(self.title, sections, self.about)
        return Document(
            self.title,
            sections,
            self._state,
            engines=self._engines,
            window_title=run_page.window_title(self.run),
            files=run_page.files(self.run),
            parts=self.parts,
            chosen=self.verdict.number,
        )


SECTIONS: Builders = (
    (Form.HTML, run_page.verdict),
    (Form.TERMINAL, run_screen.verdict),
    (Form.MARKDOWN, run_prose.verdict),
    (Form.TERMINAL, run_screen.heading),
    (Form.SCREEN, run_screen.compact),
    (Form.PROSE, run_prose.tables),
    (Form.TERMINAL, run_screen.curve),
    (Form.SCREEN, run_screen.filtered),
    (Form.PROSE, run_prose.filtered),
    (Form.SCREEN, path_stages.stages_in_brief),
    (Form.PROSE, path_stages.stages),
    (Form.SCREEN, losses.losses_in_brief),
    (Form.PROSE, losses.losses),
    (Form.SCREEN, downstream.downstream_in_brief),
    (Form.PROSE, downstream.downstream),
    (Form.SCREEN, run_screen.segments),
    (Form.PROSE, run_prose.segments),
    (Form.TERMINAL | Form.MARKDOWN, run_prose.rows),
    (Form.HTML, run_page.curves),
    (Form.HTML, run_page.settings),
    (Form.HTML, run_page.filtered),
    (Form.HTML, run_page.setting_choice),
    (Form.HTML, run_page.recall),
    (Form.HTML, run_page.queries),
    (Form.HTML, run_page.effort),
    (Form.HTML, path_stages.stages_page),
    (Form.HTML, losses.losses),
    (Form.PROSE | Form.HTML, run_prose.missed),
    (Form.HTML, downstream.downstream_page),
    (Form.HTML, run_page.rows),
    (Form.HTML, run_page.cost),
    (Form.HTML, run_page.loads),
    (Form.HTML, run_page.runs),
    (Form.MARKDOWN, run_prose.builds),
    (Form.PROSE, run_prose.runs),
    (Form.SCREEN, run_screen.found),
    (Form.SCREEN, run_screen.failed),
    (Form.PROSE, run_prose.cautions),
    (Form.PROSE, run_prose.notes),
    (Form.TEXT, run_prose.linter),
    (Form.MARKDOWN, run_prose.linter_explained),
    (Form.PROSE, run_prose.failures),
    (Form.MARKDOWN, run_prose.provenance),
    (Form.HTML, run_page.care),
    (Form.HTML, run_page.origin),
    (Form.TERMINAL, run_screen.files),
)


def to_text(
    run: Run,
    *,
    verdict: Verdict | None = None,
    verbose: bool = False,
    wide: bool = False,
    by: str = "mode",
    logs: str | None = None,
    go_on: str | None = None,
    truth: Truth | None = None,
    dataset: Dataset | None = None,
    findings: Iterable[Any] | None = None,
    width: int | None = None,
    files: Sequence[str] = (),
    ascii_only: bool | None = None,
) -> str:
    """A run for the terminal: verdict, compact table, curve, findings, failures, files.

    Args:
        run: the run.
        verdict: the verdict on its goals; by default evaluated here.
        verbose: with all rows and columns, cautions, notes and every finding.
        wide: with the ends of every interval, more percentiles and whole parameters; implies verbose tables.
        by: one table per `mode`, or one per `load`.
        logs: folder with the logs of failed trials.
        go_on: the command that resumes the run.
        truth: the truth that it was scored against; by default the one that the run names.
        dataset: the data that it was measured on, likewise; verbose text needs it for missed neighbors.
        findings: findings of the linter; None if it did not run.
        width: columns of the terminal; by default those of the current one.
        files: sentences that say where the files are.
        ascii_only: draw with ASCII; by default if the encoding of standard output needs it.
    """
    report = RunReport(
        run,
        truth,
        dataset,
        judged=verdict,
        findings=None if findings is None else list(findings),
        wide=wide,
        by=by,
        logs=logs,
        go_on=go_on,
        width=width,
        files=[files] if isinstance(files, str) else files,
    )
    form = Form.TEXT if verbose or wide else Form.SCREEN
    text = render_text(report.document(form), report.columns if form is Form.SCREEN else None)
    return for_console(text, ascii_only=ascii_only)


def to_markdown(
    run: Run,
    *,
    verdict: Verdict | None = None,
    wide: bool = False,
    by: str = "mode",
    logs: str | None = None,
    go_on: str | None = None,
    truth: Truth | None = None,
    dataset: Dataset | None = None,
    others: Sequence[Run] = (),
    names: Sequence[str] = (),
) -> str:
    """A run as Markdown: the sections of the page that text can carry.

    Args:
        run: the run.
        verdict: the verdict on its goals; by default evaluated here.
        wide: with the ends of every interval, more percentiles and whole parameters.
        by: one table per `mode`, or one per `load`.
        logs: folder with the logs of failed trials.
        go_on: the command that resumes the run.
        truth: the truth that it was scored against; by default the one that the run names.
        dataset: the data that it was measured on, for recall by corpus row; likewise.
        others: runs to compare with this one.
        names: names of the runs, this one first.
    """
    report = RunReport(
        run,
        truth,
        dataset,
        judged=verdict,
        wide=wide,
        by=by,
        logs=logs,
        go_on=go_on,
        others=others,
        names=names,
    )
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
    """A run as one HTML file that loads nothing; its content security policy enforces that.

    Args:
        run: the run.
        truth: the truth that it was scored against; by default the one that the run names, if unchanged.
        dataset: the data that it was measured on, likewise; its texts are shown with the worst queries.
        findings: findings of the linter, with rule, severity, title, message, why and remedy; None if it did
            not run.
        others: runs to compare with this one.
        names: names of the runs, this one first.
    """
    from recallatk.reporting.html.page import render_html

    return render_html(RunReport(run, truth, dataset, findings=findings, others=others, names=names).page)
