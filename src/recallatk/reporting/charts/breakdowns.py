"""Charts that break recall and cost down: by k, query, build and run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from recallatk.analysis.headline import recall_cutoffs
from recallatk.reporting.charts.curve import cost_scale, recall_scale
from recallatk.reporting.charts.theme import (
    COLORS,
    HEIGHT,
    QUIET,
    WIDTH,
    by_color,
    by_shape,
    finished,
    inline,
)
from recallatk.reporting.labels import cut, fitted, with_margin
from recallatk.reporting.text import printable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from recallatk.analysis.distribution import Distribution
    from recallatk.core import Measurement
    from recallatk.reporting.charts.points import Curve
    from recallatk.reporting.charts.theme import Chart, Row

BINS = (*(f"{low / 10:.1f} to {low / 10 + 0.1:.1f}" for low in range(9)), "0.9 to below 1", "1")
# More builds than this are a table and no chart.
_MOST_BARS = 30
_LONGEST = 44


def recall_across_k(curve: Curve, chosen: int | None = None) -> Chart | None:
    """A line over k for the chosen setting; None where there is one k only."""
    import altair as alt

    rows = [row for point in curve.points for row in recalls(curve.lines[point["n"]].measurement, point)]
    cutoffs = sorted({row["k"] for row in rows})
    if len(cutoffs) < 2:
        return None
    span = alt.Scale(type="log", domain=[cutoffs[0], cutoffs[-1]], nice=False, padding=12)
    ticks = alt.Axis(values=cutoffs, format="d")
    x = alt.X("k:Q", title="k (neighbors requested)", scale=span, axis=ticks)
    y = alt.Y("recall:Q", title="recall@k (share)", scale=alt.Scale(domain=[0, 1]))
    behind = alt.Chart().transform_filter("datum.front && datum.load === 0 && datum.n !== chosen")
    mine = alt.Chart().transform_filter("datum.n === chosen")
    said = [alt.Tooltip("label:N", title="Setting"), alt.Tooltip("text:N", title="Recall")]
    strong: dict[str, Any] = {"color": COLORS[0]}
    layers = [
        behind.mark_line(color=QUIET, opacity=0.55, strokeWidth=1).encode(x=x, y=y, detail="n:N"),
        mine.mark_rule(strokeWidth=2, **strong).encode(
            x=x, y=alt.Y("low:Q", title="recall@k (share)"), y2="high:Q"
        ),
        mine.mark_line(strokeWidth=2.5, **strong).encode(x=x, y=y),
        mine.mark_point(filled=True, size=80, **strong).encode(x=x, y=y, tooltip=said),
    ]
    shown = alt.param(name="chosen", value=rows[0]["n"] if chosen is None else chosen)
    drawn = alt.layer(*layers, data=inline(rows)).add_params(shown).properties(width=WIDTH, height=260)
    return finished(
        drawn, "Recall at every k of the chosen setting with 95 % intervals; thin lines: the front."
    )


def recalls(measurement: Measurement, point: Row) -> list[Row]:
    """The recall of a measurement at each k."""
    found = []
    for name, mean in measurement.score.measures.items():
        cutoffs = recall_cutoffs([name])
        if not cutoffs or mean.value is None:
            continue
        found.append(
            {
                "n": point["n"],
                "load": point["load"],
                "front": point["latencyFront"],
                "label": point["label"],
                "k": cutoffs[0],
                "recall": mean.value,
                "low": mean.value if mean.low is None else mean.low,
                "high": mean.value if mean.high is None else mean.high,
                "text": f"{name} {with_margin(mean)}",
            }
        )
    return sorted(found, key=lambda row: row["k"])


def recall_distribution(found: Mapping[int, Distribution], measure: str, chosen: int) -> Chart | None:
    """Bars from zero, of the chosen setting."""
    import altair as alt

    rows = [row for number, each in found.items() for row in bins(each, number)]
    if not rows:
        return None
    said = [
        alt.Tooltip("bin:N", title=measure),
        alt.Tooltip("queries:Q", title="Queries", format=","),
        alt.Tooltip("share:Q", title="Share", format=".2%"),
    ]
    drawn = (
        alt.Chart(inline(rows))
        .transform_filter("datum.n === chosen")
        .mark_bar(color=COLORS[0])
        .encode(
            x=alt.X(
                "bin:N", sort=list(BINS), title=f"{measure} of a single query", axis=alt.Axis(labelAngle=-40)
            ),
            y=alt.Y(
                "share:Q", title="Share of the queries", axis=alt.Axis(format="%"), scale=alt.Scale(zero=True)
            ),
            tooltip=said,
        )
        .add_params(alt.param(name="chosen", value=chosen))
        .properties(width=WIDTH, height=240)
    )
    return finished(drawn, f"The share of queries by their own {measure}, of the chosen setting.")


def bins(found: Distribution, number: int) -> list[Row]:
    """Eleven bins: ten equal ones, with recall of exactly 1 counted apart."""
    ones = round(found.ones.value * found.n)
    counts = [*found.histogram[:-1], found.histogram[-1] - ones, ones]
    return [
        {"n": number, "bin": name, "queries": count, "share": count / found.n}
        for name, count in zip(BINS, counts, strict=True)
    ]


def build_costs(curve: Curve) -> Chart | None:
    """Three bars per build, each from zero; None where nothing was measured."""
    import altair as alt

    rows = builds(curve)[:_MOST_BARS]
    panels: list[Any] = []
    for field, title in (
        ("seconds", "Build time (s)"),
        ("memory", "Memory (MB)"),
        ("size", "Stored size (MB)"),
    ):
        if any(row[field] is not None for row in rows):
            panels.append(_panel(curve, rows, field, title, first=not panels))
    if not panels:
        return None
    said = "Build time in seconds, memory and stored size in megabytes of every index that was built."
    return finished(alt.hconcat(*panels, spacing=24), said, own_legend=True)


def _panel(curve: Curve, rows: list[Row], field: str, title: str, *, first: bool) -> Any:
    import altair as alt

    y = alt.Y("label:N", sort=None, title=None, axis=alt.Axis() if first else None)
    x = alt.X(f"{field}:Q", title=title, scale=alt.Scale(zero=True), axis=alt.Axis(tickCount=4))
    said = [alt.Tooltip("whole:N", title="Index"), alt.Tooltip(f"{field}:Q", title=title, format=",.4~g")]
    bars = alt.Chart(inline(rows)).mark_bar(height={"band": 0.7})
    encoded = bars.encode(x=x, y=y, color=by_color(list(curve.engines.values())), tooltip=said)
    return encoded.properties(width=170, height={"step": 24})


def builds(curve: Curve) -> list[Row]:
    """Every index once, in the order in which they come up."""
    found: dict[tuple[str, Any, int], Row] = {}
    for line in curve.lines:
        built, trial = line.measurement.build, line.trial
        parts = [trial.engine, curve.names.build(trial)]
        parts += [f"build {trial.repeat + 1}"] if curve.names.repeats else []
        whole = printable(" ".join(part for part in parts if part))
        row: Row = {
            "whole": cut(whole, 300),
            "engine": curve.engines[trial.engine],
            "seconds": built.seconds,
            "memory": None if built.memory_bytes is None else built.memory_bytes / 1e6,
            "peak": None if built.peak_bytes is None else built.peak_bytes / 1e6,
            "size": None if built.size_bytes is None else built.size_bytes / 1e6,
            "threads": built.threads,
            "version": built.version,
        }
        found.setdefault((trial.engine, trial.build, trial.repeat), row)
    rows = list(found.values())
    for row, label in zip(rows, fitted([row["whole"] for row in rows], _LONGEST), strict=True):
        row["label"] = label
    return rows


def run_comparison(curves: Mapping[str, Curve]) -> Chart | None:
    """The fronts of all runs by recall and latency under their first loads."""
    import altair as alt

    names = list(curves)
    rows: list[Row] = [
        {"run": name, **point}
        for name, curve in curves.items()
        for point in curve.main
        if point["recall"] is not None and point["latency"]
    ]
    if not rows:
        return None
    first = next(iter(curves.values()))
    x = alt.X("recall:Q", title=f"{first.measure} (share of the true neighbors)", scale=recall_scale(rows))
    y = alt.Y("latency:Q", title=f"{first.tail} latency (ms)", scale=cost_scale(rows, "latency"))
    color, shape = by_color(names, "run", "Run"), by_shape(names, "run", "Run")
    said = [alt.Tooltip("run:N", title="Run"), alt.Tooltip("label:N", title="Setting")]
    said += [
        alt.Tooltip("recallText:N", title="Recall"),
        alt.Tooltip(f"{first.tail}Text:N", title=first.tail),
    ]
    base = alt.Chart()
    lines = base.transform_filter("datum.latencyFront").mark_line(strokeWidth=1.5)
    drawn = alt.layer(
        lines.encode(x=x, y=y, color=color, order=alt.Order("recall:Q")),
        base.mark_point(filled=True, size=80).encode(x=x, y=y, color=color, shape=shape, tooltip=said),
        data=inline(rows),
    ).properties(width=WIDTH, height=HEIGHT)
    return finished(drawn, "Recall against latency of all runs, each with the line of its Pareto front.")
