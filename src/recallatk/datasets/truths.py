"""Ground truth that came with a file: somebody else's, so it is marked imported and not certified."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.core import Metric, Origin, Truth
from recallatk.errors import BadValueError, FormatError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recallatk.core import Vectors


def matrix_truth(
    neighbors: Vectors,
    distances: Vectors | None,
    metric: Metric | None,
    where: str,
    *,
    squared: bool = False,
) -> Truth | None:
    """Corpus rows with distances beside them, as other tools store them; None for other matrices.

    Distances become scores only under a stated metric: another system's numbers do not say what
    they are. `squared` says that l2 distances are squared.
    """
    if neighbors.dtype.kind not in "iu" or neighbors.dtype.itemsize < 4:
        return None
    rows = neighbors.read(0, neighbors.shape[0]).astype(np.int64)
    scores = None
    if distances is not None and metric is not None:
        scores = as_scores(distances)
        if metric is Metric.L2 and squared:
            scores = np.sqrt(np.maximum(scores, 0.0))
    return imported(rows, scores, metric, where)


def imported(
    rows: NDArray[np.int64], scores: NDArray[np.float64] | None, metric: Metric | None, where: str
) -> Truth:
    """A truth from somebody else's rows and scores, with its padding checked."""
    if rows.size == 0:
        raise FormatError(where, "no neighbours", "at least one query with one neighbour")
    check_padding(rows, where)
    if scores is not None:
        scores = np.where(rows < 0, np.nan, scores)
        wrong = (rows >= 0) & ~np.isfinite(scores)
        if wrong.any():
            row, place = (int(i) for i in np.argwhere(wrong)[0])
            raise BadValueError(
                where,
                f"the distance of neighbour {place} is {scores[row, place]}",
                "finite distances",
                row=row,
            )
    return Truth(rows, scores, None, metric, Origin.IMPORTED)


def as_scores(distances: Vectors) -> NDArray[np.float64]:
    """All distances of a file as float64."""
    with np.errstate(invalid="ignore"):  # a signalling NaN is refused later, with its row
        return distances.read(0, distances.shape[0]).astype(np.float64)


def check_padding(rows: NDArray[Any], where: str) -> None:
    """Refuse row numbers below -1, and neighbours that come after padding."""
    wrong = (rows < -1).any(axis=1) | (np.diff((rows < 0).astype(np.int8), axis=1) < 0).any(axis=1)
    if wrong.any():
        raise FormatError(
            where,
            "a neighbour is below -1 or stands after padding",
            "row numbers, then -1 where there are no more",
            row=int(np.argmax(wrong)),
        )
