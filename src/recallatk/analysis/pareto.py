"""The Pareto front between recall and cost, and its knee."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

# Settings with less recall are never suggested.
USEFUL_RECALL = 0.8
_FEWEST_POINTS = 3


def front(
    recalls: Sequence[float | None], costs: Sequence[float | None], refused: Sequence[int] = ()
) -> list[int]:
    """Indices of the points on the Pareto front, by rising recall.

    A point beats another when it is at least as good in both and better in one: of equal recalls only the
    cheapest stay, of equal costs only the best, and points that are equal in both stay together, in their
    order. What has no recall or no cost is never among them and beats nothing; nor do points that refused
    more queries than others, because their recall is over different queries.

    Args:
        recalls: one for each point; more is better.
        costs: one for each point; less is better.
        refused: the number of queries that each point refused; by default none.
    """
    points = [
        (recall, cost, place)
        for place, (recall, cost) in enumerate(zip(recalls, costs, strict=True))
        if recall is not None and cost is not None and not (math.isnan(recall) or math.isnan(cost))
    ]
    if refused:
        fewest = min((refused[place] for *_, place in points), default=0)
        points = [point for point in points if refused[point[2]] == fewest]
    points.sort(key=lambda point: (-point[0], point[1], point[2]))
    found: list[tuple[float, float, int]] = []
    for point in points:
        if not found or point[1] < found[-1][1] or point[:2] == found[-1][:2]:
            found.append(point)
    return [place for _, _, place in sorted(found, key=lambda point: (point[0], point[2]))]


def knee(recalls: Sequence[float], costs: Sequence[float], queries: Sequence[int]) -> int | None:
    """Index of the knee of a front, beyond which recall gets more expensive.

    Kneedle's furthest point from the straight line between the ends, over the logarithm of the cost, with
    recall as its number of nines. It moves with what else was measured, so that it is a suggestion and no
    more; settings below `USEFUL_RECALL` are left out. None where there is no bend or fewer than three points.

    Args:
        recalls: of each point of the front.
        costs: likewise, above 0; less is better.
        queries: how many queries each recall is over, which limits the nines of a recall of 1.
    """
    points = [
        (nines(recall, count), math.log(cost), place)
        for place, (recall, cost, count) in enumerate(zip(recalls, costs, queries, strict=True))
        if cost > 0 and recall >= USEFUL_RECALL
    ]
    points.sort()
    if len({cost for _, cost, _ in points}) < _FEWEST_POINTS:
        return None
    heights, widths = (np.array([point[axis] for point in points]) for axis in (0, 1))
    if np.ptp(heights) == 0:
        return None
    above = (heights - heights.min()) / np.ptp(heights) - (widths - widths.min()) / np.ptp(widths)
    best = int(above.argmax())
    return points[best][2] if above[best] > 1e-9 else None


def nines(recall: float, queries: int = 0) -> float:
    """The number of nines of a recall: 0.9 is one, 0.99 two; 1 has as many as its queries can tell."""
    return -math.log10(max(1 - recall, 1 / (10 * max(queries, 1000))))
