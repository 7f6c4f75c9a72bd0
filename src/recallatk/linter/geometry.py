"""Vectors that rules look at: samples of production queries, and the rows that lists name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from recallatk.analysis.geometry import distances
from recallatk.core import Metric
from recallatk.datasets.matrix import gather

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    from recallatk.core import Dataset
    from recallatk.linter.evidence import Evidence

# More queries would cost more without a better estimate of a 1 % share.
MOST_QUERIES = 2_000
_NEAREST = 20
_MOST = 500


def production_vectors(evidence: Evidence) -> Floats | None:
    """A sample of production queries; None if their dimension differs from the corpus."""
    sample, dataset = evidence.production, evidence.dataset
    if sample is None or dataset is None or sample.dimension != dataset.corpus.dimension:
        return None
    rows = np.sort(np.random.default_rng(0).permutation(sample.rows)[:MOST_QUERIES])
    return np.asarray(sample.vectors.read(0, sample.rows)[rows], np.float64)


def nearest_distances(evidence: Evidence) -> tuple[Floats, Floats] | None:
    """Ascending distances to the nearest sampled rows, for benchmark queries and for production queries.

    None for inner product, which has no distances, and without production queries.
    """
    dataset, looked = evidence.dataset, evidence.survey
    theirs = production_vectors(evidence)
    if dataset is None or looked is None or theirs is None or dataset.metric is Metric.IP:
        return None
    count = min(_NEAREST, len(looked.sample))

    def nearest(queries: Floats) -> Floats:
        found = distances(dataset.metric, queries, looked.sample)
        return np.sort(np.partition(found, count - 1, axis=1)[:, :count], axis=1)

    return nearest(looked.queries[:_MOST]), nearest(theirs[:_MOST])


def vectors_of(dataset: Dataset, rows: NDArray[np.int64]) -> Floats:
    """(queries, k, dimension) vectors of listed rows; invalid rows get the vector of row 0."""
    known = np.where((rows >= 0) & (rows < dataset.corpus.rows), rows, 0)
    distinct, inverse = np.unique(known, return_inverse=True)
    array = gather(dataset.corpus.vectors, distinct).array.astype(np.float64)
    return np.asarray(array[inverse.reshape(rows.shape)])
