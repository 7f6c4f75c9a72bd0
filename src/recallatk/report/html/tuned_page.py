"""The page of a tuning: every part in the order in which a reader asks for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from recallatk.report.charts import tuned_curve as drawing
from recallatk.report.charts.rendering import specification
from recallatk.report.charts.tuned_points import AXES, tuned_curve
from recallatk.report.html.page import said_findings
from recallatk.report.html.sheet import HEADING, legend, packed, sheet, shown
from recallatk.report.html.tuned_tables import (
    MOST_ATTEMPTS,
    attempts_table,
    price_table,
    printed,
    settings_table,
)
from recallatk.report.naming import cut
from recallatk.report.summary import number
from recallatk.report.tables import interval
from recallatk.report.text import printable
from recallatk.report.tuned_contents import sections
from recallatk.report.tuned_file import TUNED, tuned_text
from recallatk.report.tuned_settings import about_front
from recallatk.report.tuned_verdict import of_budget

if TYPE_CHECKING:
    from collections.abc import Iterable

    from recallatk.core.judgments import Finding
    from recallatk.core.tuned import Tuned
    from recallatk.report.charts.kinds import Chart
    from recallatk.report.charts.tuned_points import TunedCurve

_LONGEST_CODE_LINE = 400


def tuned_to_html(tuned: Tuned, *, findings: Iterable[Finding] | None = None) -> str:
    """What a tuning found as one HTML file: nothing is loaded from anywhere, and a policy in it says so.

    Args:
        tuned: the outcome.
        findings: what the linter found; None: nobody looked.
    """
    known = None if findings is None else list(findings)
    curve = tuned_curve(tuned)
    charts = tuned_charts(tuned)
    data: dict[str, Any] = {
        "chosen": None,
        "charts": {name: specification(chart) for name, chart in charts.items()},
        "parts": [],
        "texts": [],
        "files": {TUNED: packed(tuned_text(tuned, known))},
    }
    return sheet("tuned.html.jinja", _said(tuned, curve, charts, known), data)


def tuned_charts(tuned: Tuned) -> dict[str, Chart]:
    """Every chart that can be drawn, by name."""
    made = {"recall-cost": drawing.chart(tuned_curve(tuned))}
    return {name: chart for name, chart in made.items() if chart is not None}


def _said(
    tuned: Tuned, curve: TunedCurve, charts: dict[str, Chart], findings: list[Finding] | None
) -> dict[str, Any]:
    parts = {each.title: each for each in sections(tuned)}
    said = {title: [shown(each) for each in part.said] for title, part in parts.items()}
    tried = parts.get("Tried and skipped")
    goals = " and ".join([*tuned.targets, *tuned.budgets])
    return {
        "title": f"Tuning for {shown(goals, 120)}",
        "heading": f"Tuning for {shown(' and '.join(tuned.targets), HEADING)}",
        "charts": charts,
        "legend": legend(list(curve.engines.values())),
        "tuned": tuned,
        "verdict": said["Verdict"],
        "tiles": _tiles(tuned),
        "code": _code(tuned.snippet),
        "caption": _caption(curve),
        "settings": settings_table(curve) if curve.candidates else None,
        "front": [shown(each) for each in about_front(tuned, curve.names, curve.measure or "recall")],
        "prices": price_table(tuned) if tuned.prices else None,
        "price_said": f"{shown(curve.measure or 'recall', 120)} in {_axis(tuned)}",
        "runner_up": said.get("Runner-up", []),
        "worst": said.get("Worst segment", []),
        "tried": None if tried is None else printed(tried.table),
        "attempts": attempts_table(tuned) if tuned.attempts else None,
        "left_out": max(0, len(tuned.attempts) - MOST_ATTEMPTS),
        "took": said.get("What it took", []),
        "cautions": said.get("Cautions", []),
        "findings": None if findings is None else said_findings(findings),
        "file": TUNED,
    }


def _axis(tuned: Tuned) -> str:
    return AXES.get(tuned.prefer, f"{tuned.prefer} latency (ms)")


def _tiles(tuned: Tuned) -> list[tuple[str, str, str]]:
    """The numbers of the verdict, each with what it is of and with what stands beside it."""
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
        tiles.append((shown(name, 80), number(mean.value, ".4f"), beside))
    p50, build = subject.latency_ms.get("p50"), of_budget("build", subject)
    costs = {
        "p95 latency": (of_budget("p95", subject), "" if p50 is None else f"p50 {p50:.3f} ms"),
        "Throughput": (number(subject.qps, ",.0f"), "queries a second, one client"),
        "Memory": (of_budget("memory", subject), "" if build == "-" else f"built in {build}"),
    }
    for name, (value, beside) in costs.items():
        tiles.append((name, value, "not measured" if value == "-" else beside))
    return tiles


def _code(snippet: str | None) -> str:
    """The code with nothing in it that is obeyed; its lines stay lines."""
    lines = [] if snippet is None else snippet.split("\n")
    return "\n".join(cut(printable(line), _LONGEST_CODE_LINE) for line in lines)


def _caption(curve: TunedCurve) -> str:
    tuned = curve.tuned
    lower = any("<=" in each for each in tuned.targets[:1])
    better = (
        f"{'Up' if tuned.prefer == 'qps' else 'Down'} and to the {'left' if lower else 'right'} is better."
    )
    ringed = "" if curve.ringed is None else f" Ring: the {'choice' if tuned.choice else 'nearest miss'}."
    dashed = [*tuned.targets[:1]] if curve.wanted else []
    budgets = [text for text in tuned.budgets if text.split()[:1] == [tuned.prefer]]
    near = drawing.limit_is_near(curve)
    dashed += budgets if near else []
    far = "" if near or curve.limit is None else f" {budgets[0]} lies outside of the chart."
    lines = f" Dashed: {' and '.join(dashed)}." if dashed else ""
    known = "Thin lines: 95 % intervals where they are known. Grey band: the Pareto front."
    return shown(f"{better} {known}{ringed}{lines}{far} All on the queries to choose by.")
