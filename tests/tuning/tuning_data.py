"""A small corpus with queries, for the tests of tuning."""

import numpy as np

from recallatk.core import Dataset, Metric
from recallatk.datasets.opening import make_corpus, make_queries


def small_data(rows=600, queries=600, dimension=6, seed=0):
    """A corpus and queries, each query with a category."""
    random = np.random.default_rng(seed)
    corpus = make_corpus(random.normal(size=(rows, dimension)).astype(np.float32))
    metadata = {"category": ["even" if row % 2 == 0 else "odd" for row in range(queries)]}
    asked = make_queries(random.normal(size=(queries, dimension)).astype(np.float32), metadata=metadata)
    return Dataset(corpus, asked, Metric.L2, name="small")
