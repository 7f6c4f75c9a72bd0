"""The report of a tuning: its sections in their order, and its three forms."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from recallatk.reporting.charts.theme import legend, unchecked_charts
from recallatk.reporting.charts.tuned_curve import AXES, limit_is_near, tuned_chart, tuned_curve
from recallatk.reporting.document import (
    Code,
    Details,
    Document,
    Figure,
    Form,
    Heading,
    Items,
    Lead,
    Section,
    Sentences,
    Tiles,
    Widget,
    build_sections,
)
from recallatk.reporting.findings import linted
from recallatk.reporting.labels import Naming, interval, number
from recallatk.reporting.markdown import render_markdown
from recallatk.reporting.text import render_text
from recallatk.reporting.tuned_file import TUNED, tuned_text
from recallatk.reporting.tuned_words import (
    MOST_ATTEMPTS,
    about_front,
    about_noise,
    about_prices,
    attempts_table,
    costs_in_words,
    front_table,
    mean_in_words,
    measure_of,
    of_budget,
    page_name,
    price_table,
    setting,
    settings_table,
    short,
    trial_of,
    tried_table,
    verdict,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from recallatk.core.judgments import Finding
    from recallatk.core.tuned import Candidate, Tuned
    from recallatk.reporting.charts.theme import Chart
    from recallatk.reporting.charts.tuned_curve import TunedCurve
    from recallatk.reporting.document import Block, Builders

# Fewer queries are too few for a bootstrap interval.
_FEW_QUERIES = 30
_PAGE_NOTES = (
    "The number beside the choice is of queries that it was not chosen by. Everything else is of the queries "
    "to choose by.",
    "It holds for queries like these. Other queries, another corpus or a new build are new questions.",
    "Latency, throughput and memory are those of the machine that it was tuned on.",
)


@dataclass(frozen=True, eq=False)
class TunedReport:
    """A tuning with what its sections are built from."""

    tuned: Tuned
    findings: Sequence[Finding] | None = None
    """Findings of the linter; None if it did not run."""

    @cached_property
    def curve(self) -> TunedCurve:
        """Its settings as points."""
        return tuned_curve(self.tuned)

    @property
    def measure(self) -> str:
        """The measure of the first target."""
        return measure_of(self.tuned) or "recall"

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
            [f"{within}what is to be cheap: {tuned.prefer}."],
            window_title=f"Tuning for {short(' and '.join([*tuned.targets, *tuned.budgets]))}",
            files={TUNED: tuned_text(tuned, self.findings)},
        )


def tuned_to_text(tuned: Tuned) -> str:
    """The verdict, the code to paste, and everything that explains them."""
    return render_text(TunedReport(tuned).document(Form.TEXT))


def tuned_to_markdown(tuned: Tuned) -> str:
    """The same under headings."""
    return render_markdown(TunedReport(tuned).document(Form.MARKDOWN))


def tuned_to_html(tuned: Tuned, *, findings: Iterable[Finding] | None = None) -> str:
    """What a tuning found as one HTML file: nothing is loaded from anywhere, and a policy in it says so.

    Args:
        tuned: the outcome.
        findings: what the linter found; None: nobody looked.
    """
    from recallatk.reporting.html.page import render_html

    report = TunedReport(tuned, None if findings is None else list(findings))
    with unchecked_charts():
        return render_html(report.document(Form.HTML))


def tuned_charts(tuned: Tuned) -> dict[str, Chart]:
    """Every chart of a tuning by name."""
    return TunedReport(tuned).document(Form.HTML).charts


def _verdict(report: TunedReport) -> Section:
    tuned = report.tuned
    first, *others = verdict(tuned)
    lead = Lead(first, "Met" if tuned.met else "Not met", tuned.met)
    blocks = [lead, Sentences(others), *_tiles(tuned)]
    return Section("Verdict", blocks, "verdict", headed=Form.HTML)


def _tiles(tuned: Tuned) -> list[Tiles]:
    """The numbers of the verdict as tiles."""
    subject = tuned.choice if tuned.met and tuned.choice is not None else tuned.nearest
    if subject is None:
        return []
    met = subject is tuned.choice
    means = tuned.validated if met else subject.measures
    where = "held-out" if met else "while choosing"
    tiles = []
    for name, mean in means.items():
        ends = interval(mean, ".4f")
        beside = f"{'no interval' if ends == '-' else f'95 %: {ends}'}, {mean.n:,} queries, {where}"
        tiles.append((name, number(mean.value, ".4f"), beside))
    p50, build = subject.latency_ms.get("p50"), of_budget("build", subject)
    costs = {
        "p95 latency": (of_budget("p95", subject), "" if p50 is None else f"p50 {p50:.3f} ms"),
        "Throughput": (number(subject.qps, ",.0f"), "queries a second, one client"),
        "Memory": (of_budget("memory", subject), "" if build == "-" else f"built in {build}"),
    }
    for name, (value, beside) in costs.items():
        tiles.append((name, value, "not measured" if value == "-" else beside))
    return [Tiles(tiles)]


def _paste(report: TunedReport) -> Section:
    return Section("To paste", [Code(report.tuned.snippet or "", "The setting as code")], "paste", "To paste")


def _runner_up(report: TunedReport) -> Section:
    return Section("Runner-up", [Sentences(_about_runner_up(report.tuned))])


def _about_runner_up(tuned: Tuned) -> list[str]:
    other, choice = tuned.runner_up, tuned.choice
    if choice is None or other is None:
        return [tuned.no_runner_up] if choice is not None and tuned.no_runner_up else []
    measures = ", ".join(f"{name} {mean_in_words(mean)}" for name, mean in other.measures.items())
    known = ", ".join(part for part in (measures, costs_in_words(other)) if part)
    lines = [f"{setting(other)}: while choosing {known or 'nothing was measured'}."]
    traded = _traded(choice, other)
    if not traded:
        return lines
    return [*lines, f"Instead of the choice it would take {', '.join(traded)}.", *about_noise(tuned)]


def _traded(choice: Candidate, other: Candidate) -> list[str]:
    """Ratios of the runner-up's costs to the choice's, where both are measured and differ."""
    pairs = {
        "p95": (choice.latency_ms.get("p95"), other.latency_ms.get("p95")),
        "memory": (choice.memory_bytes, other.memory_bytes),
        "build time": (choice.build_seconds, other.build_seconds),
        "queries a second": (choice.qps, other.qps),
    }
    return [
        f"{its / ours:.2f} times the {name}"
        for name, (ours, its) in pairs.items()
        if ours and its and ours != its
    ]


def _front(report: TunedReport) -> Section:
    tuned = report.tuned
    names = Naming(trial_of(each) for each in tuned.front)
    about = about_front(tuned, names, report.measure)
    return Section("Front", [Sentences(about), front_table(tuned, names, report.measure)])


def _curve(report: TunedReport) -> Section:
    """The chart of the page with a table of its points, and the runner-up."""
    curve, runner_up = report.curve, _about_runner_up(report.tuned)
    blocks: list[Block] = []
    chart = tuned_chart(curve)
    if chart is None:
        blocks.append(Sentences(["Nothing was measured that could be drawn."]))
    else:
        said = (
            "Each point is a setting that was measured on the whole corpus. Point at it to see all of its "
            "parameters."
        )
        blocks += [
            Sentences([said]),
            Widget("legend", {"entries": legend(list(curve.engines.values()))}),
            Figure("recall-cost", _caption(curve), chart),
            Sentences(["The chart needs JavaScript; the table has the same numbers."], "noscript"),
        ]
    if curve.candidates:
        blocks += [
            Heading("The front, and what else has a name"),
            Sentences(about_front(report.tuned, curve.names, report.measure)),
            settings_table(curve),
        ]
    blocks += [Heading("Runner-up"), Sentences(runner_up)] if runner_up else []
    return Section("What recall costs", blocks, "curve", "Curve")


def _caption(curve: TunedCurve) -> str:
    tuned = curve.tuned
    lower = any("<=" in each for each in tuned.targets[:1])
    better = (
        f"{'Up' if tuned.prefer == 'qps' else 'Down'} and to the {'left' if lower else 'right'} is better."
    )
    ringed = "" if curve.ringed is None else f" Ring: the {'choice' if tuned.choice else 'nearest miss'}."
    dashed = [*tuned.targets[:1]] if curve.wanted else []
    budgets = [text for text in tuned.budgets if text.split()[:1] == [tuned.prefer]]
    near = limit_is_near(curve)
    dashed += budgets if near else []
    far = "" if near or curve.limit is None else f" {budgets[0]} lies outside of the chart."
    lines = f" Dashed: {' and '.join(dashed)}." if dashed else ""
    known = "Thin lines: 95 % intervals where they are known. Grey band: the Pareto front."
    return f"{better} {known}{ringed}{lines}{far} All on the queries to choose by."


def _prices(report: TunedReport) -> Section:
    return Section("Price of recall", [Sentences(about_prices(report.tuned, report.measure))])


def _price_steps(report: TunedReport) -> Section | None:
    if not report.tuned.prices:
        return None
    said = f"What more {short(report.measure)} in {report.axis} costs, from one round number to the next."
    table = price_table(report.tuned)
    return Section("The price of recall", [Sentences([said]), table], "price", "Price")


def _worst(report: TunedReport) -> Section | None:
    if report.tuned.worst_segment is None:
        return None
    name, mean = report.tuned.worst_segment
    few = " So few queries say little." if mean.n < _FEW_QUERIES else ""
    said = f"{name}: {mean_in_words(mean)} on held-out queries.{few}"
    return Section("Worst segment", [Sentences([said])], "worst", "Worst segment")


def _tried(report: TunedReport) -> Section:
    return Section("Tried and skipped", [tried_table(report.tuned)])


def _attempts(report: TunedReport) -> Section | None:
    """The same on the page, with every attempt behind it."""
    tuned = report.tuned
    if not tuned.attempts:
        return None
    table = tried_table(tuned)
    table = replace(table, header=[page_name(name) for name in table.header])
    more = len(tuned.attempts) - MOST_ATTEMPTS
    note = [Sentences([f"The first of them; {more:,} more are in {TUNED}."], "note")] if more > 0 else []
    every = Details("Every attempt", [*note, attempts_table(tuned)])
    return Section("Tried and skipped", [table, every], "tried", "Tried")


def _took(report: TunedReport) -> Section:
    tuned = report.tuned
    said = f"{tuned.seconds:,.1f} s for {tuned.builds:,} builds and {tuned.trials:,} settings"
    grid = tuned.grid_seconds_estimate
    if grid is not None and tuned.seconds:
        times = grid / tuned.seconds
        said += f"; the full grid would take about {grid:,.0f} s, {times:,.1f} times as long"
    return Section("What it took", [Sentences([f"{said}."])], "took")


def _cautions(report: TunedReport) -> Section:
    return Section("Cautions", [Sentences([each.message for each in report.tuned.cautions])])


def _care(report: TunedReport) -> Section:
    blocks: list[Block] = []
    if report.tuned.cautions:
        blocks += [Heading("Cautions"), Items([each.message for each in report.tuned.cautions])]
    blocks += [] if report.findings is None else [linted(report.findings)]
    blocks += [Heading("Notes"), Items(_PAGE_NOTES)]
    return Section("Before you believe it", blocks, "care", "Care")


def _files(_: TunedReport) -> Section:
    saved = {TUNED: f"Everything as JSON ({TUNED})"}
    return Section("Data", [Widget("downloads", {"files": saved})], "files", "Data")


SECTIONS: Builders = (
    (Form.ALL, _verdict),
    (Form.ALL, _paste),
    (Form.PROSE, _runner_up),
    (Form.PROSE, _front),
    (Form.HTML, _curve),
    (Form.PROSE, _prices),
    (Form.HTML, _price_steps),
    (Form.ALL, _worst),
    (Form.PROSE, _tried),
    (Form.HTML, _attempts),
    (Form.ALL, _took),
    (Form.PROSE, _cautions),
    (Form.HTML, _care),
    (Form.HTML, _files),
)
