"""Segments of queries against settings: where recall is lost, and whether effort helps there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recallatk.report.charts.theme import WIDTH, finished, inline

if TYPE_CHECKING:
    from recallatk.report.charts.kinds import Chart, Row


def chart(rows: list[Row], measure: str, columns: list[str], lines: list[str]) -> Chart | None:
    """A heat map; None without segments.

    Args:
        rows: one for each segment and setting: `segment`, `setting`, `recall`, `queries`, `text`.
        measure: what the colour is.
        columns: the settings, by rising recall.
        lines: the segments, grouping by grouping.
    """
    import altair as alt

    if not rows:
        return None
    said = [
        alt.Tooltip("segment:N", title="Segment"),
        alt.Tooltip("setting:N", title="Setting"),
        alt.Tooltip("text:N", title=measure),
        alt.Tooltip("queries:Q", title="Queries", format=","),
    ]
    least = min(row["recall"] for row in rows)
    # Several channels change along it, so that it is read without colour too.
    scale = alt.Scale(scheme="viridis", domain=[max(0.0, least), 1.0], clamp=True)
    drawn = (
        alt.Chart(inline(rows))
        .mark_rect()
        .encode(
            x=alt.X("setting:N", sort=columns, title="Setting", axis=alt.Axis(labelAngle=-40)),
            y=alt.Y("segment:N", sort=lines, title=None),
            color=alt.Color("recall:Q", title=measure, scale=scale, legend=alt.Legend(orient="top")),
            tooltip=said,
        )
        .properties(width=WIDTH, height=20 * len(lines))
    )
    return finished(drawn, f"{measure} of every segment of the queries at the settings of the front.")
