"""How charts look: one palette for light and dark, quiet axes, no decoration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from recallatk.report.charts.kinds import Chart, Row

# All have a contrast of 3:1 and more against white and against the dark page. Shapes repeat after six and
# colours after eight, so that the first 24 engines have a pair of their own, whatever colours one sees.
COLOURS = ("#0b7fc4", "#d4560a", "#118a63", "#bd5492", "#8f7a0a", "#7a6ad8", "#c23b4b", "#5c7f8f")
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down")
INK, QUIET, GRID = "#1c2430", "#5a6472", "#dfe3e8"
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'DejaVu Sans', sans-serif"
WIDTH, HEIGHT = 640, 360


def colours(names: Sequence[str]) -> dict[str, str]:
    """The colour of each engine, by its place in the run."""
    return {name: COLOURS[place % len(COLOURS)] for place, name in enumerate(names)}


def shapes(names: Sequence[str]) -> dict[str, str]:
    """The shape of each engine, likewise."""
    return {name: SHAPES[place % len(SHAPES)] for place, name in enumerate(names)}


def by_colour(names: Sequence[str], field: str = "engine", title: str = "Engine") -> Any:
    """A colour for each engine, the same in all charts."""
    import altair as alt

    scale = alt.Scale(domain=list(names), range=list(colours(names).values()))
    return alt.Color(f"{field}:N", scale=scale, title=title)


def by_shape(names: Sequence[str], field: str = "engine", title: str = "Engine") -> Any:
    """A shape for each engine, so that nothing is told by colour alone."""
    import altair as alt

    scale = alt.Scale(domain=list(names), range=list(shapes(names).values()))
    return alt.Shape(f"{field}:N", scale=scale, title=title)


def inline(rows: list[Row]) -> Any:
    """Rows as data that stand in the chart itself."""
    import altair as alt

    return alt.InlineData(values=rows)


def finished(chart: Any, description: str, *, own_legend: bool = False) -> Chart:
    """The chart with the common look, and with words for those who do not see it.

    Args:
        chart: what to finish.
        description: what it shows, in a sentence.
        own_legend: a page that has a legend of engines leaves out the chart's own.
    """
    made: Chart = chart.properties(
        description=description, usermeta={"engines": own_legend}, background="transparent"
    ).configure(
        font=FONT,
        view={"stroke": None},
        axis={
            "labelColor": QUIET,
            "titleColor": INK,
            "titleFontWeight": 600,
            "labelFontSize": 12,
            "titleFontSize": 12,
            "gridColor": GRID,
            "domainColor": QUIET,
            "tickColor": QUIET,
            "labelLimit": 220,
            "titlePadding": 8,
        },
        legend={
            "labelColor": INK,
            "titleColor": INK,
            "labelLimit": 260,
            "symbolLimit": 0,
            "symbolOpacity": 1,
            "orient": "bottom",
            "columns": 4,
        },
        header={"labelColor": INK, "titleColor": INK},
        title={"color": INK, "fontSize": 13, "anchor": "start", "fontWeight": 600},
    )
    return made
