"""Which settings a page shows of a run with more than a reader, or a browser, can take in."""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from recallatk.report.charts.kinds import Row
    from recallatk.report.charts.points import Curve

MOST_SHOWN = 1_000
_FRONTS = ("latencyFront", "qpsFront", "latencyEngineFront", "qpsEngineFront")


def shortened(curve: Curve, always: int | None = None) -> tuple[Curve, int | None]:
    """The curve with at most a thousand points: the fronts, and those nearest to them.

    Args:
        curve: every setting that was measured.
        always: a point that is kept in any case.

    Returns:
        The curve, its points numbered anew, and the new number of the point that is always kept.
    """
    if len(curve.points) <= MOST_SHOWN:
        return curve, always
    ranked = _ranked(curve)
    if always is not None:
        ranked = [always, *(each for each in ranked if each != always)]
    places = sorted(ranked[:MOST_SHOWN])
    loads = {load: number for number, load in enumerate(sorted({curve.points[n]["load"] for n in places}))}
    points = [
        {**curve.points[place], "n": number, "load": loads[curve.points[place]["load"]]}
        for number, place in enumerate(places)
    ]
    part = replace(
        curve,
        lines=[curve.lines[place] for place in places],
        points=points,
        loads=[curve.loads[load] for load in loads],
        left_out=len(curve.points) - len(places),
    )
    return part, None if always is None else places.index(always)


def _ranked(curve: Curve) -> list[int]:
    """Every point: the fronts, evenly thinned, then the others by how much dearer than a front they are."""
    front = [each for each in curve.points if any(each[name] for name in _FRONTS)]
    front.sort(key=lambda each: (each["load"], each["recall"] or 0.0))
    chosen = front if len(front) <= MOST_SHOWN else _thinned(front)
    first = [each["n"] for each in chosen]
    dearer = _dearer(curve.points)
    others = sorted(set(range(len(curve.points))).difference(first), key=lambda n: (dearer[n], n))
    return [*first, *others]


def _thinned(front: list[Row]) -> list[Row]:
    step = (len(front) - 1) / (MOST_SHOWN - 1)
    return [front[round(place * step)] for place in range(MOST_SHOWN)]


def _dearer(points: list[Row]) -> list[float]:
    """How many times the latency of each is that of the front at its recall, under the same load."""
    fronts: dict[int, list[tuple[float, float]]] = {}
    for each in points:
        if each["latencyFront"]:
            fronts.setdefault(each["load"], []).append((each["recall"], each["latency"]))
    for found in fronts.values():
        found.sort()
    return [_times(each, fronts.get(each["load"], [])) for each in points]


def _times(point: Row, front: list[tuple[float, float]]) -> float:
    if not point["latency"] or point["recall"] is None:
        return math.inf
    place = bisect_left(front, point["recall"], key=lambda each: each[0])
    cheapest = front[place][1] if place < len(front) else 0.0
    return float(point["latency"] / cheapest) if cheapest else math.inf
