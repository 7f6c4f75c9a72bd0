"""The vectors behind a truth and behind answers: whether they lie as they are said to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from recallatk.audit.geometry import pair_nearness
from recallatk.core import Metric
from recallatk.datasets.matrix import gather

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recallatk.core import Dataset

    Floats = NDArray[np.float64]

# Float32 engines and other people's files round; what differs by less says nothing of the metric.
ROUNDING = 1e-5


def vectors_of(dataset: Dataset, rows: NDArray[np.int64]) -> Floats:
    """(queries, k, dimension) vectors of named rows; whatever is no row has the vector of row 0."""
    known = np.where((rows >= 0) & (rows < dataset.corpus.rows), rows, 0)
    distinct, inverse = np.unique(known, return_inverse=True)
    array = gather(dataset.corpus.vectors, distinct).array.astype(np.float64)
    return np.asarray(array[inverse.reshape(rows.shape)])


def out_of_order(metric: Metric, queries: Floats, vectors: Floats, named: NDArray[np.bool_]) -> float | None:
    """The share of neighbouring pairs in which the second is nearer than the first; None without pairs."""
    near = pair_nearness(metric, queries, vectors)
    both = named[:, 1:] & named[:, :-1]
    if not both.any():
        return None
    slack = ROUNDING * np.maximum(np.abs(near[:, 1:]), np.abs(near[:, :-1]))
    return float((near[:, 1:] > near[:, :-1] + slack)[both].mean())


def better_metric(
    metric: Metric, queries: Floats, vectors: Floats, named: NDArray[np.bool_], most: float
) -> tuple[Metric, float, float] | None:
    """Another metric that lists are ordered by, with the shares out of order by this one and by that one.

    None unless more than `most` of the pairs are out of order by this metric, and at the most a fifth as many
    by the other.
    """
    own = out_of_order(metric, queries, vectors, named)
    if own is None or own <= most:
        return None
    others = [
        (found, other)
        for other in Metric
        if other is not metric and (found := out_of_order(other, queries, vectors, named)) is not None
    ]
    found, other = min(others, key=lambda each: each[0])
    return (other, own, found) if found <= own / 5 else None
