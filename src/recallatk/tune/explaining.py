"""What the measured settings say together: the front, its knee, the price of recall, the worst segment."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from recallatk.analysis.distribution import FEWEST_RESAMPLED, interval_of
from recallatk.analysis.pareto import front, knee, nines
from recallatk.analysis.segments import by_column
from recallatk.core import Mean
from recallatk.core.tuned import Price
from recallatk.goals.target import is_loss
from recallatk.tune.binding import binding_of, nearest_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from recallatk.analysis.measures import Measure
    from recallatk.core.tuned import Candidate

__all__ = [
    "PREFERENCES",
    "binding_of",
    "cost_of",
    "front_of",
    "knee_of",
    "nearest_of",
    "prices_of",
    "recall_of",
    "worst_segment",
]

PREFERENCES = ("p95", "qps", "memory", "build")
# A segment of fewer queries says too little to be called the worst while there are larger ones.
FEWEST_QUERIES = FEWEST_RESAMPLED
_ROUND = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999)


def cost_of(candidate: Candidate, prefer: str) -> float | None:
    """What a setting costs, by what is preferred; less is better, None where it was not measured."""
    if prefer == "qps":
        return 1 / candidate.qps if candidate.qps else None
    found = {"memory": candidate.memory_bytes, "build": candidate.build_seconds}
    return found[prefer] if prefer in found else candidate.latency_ms.get(prefer)


def recall_of(candidate: Candidate, measure: Measure | str | None = None) -> float | None:
    """The mean of a measure while choosing, by default of the first that it has; of a loss what is kept."""
    name = str(measure) if measure is not None else next(iter(candidate.measures), None)
    mean = None if name is None else candidate.measures.get(name)
    if mean is None or mean.value is None or name is None:
        return None
    return 1 - mean.value if is_loss(name) else mean.value


def front_of(
    candidates: Sequence[Candidate], prefer: str = "p95", measure: Measure | str | None = None
) -> tuple[Candidate, ...]:
    """The settings that no other beats in both recall and cost, by rising recall."""
    places = front(
        [recall_of(each, measure) for each in candidates], [cost_of(each, prefer) for each in candidates]
    )
    return tuple(candidates[place] for place in places)


def knee_of(
    front: Sequence[Candidate], prefer: str = "p95", measure: Measure | str | None = None
) -> Candidate | None:
    """The knee of the front by `analysis.pareto.knee`; None where it has none."""
    points = _curve(front, prefer, measure)
    recalls, costs = [point[0] for point in points], [point[1] for point in points]
    place = knee(recalls, costs, [each.queries for _, _, each in points])
    return None if place is None else points[place][2]


def prices_of(
    front: Sequence[Candidate], measure: Measure | str | None = None, prefer: str = "p95"
) -> tuple[Price, ...]:
    """How many times more each round recall costs than the one before, between the measured ones only."""
    points = _curve(front, prefer, measure)
    if len(points) < 2 or is_loss(str(measure or next(iter(front[0].measures)))):
        return ()
    # The front's last point may be exact, and has no more nines than its queries can show.
    known = [nines(recall, each.queries) for recall, _, each in points]
    costs = [math.log(cost) for _, cost, _ in points]
    inside = [each for each in _ROUND if known[0] <= nines(each) <= known[-1]]
    at = [float(np.interp(nines(each), known, costs)) for each in inside]
    pairs = zip(inside, inside[1:], at, at[1:], strict=False)
    return tuple(Price(low, high, math.exp(dear - cheap)) for low, high, cheap, dear in pairs)


def worst_segment(
    values: NDArray[np.float64], columns: pa.Table | None, by: Sequence[str], *, is_share: bool = False
) -> tuple[str, Mean] | None:
    """The segment of the lowest mean, called `column=value`, of those with enough queries.

    Where none has 30 queries it is the lowest of all; its mean says of how many queries it is.

    Args:
        values: one of each query; NaN for those that have none.
        columns: what stands beside the queries, in the same order.
        by: the columns to group by.
        is_share: each value is 0 or 1.
    """
    found = []
    for name in by:
        labels = by_column(columns, name).labels
        for label in sorted({each for each in labels if each is not None}):
            inside = values[labels == label]
            inside = inside[~np.isnan(inside)]
            if len(inside):
                found.append((f"{name}={label}", inside))
    enough = [each for each in found if len(each[1]) >= FEWEST_QUERIES] or found
    if not enough:
        return None
    name, inside = min(enough, key=lambda each: (float(each[1].mean()), each[0]))
    low, high = interval_of(inside, is_share=is_share) or (None, None)
    return name, Mean(float(inside.mean()), None, len(inside), low, high)


def _curve(
    front: Sequence[Candidate], prefer: str, measure: Measure | str | None
) -> list[tuple[float, float, Candidate]]:
    """Recall, cost, and whose they are, by rising recall."""
    points = []
    for each in front:
        recall, cost = recall_of(each, measure), cost_of(each, prefer)
        if recall is not None and cost is not None and cost > 0:
            points.append((recall, cost, each))
    return sorted(points, key=lambda point: point[:2])
