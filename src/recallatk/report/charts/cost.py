"""What each index costs before it answers anything: build time, memory, size."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from recallatk.report.charts.theme import by_colour, finished, inline
from recallatk.report.naming import cut, fitted
from recallatk.report.text import printable

if TYPE_CHECKING:
    from recallatk.report.charts.kinds import Chart, Row
    from recallatk.report.charts.points import Curve

# More builds than this are a table and no chart.
_MOST_BARS = 30
_LONGEST = 44


def chart(curve: Curve) -> Chart | None:
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
    encoded = bars.encode(x=x, y=y, color=by_colour(list(curve.engines.values())), tooltip=said)
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
