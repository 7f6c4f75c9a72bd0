"""Several runs on one plane: recall against latency, a colour for each run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recallatk.report.charts.curve import cost_scale, recall_scale
from recallatk.report.charts.theme import HEIGHT, WIDTH, by_colour, by_shape, finished, inline

if TYPE_CHECKING:
    from collections.abc import Mapping

    from recallatk.report.charts.kinds import Chart, Row
    from recallatk.report.charts.points import Curve


def chart(curves: Mapping[str, Curve]) -> Chart | None:
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
    x = alt.X("recall:Q", title=f"{first.measure} (share of the true neighbours)", scale=recall_scale(rows))
    y = alt.Y("latency:Q", title=f"{first.tail} latency (ms)", scale=cost_scale(rows, "latency"))
    colour, shape = by_colour(names, "run", "Run"), by_shape(names, "run", "Run")
    said = [alt.Tooltip("run:N", title="Run"), alt.Tooltip("label:N", title="Setting")]
    said += [
        alt.Tooltip("recallText:N", title="Recall"),
        alt.Tooltip(f"{first.tail}Text:N", title=first.tail),
    ]
    base = alt.Chart()
    lines = base.transform_filter("datum.latencyFront").mark_line(strokeWidth=1.5)
    drawn = alt.layer(
        lines.encode(x=x, y=y, color=colour, order=alt.Order("recall:Q")),
        base.mark_point(filled=True, size=80).encode(x=x, y=y, color=colour, shape=shape, tooltip=said),
        data=inline(rows),
    ).properties(width=WIDTH, height=HEIGHT)
    return finished(drawn, "Recall against latency of all runs, each with the line of its Pareto front.")
