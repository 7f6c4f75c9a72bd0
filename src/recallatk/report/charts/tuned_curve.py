"""What a tuning measured: recall against what is to be cheap, with the choice and what else has a name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from recallatk.report.charts.curve import Axis, draw, titled
from recallatk.report.charts.theme import INK
from recallatk.report.charts.tuned_points import AXES

if TYPE_CHECKING:
    from recallatk.report.charts.kinds import Chart, Row
    from recallatk.report.charts.tuned_points import TunedCurve

# A limit further off than this would squeeze the points into a corner.
_FAR = 2.5
_SAID = {
    "markText": "Called",
    "engine": "Engine",
    "build": "Build",
    "search": "Search",
    "recallText": "Measured",
    "boundText": "Bound",
    "queriesText": "Queries",
    "p50Text": "p50",
    "p95Text": "p95",
    "qpsText": "QPS",
    "memoryText": "Memory",
    "buildText": "Build time",
}


def chart(curve: TunedCurve) -> Chart | None:
    """The curve that the choice was made on; None where nothing was measured."""
    prefer = curve.tuned.prefer
    title = AXES.get(prefer, f"{prefer} latency (ms)")
    said = (
        f"{titled(curve.measure or 'recall')} of every setting measured at full size against {title}, with "
        "95 % intervals; the band behind the points is the Pareto front, dashed lines are what was asked for."
    )
    axis = Axis("cost", title, curve.limit if limit_is_near(curve) else None)
    return draw(curve, axis, said, curve.ringed, said=_SAID, more=_named(curve), follows=False)


def limit_is_near(curve: TunedCurve) -> bool:
    """Whether there is a limit to the cost that can be drawn beside the points."""
    costs: list[float] = [point["cost"] for point in _drawn(curve)]
    if curve.limit is None or not costs:
        return False
    return min(costs) / _FAR <= curve.limit <= max(costs) * _FAR


def _drawn(curve: TunedCurve) -> list[Row]:
    return [point for point in curve.points if point["recall"] is not None and point["cost"]]


def _named(curve: TunedCurve) -> list[Any]:
    """The words beside the points that have a name, on the side where no better setting can be."""
    import altair as alt

    drawn = _drawn(curve)
    if not drawn:
        return []
    ends = [point["recall"] for point in drawn]
    near = min(ends) + 0.15 * (max(ends) - min(ends))
    up: dict[str, Any] = {
        "dy": 17 if curve.tuned.prefer == "qps" else -14,
        "color": INK,
        "fontWeight": 600,
        "fontSize": 12,
    }
    sides: dict[bool, dict[str, Any]] = {
        True: {"align": "left", "dx": 6},
        False: {"align": "right", "dx": -6},
    }
    named = {point["recall"] <= near for point in drawn if point["mark"]}
    return [
        alt.Chart()
        .transform_filter(f"datum.mark && datum.recall {'<=' if low else '>'} {near!r}")
        .mark_text(**side, **up)
        .encode(text="mark:N")
        .properties(name=f"names{side['align']}")
        for low, side in sides.items()
        # A layer without rows would have the chart complain.
        if low in named
    ]
