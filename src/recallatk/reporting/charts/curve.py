"""Curves of recall against a cost: points by engine, intervals, the Pareto front, goals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from recallatk.goals import Budget
from recallatk.goals.target import is_loss
from recallatk.reporting.charts.theme import HEIGHT, INK, QUIET, WIDTH, by_color, by_shape, finished, inline
from recallatk.reporting.labels import cut
from recallatk.reporting.text import printable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from recallatk.reporting.charts.points import Curve
    from recallatk.reporting.charts.theme import Chart, Row

# With more points than this, error bars would hide the points.
_MOST_WHISKERS = 80
# A range of costs beyond this is drawn on a logarithmic axis.
_LOGARITHMIC = 4.0
_ROOM = 14
_LONGEST_TITLE = 60


@dataclass(frozen=True)
class CostAxis:
    """The cost that recall is drawn against."""

    field: str
    title: str
    goal: float | None
    """A limit to draw, where the settings state one."""


# Fields of a point's tooltip.
SAID = {
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


class DrawnCurve(Protocol):
    """Settings as points between recall and a cost."""

    @property
    def points(self) -> list[Row]:
        """One row per setting, with the fields that the tooltip names."""

    @property
    def measure(self) -> str | None:
        """The recall on the axis; None where none was measured."""

    @property
    def engines(self) -> Mapping[str, str]:
        """What each engine is called in a chart."""

    @property
    def wanted(self) -> Sequence[float]:
        """Values of the measure with a line."""


def draw(
    curve: DrawnCurve,
    axis: CostAxis,
    description: str,
    chosen: int | None,
    *,
    said: Mapping[str, str] = SAID,
    more: Sequence[Any] = (),
    follows: bool = True,
) -> Chart | None:
    """One curve; None where nothing can be drawn.

    Args:
        curve: what to draw.
        axis: the cost that recall is drawn against.
        description: what it shows, in a sentence.
        chosen: the number of the point with a ring.
        said: the fields that are shown of a point, with what they are called.
        more: further layers, before everything else.
        follows: whether choosing a point does something.
    """
    import altair as alt

    drawn = [point for point in curve.points if point["recall"] is not None and point[axis.field]]
    if not drawn or curve.measure is None:
        return None
    engines = list(curve.engines.values())
    wanted = curve.wanted
    across = titled(curve.measure)
    scale = loss_scale(drawn, wanted) if is_loss(curve.measure) else recall_scale(drawn, wanted)
    x = alt.X("recall:Q", title=across, scale=scale, axis=alt.Axis(tickCount=8))
    y = alt.Y(f"{axis.field}:Q", title=axis.title, scale=cost_scale(drawn, axis.field))
    color = by_color(engines)
    layers = [
        *_goal_rules(curve, axis),
        *_whiskers(drawn, axis, across, x, y, color),
        _line(f"{axis.field}Front", x, y, alt.value(QUIET), width=5, opacity=0.22).properties(name="front"),
        _line(f"{axis.field}EngineFront", x, y, color, width=1.5, opacity=0.9),
        # A ring that can never be drawn would have no extent, which browsers warn of.
        *([_ring(x, y)] if follows or chosen is not None else []),
        _marks(drawn, axis.field, x, y, color, by_shape(engines), said, follows=follows),
        *(each.encode(x=x, y=y) for each in more),
    ]
    ringed = alt.param(name="chosen", value=-1 if chosen is None else chosen)
    load = alt.param(name="load", value=0)
    chart = (
        alt.layer(*layers, data=inline(drawn)).add_params(ringed, load).properties(width=WIDTH, height=HEIGHT)
    )
    return finished(chart, description, own_legend=True)


def titled(measure: str) -> str:
    """A measure with its unit, for an axis."""
    if is_loss(measure):
        unit = "less is better"
    else:
        unit = "share of the true neighbors" if measure.startswith("recall@") else "share of the queries"
    return f"{cut(printable(measure), _LONGEST_TITLE)} ({unit})"


def loss_scale(drawn: list[Row], wanted: Sequence[float] = ()) -> Any:
    """A scale around the losses, which are small and may be below zero."""
    import altair as alt

    least = min([*(point["recallLow"] for point in drawn), *wanted])
    most = max([*(point["recallHigh"] for point in drawn), *wanted])
    room = max(1e-4, 0.08 * (most - least))
    return alt.Scale(domain=[least - room, most + room], nice=False, zero=False)


def recall_scale(drawn: list[Row], wanted: Sequence[float] = ()) -> Any:
    """A scale from below the worst recall to at most 1, because curves bend at the upper end."""
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
    """A layer over the points of the shown load; the data are in the outer chart once."""
    import altair as alt

    return alt.Chart().transform_filter(f"datum.load === load{condition}")


def _whiskers(drawn: list[Row], axis: CostAxis, across: str, x: Any, y: Any, color: Any) -> list[Any]:
    import altair as alt

    field = axis.field
    some = f" && datum.{field}Front" if len(drawn) > _MOST_WHISKERS else ""
    rules = _base(some).mark_rule(opacity=0.45)
    return [
        rules.encode(x=alt.X("recallLow:Q", title=across), x2="recallHigh:Q", y=y, color=color),
        rules.encode(x=x, y=alt.Y(f"{field}Low:Q", title=axis.title), y2=f"{field}High:Q", color=color),
    ]


def _line(flag: str, x: Any, y: Any, color: Any, *, width: float, opacity: float) -> Any:
    import altair as alt

    line = _base(f" && datum.{flag}").mark_line(strokeWidth=width, opacity=opacity)
    return line.encode(x=x, y=y, color=color, order=alt.Order("recall:Q"))


def _ring(x: Any, y: Any) -> Any:
    base = _base(" && datum.n === chosen")
    ring = base.mark_point(size=320, strokeWidth=2.5, stroke=INK, filled=False, shape="circle")
    return ring.encode(x=x, y=y).properties(name="ring")


def _marks(
    drawn: list[Row], field: str, x: Any, y: Any, color: Any, shape: Any, said: Mapping[str, str],
    *, follows: bool,
) -> Any:  # fmt: skip
    import altair as alt

    size = 90 if len(drawn) <= _MOST_WHISKERS else 36
    cursor = {"cursor": "pointer"} if follows else {}
    base = _base().mark_point(filled=True, size=size, **cursor)
    return base.encode(
        x=x,
        y=y,
        color=color,
        shape=shape,
        opacity=alt.condition(f"datum.{field}EngineFront", alt.value(1), alt.value(0.5)),
        tooltip=[alt.Tooltip(f"{name}:N", title=title) for name, title in said.items()],
    ).properties(name="points")


def _goal_rules(curve: DrawnCurve, axis: CostAxis) -> list[Any]:
    """Dashed lines for the recall target and the cost limit."""
    import altair as alt

    rule: dict[str, Any] = {"strokeDash": [6, 4], "color": QUIET, "strokeWidth": 1.5}
    rules = [alt.Chart(inline([{"at": value}])).mark_rule(**rule).encode(x="at:Q") for value in curve.wanted]
    if axis.goal is not None:
        rules.append(alt.Chart(inline([{"at": axis.goal}])).mark_rule(**rule).encode(y="at:Q"))
    return rules


def latency_curve(curve: Curve, chosen: int | None = None) -> Chart | None:
    """The curve that says what recall costs one caller; lower and further right is better."""
    limits = [each.limit for each in curve.goals if isinstance(each, Budget) and each.name == curve.tail]
    axis = CostAxis("latency", f"{curve.tail} latency (ms)", limits[0] if limits else None)
    said = (
        f"{curve.measure} of every setting against its {curve.tail} latency in milliseconds, with 95 % "
        "intervals; the band behind the points is the Pareto front."
    )
    return draw(curve, axis, said, chosen)


def qps_curve(curve: Curve, chosen: int | None = None) -> Chart | None:
    """Recall against throughput; up and to the right is better."""
    said = (
        f"{curve.measure} of every setting against its queries per second, with the 95 % interval of recall "
        "and the range over rounds; the band behind the points is the Pareto front."
    )
    return draw(curve, CostAxis("qps", "Queries per second", None), said, chosen)
