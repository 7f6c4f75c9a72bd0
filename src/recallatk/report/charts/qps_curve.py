"""Recall against queries a second, one point per setting."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recallatk.report.charts.curve import Axis, draw

if TYPE_CHECKING:
    from recallatk.report.charts.kinds import Chart
    from recallatk.report.charts.points import Curve


def chart(curve: Curve, chosen: int | None = None) -> Chart | None:
    """The curve that says what recall costs a machine; higher and further right is better."""
    said = (
        f"{curve.measure} of every setting against the queries that it answered a second, with the 95 % "
        "interval of recall and the span over rounds; the band behind the points is the Pareto front."
    )
    return draw(curve, Axis("qps", "Queries answered (1/s)", None), said, chosen)
