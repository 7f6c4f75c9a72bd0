"""Which of several trade-offs between recall and cost are worth a look."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def front(recalls: Sequence[float | None], costs: Sequence[float | None]) -> list[int]:
    """The places of the points that no other point beats, by rising recall.

    A point beats another when it is at least as good in both and better in one: of equal recalls only the
    cheapest stay, of equal costs only the best, and points that are equal in both stay together, in their
    order. What has no recall or no cost is never among them and beats nothing.

    Args:
        recalls: one for each point; more is better.
        costs: one for each point; less is better.
    """
    points = [
        (recall, cost, place)
        for place, (recall, cost) in enumerate(zip(recalls, costs, strict=True))
        if recall is not None and cost is not None and not (math.isnan(recall) or math.isnan(cost))
    ]
    points.sort(key=lambda point: (-point[0], point[1], point[2]))
    found: list[tuple[float, float, int]] = []
    for point in points:
        if not found or point[1] < found[-1][1] or point[:2] == found[-1][:2]:
            found.append(point)
    return [place for _, _, place in sorted(found, key=lambda point: (point[0], point[2]))]
