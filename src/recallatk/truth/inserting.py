"""New rows put into the neighbours of many queries at once, where scores alone can say where they belong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from recallatk.pair_scores import tolerance

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recallatk.core import Metric


@dataclass(eq=False)
class Lines:
    """The best rows of some queries, all of which have as many, and whether each ties with the one before."""

    rows: NDArray[np.int64]
    scores: NDArray[np.float64]
    tied: NDArray[np.bool_]


def insert(
    metric: Metric,
    lines: Lines,
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
    starts = np.cumsum(counts) - counts
    for turn in range(int(counts.max())):
        which = np.flatnonzero(counts > turn)
        new = starts[which] + turn
        undecided[which] |= _insert_one(metric, lines, which, rows[new], scores[new], dimension)
    return undecided


def _insert_one(
    metric: Metric,
    lines: Lines,
    which: NDArray[np.int64],
    rows: NDArray[np.int64],
    scores: NDArray[np.float64],
    dimension: int,
) -> NDArray[np.bool_]:
    """One new row for each of some lines."""
    known, new = lines.scores[which], scores[:, None]
    one = np.ones(1)
    slack = tolerance(metric, known, one, dimension) + tolerance(metric, new, one, dimension)
    # Twice the bound: a stored score may be that of a row it ties with, or nearly.
    near = (np.abs(known - new) <= 2 * slack).any(axis=1)
    better = known > new if metric.higher_is_better else known < new
    place = better.sum(axis=1)[:, None]
    columns = np.arange(known.shape[1])
    source = np.broadcast_to(columns, known.shape) - (columns > place)
    here = columns == place
    lines.rows[which] = np.where(here, rows[:, None], np.take_along_axis(lines.rows[which], source, axis=1))
    lines.scores[which] = np.where(here, new, np.take_along_axis(known, source, axis=1))
    lines.tied[which] = np.take_along_axis(lines.tied[which], source, axis=1) & ~here
    return np.asarray(near)


def has_near(metric: Metric, scores: NDArray[np.float64], dimension: int) -> NDArray[np.bool_]:
    """Lines in which float64 cannot tell some row from the next."""
    bounds = tolerance(metric, scores, np.ones(1), dimension)
    return np.asarray((np.abs(np.diff(scores, axis=1)) <= bounds[:, 1:] + bounds[:, :-1]).any(axis=1))
