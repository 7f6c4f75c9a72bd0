"""Foreign rows: vectors that another embedding model made than the rest, found beside earlier vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

FEWEST_ROWS = 500
"""Fewer rows do not determine a map between two spaces."""
_ROUNDS = 4
_RIDGE = 1e-2
# A map that predicts less than this says nothing about single rows.
LEAST_PREDICTED = 0.3
# Foreign rows have a cosine of about 0 with what the map predicts.
_OF_MEDIAN = 0.5


class ForeignRows(NamedTuple):
    """Which rows do not follow the map from earlier vectors to new ones that most rows follow."""

    foreign: NDArray[np.bool_]
    predicted: float
    """Median cosine of the other rows with what the map predicts."""

    @property
    def told(self) -> bool:
        """Whether the map predicts the new vectors well enough to tell."""
        return self.predicted >= LEAST_PREDICTED


def foreign_rows(old: NDArray[Any], new: NDArray[Any]) -> ForeignRows:
    """Rows whose new vector has nothing to do with what the others' change of model makes of the old one.

    A linear map from old to new vectors is fitted to one half of the rows and predicts the other. Rows far
    from their prediction are left out of the next fit. Of two parts, the smaller is foreign.
    """
    before, after = (np.asarray(each, np.float64) for each in (old, new))
    half = np.arange(len(before)) % 2
    kept = np.ones(len(before), bool)
    near, median = _predicted(before, after, kept, half), 0.0
    kept = near > _split(near)
    for _ in range(_ROUNDS - 1):
        near = _predicted(before, after, kept, half)
        median = float(np.median(near[kept]))
        kept = near >= _OF_MEDIAN * median
    if np.count_nonzero(kept) < len(kept) / 2:
        kept = ~kept
    return ForeignRows(~kept, median)


def _predicted(before: Floats, after: Floats, kept: NDArray[np.bool_], half: NDArray[np.int64]) -> Floats:
    """Cosine of each row with its prediction, around the mean of the kept rows."""
    near = np.zeros(len(before))
    center = after[kept].mean(axis=0)
    for fold in (0, 1):
        fitted, told = kept & (half != fold), half == fold
        if np.count_nonzero(fitted) < 2:
            continue
        middle = before[fitted].mean(axis=0)
        points = before[fitted] - middle
        inner = points.T @ points
        inner += (_RIDGE * np.trace(inner) / len(inner) + 1e-12) * np.eye(len(inner))
        mapped = np.linalg.solve(inner, points.T @ (after[fitted] - center))
        near[told] = _cosines((before[told] - middle) @ mapped, after[told] - center)
    return near


def _cosines(one: Floats, other: Floats) -> Floats:
    lengths = np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1)
    return np.asarray((one * other).sum(axis=1) / np.where(lengths > 0, lengths, 1.0))


def _split(values: Floats) -> float:
    """The value that best divides values into two groups (Otsu 1979)."""
    in_order = np.sort(values)
    count = np.arange(1, len(in_order))
    below = np.cumsum(in_order)[:-1]
    apart = (in_order.sum() - below) / (len(in_order) - count) - below / count
    return float(in_order[int(np.argmax(count * (len(in_order) - count) * apart**2))])
