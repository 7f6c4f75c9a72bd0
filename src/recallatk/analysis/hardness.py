"""How hard a query is, from the scores of its true neighbours alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from recallatk.analysis.distances import cosine_distances
from recallatk.core import Metric

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recallatk.core import Truth


def intrinsic_dimension(truth: Truth) -> NDArray[np.float64] | None:
    """The local intrinsic dimension around each query, by maximum likelihood over its neighbours.

    -1 / mean(ln(r_i / r_k)) (Levina and Bickel 2004; Amsaleg and others 2015): the more neighbours crowd at
    the same distance, the higher, and the harder to tell them apart. NaN where fewer than two distances
    above 0 are known or all are the same; None where scores are no distances.
    """
    distances = _distances(truth)
    if distances is None:
        return None
    farthest = _last(distances)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(distances / farthest[:, None])
        usable = np.isfinite(logs)
        counts = usable.sum(axis=1)
        means = np.where(usable, logs, 0.0).sum(axis=1) / counts
        return np.where((counts >= 2) & (means < 0), -1.0 / means, np.nan)


def contrast(truth: Truth) -> NDArray[np.float64] | None:
    """The distance of the last true neighbour over that of the nearest: the closer to 1, the harder.

    NaN where the nearest is at distance 0; None where scores are no distances.
    """
    distances = _distances(truth)
    if distances is None or distances.shape[1] < 2:
        return None
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = _last(distances) / distances[:, 0]
    return np.where(np.isfinite(ratio), ratio, np.nan)


def _distances(truth: Truth) -> NDArray[np.float64] | None:
    if truth.scores is None or truth.metric not in (Metric.L2, Metric.COSINE):
        return None
    if truth.metric is Metric.L2:
        return truth.scores
    # Between unit vectors.
    return np.asarray(np.sqrt(2.0 * cosine_distances(truth.scores)))


def _last(distances: NDArray[np.float64]) -> NDArray[np.float64]:
    counts = (~np.isnan(distances)).sum(axis=1)
    found = distances[np.arange(len(distances)), np.maximum(counts - 1, 0)]
    return np.asarray(np.where(counts > 0, found, np.nan))
