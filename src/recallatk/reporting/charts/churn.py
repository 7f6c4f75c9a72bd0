"""The curve of a replay: recall by step, one line per setting."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recallatk.reporting.charts.theme import HEIGHT, WIDTH, by_color, by_shape, finished, inline
from recallatk.reporting.labels import with_margin

if TYPE_CHECKING:
    from collections.abc import Sequence

    from recallatk.core.churned import Churned
    from recallatk.reporting.charts.theme import Chart, Row


def churn_chart(found: Churned, labels: Sequence[str]) -> Chart | None:
    """Recall by step with intervals; None without a search."""
    import altair as alt

    rows = _points(found, labels)
    if not rows:
        return None
    measure = found.curves[0].measure
    ends = [end for row in rows for end in (row["low"], row["high"])]
    room = max(0.01, 0.05 * (max(ends) - min(ends)))
    domain = [max(0.0, min(ends) - room), min(1.0, max(ends) + room)]
    scale = alt.Scale(domain=domain, nice=False, zero=False)
    x = alt.X("step:Q", title="step of the runbook", axis=alt.Axis(tickMinStep=1))
    y = alt.Y("value:Q", title=measure, scale=scale)
    color = by_color(labels, "setting", "Setting")
    said = [
        alt.Tooltip(f"{name}:N", title=title)
        for name, title in (
            *(("setting", "Setting"), ("step", "Step"), ("recall", measure), ("live", "Live rows")),
            *(("p95", "p95 ms"), ("stale", "Deleted rows returned")),
        )
    ]
    base = alt.Chart()
    layers = [
        base.mark_rule(strokeWidth=1, opacity=0.5).encode(
            x=x, y=alt.Y("low:Q", title=measure, scale=scale), y2="high:Q", color=color
        ),
        base.mark_line(strokeWidth=1.5, opacity=0.8)
        .transform_filter("!datum.recovered")
        .encode(x=x, y=y, color=color),
        base.mark_point(filled=True, size=45, opacity=1)
        .transform_filter("!datum.recovered")
        .encode(x=x, y=y, color=color, shape=by_shape(labels, "setting", "Setting"), tooltip=said),
        base.mark_point(filled=False, size=70, opacity=1)
        .transform_filter("datum.recovered")
        .encode(x=x, y=y, color=color, shape=by_shape(labels, "setting", "Setting"), tooltip=said),
    ]
    drawn = alt.layer(*layers, data=inline(rows)).properties(width=WIDTH, height=HEIGHT)
    return finished(drawn, f"{measure} by step of the runbook, one line per setting.")


def _points(found: Churned, labels: Sequence[str]) -> list[Row]:
    rows: list[Row] = []
    for label, curve in zip(labels, found.curves, strict=True):
        churned = {each.step for each in curve.churned}
        for each in curve.searches:
            mean = each.measures[curve.measure]
            if mean.value is None:
                continue
            rows.append(
                {
                    "setting": label,
                    "step": each.step,
                    "value": mean.value,
                    "low": mean.value if mean.low is None else mean.low,
                    "high": mean.value if mean.high is None else mean.high,
                    "recall": with_margin(mean),
                    "live": f"{each.live:,}",
                    "p95": "-" if each.p95_ms is None else f"{each.p95_ms:.3g}",
                    "stale": f"{each.stale:,}",
                    "recovered": each.step not in churned,
                }
            )
    return rows
