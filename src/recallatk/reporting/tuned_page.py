"""The sections that only the page of a tuning has: tiles, chart, cost steps, attempts, caveats, files."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from recallatk.reporting.charts.theme import legend
from recallatk.reporting.charts.tuned_curve import limit_is_near, tuned_chart
from recallatk.reporting.document import Details, Figure, Heading, Items, Section, Sentences, Tiles, Widget
from recallatk.reporting.findings import linted
from recallatk.reporting.labels import number, with_margin
from recallatk.reporting.tuned_file import TUNED, price_of_tuning
from recallatk.reporting.tuned_words import (
    MOST_ATTEMPTS,
    about_front,
    about_noise,
    attempts_table,
    costs_in_words,
    mean_in_words,
    of_budget,
    page_name,
    price_table,
    setting,
    settings_table,
    short,
    tried_table,
)

if TYPE_CHECKING:
    from recallatk.core.tuned import Candidate, Tuned
    from recallatk.reporting.charts.tuned_curve import TunedCurve
    from recallatk.reporting.document import Block
    from recallatk.reporting.tuned import TunedReport

_PAGE_NOTES = (
    "The recall in the verdict is on held-out queries. All other numbers are on the tuning queries.",
    "The result holds for queries like these. Tune again for other queries, another corpus or a new build.",
    "Latency, throughput and memory hold for the machine that ran the tuning.",
)


def tiles(tuned: Tuned) -> list[Tiles]:
    """The numbers of the verdict as tiles."""
    subject = tuned.choice if tuned.met and tuned.choice is not None else tuned.nearest
    if subject is None:
        return []
    met = subject is tuned.choice
    means = tuned.validated if met else subject.measures
    where = "held-out" if met else "tuning"
    tiles = []
    for name, mean in means.items():
        tiles.append((name, with_margin(mean), f"95 % interval, {mean.n:,} {where} queries"))
    p50, build = subject.latency_ms.get("p50"), of_budget("build", subject)
    costs = {
        "p95 latency": (of_budget("p95", subject), "" if p50 is None else f"p50 {p50:.3f} ms"),
        "Throughput": (number(subject.qps, ",.0f"), "queries per second, one client"),
        **_cost_tile(tuned, subject),
        "Memory": (of_budget("memory", subject), "" if build == "-" else f"build {build}"),
    }
    for name, (value, beside) in costs.items():
        tiles.append((name, value, "not measured" if value == "-" else beside))
    return [Tiles(tiles)]


def _cost_tile(tuned: Tuned, subject: Candidate) -> dict[str, tuple[str, str]]:
    price = price_of_tuning(tuned)
    if price is None:
        return {}
    value = number(price.per_million(subject.qps), ".3g", price.currency or "")
    return {"Cost": (value, f"per million queries at {price.per_hour:g} per hour")}


def about_runner_up(tuned: Tuned) -> list[str]:
    """The runner-up with its costs compared with the choice."""
    other, choice = tuned.runner_up, tuned.choice
    if choice is None or other is None:
        return [tuned.no_runner_up] if choice is not None and tuned.no_runner_up else []
    measures = ", ".join(f"{name} {mean_in_words(mean)}" for name, mean in other.measures.items())
    known = ", ".join(part for part in (measures, costs_in_words(tuned, other)) if part)
    lines = [f"{setting(other)}. Tuning queries: {known or 'not measured'}."]
    traded = _traded(choice, other)
    if not traded:
        return lines
    return [*lines, f"Compared with the choice: {', '.join(traded)}.", *about_noise(tuned)]


def _traded(choice: Candidate, other: Candidate) -> list[str]:
    """Ratios of the runner-up's costs to the choice's, where both are measured and differ."""
    pairs = {
        "p95": (choice.latency_ms.get("p95"), other.latency_ms.get("p95")),
        "memory": (choice.memory_bytes, other.memory_bytes),
        "build time": (choice.build_seconds, other.build_seconds),
        "queries per second": (choice.qps, other.qps),
    }
    return [
        f"{its / ours:.2f}× {name}" for name, (ours, its) in pairs.items() if ours and its and ours != its
    ]


def curve(report: TunedReport) -> Section:
    """The chart of the page with a table of its points, and the runner-up."""
    curve, runner_up = report.curve, about_runner_up(report.tuned)
    blocks: list[Block] = []
    chart = tuned_chart(curve)
    if chart is None:
        blocks.append(Sentences(["No setting has both recall and this cost, so there is no chart."]))
    else:
        said = "Each point is a setting measured on the whole corpus. Hover over it to see its parameters."
        blocks += [
            Sentences([said]),
            Widget("legend", {"entries": legend(list(curve.engines.values()))}),
            Figure("recall-cost", _caption(curve), chart),
            Sentences(["The chart needs JavaScript; the table has the same numbers."], "noscript"),
        ]
    if curve.candidates:
        blocks += [
            Heading("Pareto front, choice and runner-up"),
            Sentences(about_front(report.tuned, curve.names, report.measure)),
            settings_table(curve),
        ]
    blocks += [Heading("Runner-up"), Sentences(runner_up)] if runner_up else []
    return Section("Recall and cost", blocks, "curve", "Curve")


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
    far = "" if near or curve.limit is None else f" {budgets[0]} is outside the chart."
    lines = f" Dashed: {' and '.join(dashed)}." if dashed else ""
    known = "Thin lines: 95 % intervals. Gray band: the Pareto front."
    return f"{better} {known}{ringed}{lines}{far} Measured on the tuning queries."


def price_steps(report: TunedReport) -> Section | None:
    """Cost of each step in recall."""
    if not report.tuned.prices:
        return None
    said = f"Cost of each step in {short(report.measure)}, as a ratio of {report.axis}."
    table = price_table(report.tuned)
    return Section("Cost of more recall", [Sentences([said]), table], "price", "Cost of recall")


def attempts(report: TunedReport) -> Section | None:
    """The same on the page, with every attempt behind it."""
    tuned = report.tuned
    if not tuned.attempts:
        return None
    table = tried_table(tuned)
    table = replace(table, header=[page_name(name) for name in table.header])
    more = len(tuned.attempts) - MOST_ATTEMPTS
    note = [Sentences([f"{TUNED} has {more:,} more."], "note")] if more > 0 else []
    every = Details("Every attempt", [*note, attempts_table(tuned)])
    return Section("Tried and skipped", [table, every], "tried", "Tried")


def care(report: TunedReport) -> Section:
    """Cautions, findings of the linter, and notes."""
    blocks: list[Block] = []
    if report.tuned.cautions:
        blocks += [Heading("Cautions"), Items([each.message for each in report.tuned.cautions])]
    blocks += [] if report.findings is None else [linted(report.findings)]
    blocks += [Heading("Notes"), Items(_PAGE_NOTES)]
    return Section("Caveats", blocks, "care", "Caveats")


def files(_: TunedReport) -> Section:
    """The files that the page can save."""
    saved = {TUNED: f"All results as JSON ({TUNED})"}
    return Section("Data", [Widget("downloads", {"files": saved})], "files", "Data")
