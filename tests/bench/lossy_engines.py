"""Engines that lose recall in one known way, for the tests of explanations; installed as a plugin."""

import numpy as np

from recallatk.adapters.batch import QueryBatch, float32_matrix
from recallatk.adapters.faiss_graphs import FaissHnsw
from recallatk.adapters.faiss_lists import FaissIvfFlat
from recallatk.adapters.hnswlib import Hnswlib
from recallatk.core import blocks

# Every fifth row is dropped.
DROPPED = 5


class DroppingLists(FaissIvfFlat):
    """Inverted lists that leave out rows when they are filled."""

    name = "dropping-lists"

    def fill(self, corpus):
        for start, block in blocks(corpus.vectors):
            numbers = np.arange(start, start + len(block))
            kept = numbers % DROPPED != 0
            self.index.add_with_ids(float32_matrix(block[kept], unit=self.unit), numbers[kept])
        self.rows = corpus.rows


class DroppingGraph(Hnswlib):
    """A graph that leaves out rows when it is built, and cannot say which it has."""

    name = "dropping-graph"

    def add(self, vectors, numbers):
        kept = numbers % DROPPED != 0
        super().add(vectors[kept], numbers[kept])

    def holds(self, rows):
        return None


class PostFiltering:
    """Filters what a search without the filter returned."""

    def nearest(self, batch, k):
        found = super().nearest(QueryBatch(batch.vectors), 2 * k)
        rows = np.full((batch.count, k), -1, np.int64)
        for line, condition in enumerate(batch.filters or [None] * batch.count):
            passed = found[line][found[line] >= 0]
            if condition is not None:
                passed = passed[passed % 8 == condition.value]
            rows[line, : min(k, len(passed))] = passed[:k]
        return rows


class PostFilteringLists(PostFiltering, FaissIvfFlat):
    name = "post-filtering-lists"


class PostFilteringGraph(PostFiltering, FaissHnsw):
    name = "post-filtering-graph"
