"""Heat maps of recall: segments by setting, and engines by filter selectivity."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from recallatk.reporting.charts.theme import INK, WIDTH, finished, inline

if TYPE_CHECKING:
    from collections.abc import Sequence

    from recallatk.reporting.charts.theme import Chart, Row

_STEP = 26
# Narrower cells have no room for a number; pointing at one shows it.
_NARROWEST = 34
# Up to this share of the scale its colors are dark enough for white numbers.
_DARK = 0.6
_LONGEST = 260


class MapAxis(NamedTuple):
    """One side of a heat map."""

    field: str
    title: str
    order: Sequence[str]


def segment_heat_map(
    rows: list[Row], measure: str, columns: Sequence[str], lines: Sequence[str]
) -> Chart | None:
    """Recall by segment and setting; None without segments.

    Args:
        rows: one per segment and setting: `segment`, `setting`, `recall`, `queries`, `text`.
        measure: the measure that the color shows.
        columns: the settings, by rising recall.
        lines: the segments, grouping by grouping.
    """
    across, down = MapAxis("setting", "Setting", columns), MapAxis("segment", "Segment", lines)
    said = f"{measure} by segment of the queries at the settings of the front."
    return _heat_map(rows, measure, across, down, said)


def selectivity_heat_map(
    rows: list[Row], measure: str, groups: Sequence[str], engines: Sequence[str]
) -> Chart | None:
    """Recall by filter selectivity and engine; None without rows.

    Args:
        rows: one per engine and group: `engine`, `group`, `recall`, `queries`, `text`.
        measure: the measure that the color shows.
        groups: shares of rows that filters admit, the largest first.
        engines: the engines, each with its setting.
    """
    across, down = (
        MapAxis("group", "Rows that the filter admits", groups),
        MapAxis("engine", "Engine", engines),
    )
    return _heat_map(rows, measure, across, down, f"{measure} by filter selectivity, for every engine.")


def _heat_map(
    rows: list[Row], measure: str, across: MapAxis, down: MapAxis, description: str
) -> Chart | None:
    import altair as alt

    if not rows:
        return None
    least = min(row["recall"] for row in rows)
    # Lightness changes along this scheme, so it is readable without color.
    scale = alt.Scale(scheme="viridis", domain=[max(0.0, least), 1.0], clamp=True)
    angle = -40 if across.field == "setting" else 0
    ticks = alt.Axis(labelAngle=angle, labelOverlap=angle == 0, labelLimit=_LONGEST)
    x = alt.X(f"{across.field}:N", sort=list(across.order), title=across.title, axis=ticks)
    y = alt.Y(f"{down.field}:N", sort=list(down.order), title=None)
    said = [
        alt.Tooltip(f"{down.field}:N", title=down.title),
        alt.Tooltip(f"{across.field}:N", title=across.title),
        alt.Tooltip("text:N", title=measure),
        alt.Tooltip("queries:Q", title="Queries", format=","),
    ]
    base = alt.Chart()
    cells = base.mark_rect().encode(
        x=x,
        y=y,
        color=alt.Color("recall:Q", title=measure, scale=scale, legend=alt.Legend(orient="top")),
        tooltip=said,
    )
    dark = f"datum.recall < {least + _DARK * (1.0 - least)!r}"
    room = alt.ExprRef(f"width / {len(across.order)} < {_NARROWEST} ? 0 : 1")
    numbers = base.mark_text(fontSize=11, opacity=room).encode(
        x=x,
        y=y,
        text=alt.Text("recall:Q", format=".3f"),
        color=alt.condition(dark, alt.value("white"), alt.value(INK)),
        tooltip=said,
    )
    drawn = alt.layer(cells, numbers.properties(name="values"), data=inline(rows))
    return finished(drawn.properties(width=WIDTH, height=_STEP * len(down.order)), description)
