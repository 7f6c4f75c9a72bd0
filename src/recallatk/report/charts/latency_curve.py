"""Recall against latency, one point per setting."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recallatk.goals import Budget
from recallatk.report.charts.curve import Axis, draw

if TYPE_CHECKING:
    from recallatk.report.charts.kinds import Chart
    from recallatk.report.charts.points import Curve


def chart(curve: Curve, chosen: int | None = None) -> Chart | None:
    """The curve that says what recall costs one caller; lower and further right is better."""
    limits = [each.limit for each in curve.goals if isinstance(each, Budget) and each.name == curve.tail]
    axis = Axis("latency", f"{curve.tail} latency (ms)", limits[0] if limits else None)
    said = (
        f"{curve.measure} of every setting against its {curve.tail} latency in milliseconds, with 95 % "
        "intervals; the band behind the points is the Pareto front."
    )
    return draw(curve, axis, said, chosen)
