"""Look of charts and their image files: one palette for light and dark, quiet axes."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from recallatk.errors import needing
from recallatk.files import atomic_file, write_text

if TYPE_CHECKING:
    import altair as alt

    Chart: TypeAlias = alt.LayerChart | alt.Chart | alt.HConcatChart | alt.VConcatChart
    from collections.abc import Iterator, Mapping, Sequence

    from recallatk.files import PathLike

Row: TypeAlias = dict[str, Any]


# All have a contrast of at least 3:1 against white and against the dark page. Shapes repeat after six and
# colors after eight, so that the first 24 engines have unique pairs, even for color-blind readers.
COLORS = ("#0b7fc4", "#d4560a", "#118a63", "#bd5492", "#8f7a0a", "#7a6ad8", "#c23b4b", "#5c7f8f")
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down")
INK, QUIET, GRID = "#1c2430", "#5a6472", "#dfe3e8"
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'DejaVu Sans', sans-serif"
WIDTH, HEIGHT = 640, 360
# Outlines of the shapes in a box of 16 by 16, for a legend outside of charts.
_OUTLINES = {
    "circle": "M8 2a6 6 0 1 0 .01 0Z",
    "square": "M3 3h10v10H3Z",
    "triangle-up": "M8 2l6 11H2Z",
    "diamond": "M8 1l5 7-5 7-5-7Z",
    "cross": "M6 2h4v4h4v4h-4v4H6v-4H2V6h4Z",
    "triangle-down": "M8 14L2 3h12Z",
}
_SCALE = 2.0


def colors(names: Sequence[str]) -> dict[str, str]:
    """The color of each engine, by its place in the run."""
    return {name: COLORS[place % len(COLORS)] for place, name in enumerate(names)}


def shapes(names: Sequence[str]) -> dict[str, str]:
    """The shape of each engine, likewise."""
    return {name: SHAPES[place % len(SHAPES)] for place, name in enumerate(names)}


def legend(names: Sequence[str]) -> list[tuple[str, str, str]]:
    """Each engine with its color and the outline of its shape."""
    found = zip(names, colors(names).values(), shapes(names).values(), strict=True)
    return [(name, color, _OUTLINES[shape]) for name, color, shape in found]


def by_color(names: Sequence[str], field: str = "engine", title: str = "Engine") -> Any:
    """A color for each engine, the same in all charts."""
    import altair as alt

    scale = alt.Scale(domain=list(names), range=list(colors(names).values()))
    return alt.Color(f"{field}:N", scale=scale, title=title)


def by_shape(names: Sequence[str], field: str = "engine", title: str = "Engine") -> Any:
    """A shape for each engine, so that no information is in color alone."""
    import altair as alt

    scale = alt.Scale(domain=list(names), range=list(shapes(names).values()))
    return alt.Shape(f"{field}:N", scale=scale, title=title)


def inline(rows: list[Row]) -> Any:
    """Rows as inline data."""
    import altair as alt

    return alt.InlineData(values=rows)


def finished(chart: Any, description: str, *, own_legend: bool = False) -> Chart:
    """The chart with the common look and a description for screen readers.

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


@contextmanager
def unchecked_charts() -> Iterator[None]:
    """Disable Altair's schema checks, which take half of the drawing time; tests do them."""
    from altair.utils.schemapi import debug_mode

    with debug_mode(False):
        yield


def specification(chart: Chart) -> dict[str, Any]:
    """The Vega-Lite specification of a chart; tests check it against the schema."""
    found: dict[str, Any] = chart.to_dict(validate=False)
    return found


def write_images(charts: Mapping[str, Chart], folder: PathLike, format: str) -> list[Path]:
    """Write each chart as NAME.png or NAME.svg, on white paper."""
    image_library()
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    written = []
    for name, chart in charts.items():
        path = target / f"{name}.{format}"
        _write(specification(chart) | {"background": "white"}, path, format)
        written.append(path)
    return written


def image_library() -> Any:
    """The module vl_convert; without it, an error with the command that installs it."""
    with needing("vl-convert-python, which draws PNG and SVG,", "images"):
        import vl_convert

    return vl_convert


def _write(drawn: dict[str, Any], path: Path, format: str) -> None:
    vl_convert = image_library()
    if format == "svg":
        write_text(path, vl_convert.vegalite_to_svg(drawn))
        return
    with atomic_file(path) as scratch:
        Path(scratch).write_bytes(vl_convert.vegalite_to_png(drawn, scale=_SCALE))
