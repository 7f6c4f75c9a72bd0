"""Datasets small enough to check by hand or by brute force."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from recallatk.core import Dataset, Metric
from recallatk.datasets.opening import make_corpus, make_queries, open_dataset

if TYPE_CHECKING:
    from numpy.typing import DTypeLike


def tiny_dataset(
    rows: int = 200,
    queries: int = 20,
    dimension: int = 8,
    *,
    metric: Metric | str = Metric.COSINE,
    duplicates: int = 0,
    dtype: DTypeLike = np.float32,
    seed: int = 0,
) -> Dataset:
    """Clustered random vectors with string ids, a category and a size; some rows repeated exactly."""
    random = np.random.default_rng(seed)
    centers = random.normal(size=(5, dimension))
    labels = random.integers(0, 5, rows + queries)
    points = centers[labels] + 0.5 * random.normal(size=(rows + queries, dimension))
    if np.dtype(dtype).kind in "iu":
        points = np.clip(np.rint(points * 20 + 40), 1, 120)
    vectors = points.astype(dtype)
    if duplicates:
        vectors[rows - duplicates : rows] = vectors[random.integers(0, 3, duplicates)]
    metadata = {
        "category": [f"group-{label}" for label in labels[:rows]],
        "size": random.integers(0, 100, rows),
    }
    corpus = make_corpus(vectors[:rows], [f"row-{i}" for i in range(rows)], metadata)
    asked = make_queries(vectors[rows:], [f"query-{i}" for i in range(queries)])
    return open_dataset(corpus, asked, metric=metric)
