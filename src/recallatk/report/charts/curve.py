"""What both curves have in common: points by engine, intervals in both directions, the front, goals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from recallatk.report.charts.theme import HEIGHT, INK, QUIET, WIDTH, by_colour, by_shape, finished, inline

if TYPE_CHECKING:
    from collections.abc import Sequence

    from recallatk.report.charts.kinds import Chart, Row
    from recallatk.report.charts.points import Curve
    from recallatk.report.targets import Goal

# Whiskers of more points than this hide the points.
_MOST_WHISKERS = 80
# A range of costs beyond this is drawn on a logarithmic axis.
_LOGARITHMIC = 4.0
_ROOM = 14


@dataclass(frozen=True)
class Axis:
    """The cost that recall is drawn against."""

    field: str
    title: str
    goal: float | None
    """A limit to draw, where the settings state one."""


def draw(curve: Curve, axis: Axis, description: str, chosen: int | None) -> Chart | None:
    """One curve; None where nothing can be drawn."""
    import altair as alt

    drawn = [point for point in curve.points if point["recall"] is not None and point[axis.field]]
    if not drawn or curve.measure is None:
        return None
    engines = list(curve.engines.values())
    wanted = [goal.value for goal in recall_goals(curve)]
    across = f"{curve.measure} (share of the true neighbours)"
    x = alt.X("recall:Q", title=across, scale=recall_scale(drawn, wanted), axis=alt.Axis(tickCount=8))
    y = alt.Y(f"{axis.field}:Q", title=axis.title, scale=cost_scale(drawn, axis.field))
    colour = by_colour(engines)
    layers = [
        *_goal_rules(curve, axis),
        *_whiskers(drawn, axis, across, x, y, colour),
        _line(f"{axis.field}Front", x, y, alt.value(QUIET), width=5, opacity=0.22).properties(name="front"),
        _line(f"{axis.field}EngineFront", x, y, colour, width=1.5, opacity=0.9),
        _ring(x, y),
        _marks(drawn, axis.field, x, y, colour, by_shape(engines)),
    ]
    ringed = alt.param(name="chosen", value=-1 if chosen is None else chosen)
    load = alt.param(name="load", value=0)
    chart = (
        alt.layer(*layers, data=inline(drawn)).add_params(ringed, load).properties(width=WIDTH, height=HEIGHT)
    )
    return finished(chart, description, own_legend=True)


def recall_scale(drawn: list[Row], wanted: Sequence[float] = ()) -> Any:
    """From below the worst to 1 at the most: where the curve bends is at the upper end."""
    import altair as alt

    least = min([*(point["recallLow"] for point in drawn), *wanted])
    most = max([*(point["recallHigh"] for point in drawn), *wanted])
    room = max(0.02, 0.05 * (most - least))
    return alt.Scale(domain=[max(0.0, least - room), min(1.0, most + room)], nice=False, zero=False)


def cost_scale(drawn: list[Row], field: str) -> Any:
    """Logarithmic where costs differ by more than a few times, else from zero; as far as what is shown."""
    import altair as alt

    values = [point[field] for point in drawn]
    if max(values) > _LOGARITHMIC * min(values):
        return alt.Scale(type="log", nice=False, padding=_ROOM)
    return alt.Scale(zero=True)


def _base(condition: str = "") -> Any:
    """A layer over the points of the load that is shown; the data stand in the whole chart, once."""
    import altair as alt

    return alt.Chart().transform_filter(f"datum.load === load{condition}")


def _whiskers(drawn: list[Row], axis: Axis, across: str, x: Any, y: Any, colour: Any) -> list[Any]:
    import altair as alt

    field = axis.field
    some = f" && datum.{field}Front" if len(drawn) > _MOST_WHISKERS else ""
    rules = _base(some).mark_rule(opacity=0.45)
    return [
        rules.encode(x=alt.X("recallLow:Q", title=across), x2="recallHigh:Q", y=y, color=colour),
        rules.encode(x=x, y=alt.Y(f"{field}Low:Q", title=axis.title), y2=f"{field}High:Q", color=colour),
    ]


def _line(flag: str, x: Any, y: Any, colour: Any, *, width: float, opacity: float) -> Any:
    import altair as alt

    line = _base(f" && datum.{flag}").mark_line(strokeWidth=width, opacity=opacity)
    return line.encode(x=x, y=y, color=colour, order=alt.Order("recall:Q"))


def _ring(x: Any, y: Any) -> Any:
    base = _base(" && datum.n === chosen")
    ring = base.mark_point(size=320, strokeWidth=2.5, stroke=INK, filled=False, shape="circle")
    return ring.encode(x=x, y=y).properties(name="ring")


def _marks(drawn: list[Row], field: str, x: Any, y: Any, colour: Any, shape: Any) -> Any:
    import altair as alt

    size = 90 if len(drawn) <= _MOST_WHISKERS else 36
    base = _base().mark_point(filled=True, size=size, cursor="pointer")
    return base.encode(
        x=x,
        y=y,
        color=colour,
        shape=shape,
        opacity=alt.condition(f"datum.{field}EngineFront", alt.value(1), alt.value(0.5)),
        tooltip=_said(),
    ).properties(name="points")


def _said() -> list[Any]:
    """Everything that the one who points at a point may want to know."""
    import altair as alt

    shown = {
        "engine": "Engine",
        "build": "Build",
        "search": "Search",
        "loadText": "Load",
        "recallText": "Recall",
        "p50Text": "p50",
        "p95Text": "p95",
        "p99Text": "p99",
        "qpsText": "QPS",
        "memoryText": "Memory",
        "buildText": "Build time",
    }
    return [alt.Tooltip(f"{field}:N", title=title) for field, title in shown.items()]


def recall_goals(curve: Curve) -> list[Goal]:
    """The goals that are about the recall on the axis."""
    return [goal for goal in curve.goals if goal.at_least and goal.measure == curve.measure]


def _goal_rules(curve: Curve, axis: Axis) -> list[Any]:
    """A line for the recall that is wanted, and one for what it may cost."""
    import altair as alt

    rule: dict[str, Any] = {"strokeDash": [6, 4], "color": QUIET, "strokeWidth": 1.5}
    rules = [
        alt.Chart(inline([{"at": goal.value}])).mark_rule(**rule).encode(x="at:Q")
        for goal in recall_goals(curve)
    ]
    if axis.goal is not None:
        rules.append(alt.Chart(inline([{"at": axis.goal}])).mark_rule(**rule).encode(y="at:Q"))
    return rules
