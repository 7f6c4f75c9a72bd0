"""Recall at every k of one setting, with the front behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from recallatk.report.charts.theme import COLOURS, QUIET, WIDTH, finished, inline

if TYPE_CHECKING:
    from recallatk.core import Measurement
    from recallatk.report.charts.kinds import Chart, Row
    from recallatk.report.charts.points import Curve


def chart(curve: Curve, chosen: int | None = None) -> Chart | None:
    """A line over k for the chosen setting; None where there is one k only."""
    import altair as alt

    rows = [row for point in curve.points for row in recalls(curve.lines[point["n"]].measurement, point)]
    cutoffs = sorted({row["k"] for row in rows})
    if len(cutoffs) < 2:
        return None
    span = alt.Scale(type="log", domain=[cutoffs[0], cutoffs[-1]], nice=False, padding=12)
    ticks = alt.Axis(values=cutoffs, format="d")
    x = alt.X("k:Q", title="k (neighbours asked for)", scale=span, axis=ticks)
    y = alt.Y("recall:Q", title="recall@k (share)", scale=alt.Scale(domain=[0, 1]))
    behind = alt.Chart().transform_filter("datum.front && datum.load === 0 && datum.n !== chosen")
    mine = alt.Chart().transform_filter("datum.n === chosen")
    said = [alt.Tooltip("label:N", title="Setting"), alt.Tooltip("text:N", title="Recall")]
    strong: dict[str, Any] = {"color": COLOURS[0]}
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
    from recallatk.report.tables import interval

    found = []
    for name, mean in measurement.score.measures.items():
        cutoff = name.removeprefix("recall@")
        if cutoff == name or not cutoff.isdecimal() or mean.value is None:
            continue
        found.append(
            {
                "n": point["n"],
                "load": point["load"],
                "front": point["latencyFront"],
                "label": point["label"],
                "k": int(cutoff),
                "recall": mean.value,
                "low": mean.value if mean.low is None else mean.low,
                "high": mean.value if mean.high is None else mean.high,
                "text": f"{name} {mean.value:.4f} ({interval(mean, '.4f')})",
            }
        )
    return sorted(found, key=lambda row: row["k"])
