"""The nearest sampled rows of the benchmark's queries and of production's, the same for both."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from recallatk.audit.geometry import distances
from recallatk.core import Metric

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recallatk.audit.evidence import Evidence

    Floats = NDArray[np.float64]

# More queries than this say no more about a share of 1 %, and cost more.
MOST_QUERIES = 2_000
_NEAREST = 20
_MOST = 500


def production_vectors(evidence: Evidence) -> Floats | None:
    """Some queries of production; None where they are of another dimension than the corpus."""
    sample, dataset = evidence.production, evidence.dataset
    if sample is None or dataset is None or sample.dimension != dataset.corpus.dimension:
        return None
    rows = np.sort(np.random.default_rng(0).permutation(sample.rows)[:MOST_QUERIES])
    return np.asarray(sample.vectors.read(0, sample.rows)[rows], np.float64)


def nearest_distances(evidence: Evidence) -> tuple[Floats, Floats] | None:
    """For queries of the benchmark and of production, the distances of their nearest sampled rows, ascending.

    None under inner product, which has no distances, and where there is no production to compare with.
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
