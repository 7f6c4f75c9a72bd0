"""Charts as files: the very definition that the page draws, as PNG and SVG."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from recallatk.files import atomic_file, write_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from recallatk.files import PathLike
    from recallatk.report.charts.kinds import Chart

_SCALE = 2.0


def specification(chart: Chart) -> dict[str, Any]:
    """The Vega-Lite specification of a chart; that it keeps to the schema is for tests to see."""
    found: dict[str, Any] = chart.to_dict(validate=False)
    return found


def write_images(charts: Mapping[str, Chart], folder: PathLike, format: str) -> list[Path]:
    """Write each chart as NAME.png or NAME.svg, on white paper."""
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    written = []
    for name, chart in charts.items():
        path = target / f"{name}.{format}"
        _write(specification(chart) | {"background": "white"}, path, format)
        written.append(path)
    return written


def _write(drawn: dict[str, Any], path: Path, format: str) -> None:
    import vl_convert

    if format == "svg":
        write_text(path, vl_convert.vegalite_to_svg(drawn))
        return
    with atomic_file(path) as scratch:
        Path(scratch).write_bytes(vl_convert.vegalite_to_png(drawn, scale=_SCALE))
