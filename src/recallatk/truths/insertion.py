"""Insertion of new rows into many neighbor lists at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.pair_scores import tolerance

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recallatk.core import Metric


@dataclass(eq=False)
class NeighborLists:
    """Best rows of some queries, in lists of one length, and whether each ties with the previous one."""

    rows: NDArray[np.int64]
    scores: NDArray[np.float64]
    tied: NDArray[np.bool_]


def insert(
    metric: Metric,
    lines: NeighborLists,
    queries: NDArray[np.int64],
    rows: NDArray[np.int64],
    scores: NDArray[np.float64],
    dimension: int,
) -> NDArray[np.bool_]:
    """Insert rows into the lines of their queries, in place; what falls off the end is dropped.

    Returns the lines for which this was not enough: a score lies too close to another one for float64 to
    decide. What became of these is worthless.

    Args:
        metric: cosine or l2, whose error bounds need nothing but the scores.
        lines: what is known.
        queries: of each new row, its line; in order.
        rows: the new rows.
        scores: their float64 scores.
        dimension: of the vectors.
    """
    undecided = np.zeros(len(lines.rows), bool)
    if not len(queries):
        return undecided
    counts = np.bincount(queries, minlength=len(lines.rows))
    which, width = np.flatnonzero(counts), lines.rows.shape[1]
    where = (np.cumsum(counts > 0) - 1)[queries], width + np.arange(len(queries)) - _starts(counts)[queries]
    worst = -np.inf if metric.higher_is_better else np.inf
    all_rows, all_scores = (
        _beside(known[which], int(counts.max()), none)
        for known, none in ((lines.rows, -1), (lines.scores, worst))
    )
    all_rows[where], all_scores[where] = rows, scores
    order = np.argsort(-all_scores if metric.higher_is_better else all_scores, axis=1, kind="stable")
    # One more than is kept: a new row that just fell off may be too close to the last as well.
    order = order[:, : width + 1]
    in_order = np.take_along_axis(all_scores, order, axis=1)
    undecided[which] = _near_new(metric, in_order, order >= width, dimension)
    tied = _beside(lines.tied[which], int(counts.max()), none=False)
    lines.rows[which] = np.take_along_axis(all_rows, order[:, :width], axis=1)
    lines.scores[which] = in_order[:, :width]
    lines.tied[which] = np.take_along_axis(tied, order[:, :width], axis=1)
    return undecided


def _starts(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.asarray(np.cumsum(counts) - counts)


def _beside(known: NDArray[Any], more: int, none: Any) -> NDArray[Any]:
    """The same lines with room for more."""
    return np.pad(known, ((0, 0), (0, more)), constant_values=none)


def _near_new(
    metric: Metric, scores: NDArray[np.float64], new: NDArray[np.bool_], dimension: int
) -> NDArray[np.bool_]:
    """Lines, in order, in which a new score lies too close to the one before or after it."""
    bounds = tolerance(metric, scores, np.ones(1), dimension)
    # Twice the bound: a stored score may be that of a row it ties with, or nearly.
    close = np.abs(np.diff(scores, axis=1)) <= 2 * (bounds[:, 1:] + bounds[:, :-1])
    return np.asarray((close & (new[:, 1:] | new[:, :-1])).any(axis=1))


def has_near(metric: Metric, scores: NDArray[np.float64], dimension: int) -> NDArray[np.bool_]:
    """Lines in which float64 cannot tell some row from the next."""
    bounds = tolerance(metric, scores, np.ones(1), dimension)
    return np.asarray((np.abs(np.diff(scores, axis=1)) <= bounds[:, 1:] + bounds[:, :-1]).any(axis=1))
