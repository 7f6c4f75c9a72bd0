"""Ties: runs of scores that float64 cannot tell apart become one score, in the order of their rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recallatk.core import Metric


def canonical(
    metric: Metric,
    rows: NDArray[np.int64],
    scores: NDArray[np.float64],
    tolerances: NDArray[np.float64],
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """One query's rows by (score, row), every run of undecidable scores sharing its best score."""
    sign = -1.0 if metric.higher_is_better else 1.0
    order = np.lexsort((rows, sign * scores))
    rows, scores, tolerances = rows[order], scores[order], tolerances[order]
    if not len(rows):
        return rows, scores
    apart = np.abs(np.diff(scores)) > tolerances[1:] + tolerances[:-1]
    run = np.concatenate([[0], np.cumsum(apart)])
    first = np.concatenate([[0], np.flatnonzero(apart) + 1])
    # The runs keep their order and inside a run the row number decides.
    return rows[np.lexsort((rows, run))], scores[first][run]
