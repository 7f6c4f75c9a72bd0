"""hnswlib: the graph index of the HNSW paper's authors, in process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.adapters.batch import QueryBatch, float32_matrix
from recallatk.adapters.hnsw_library import HnswLibrary
from recallatk.adapters.memory_model import FLOAT_BYTES, Content, graph_content
from recallatk.adapters.snippet import INPUTS, Setting, lines
from recallatk.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from recallatk.core import Corpus, Metric

# One lock for each of 65,536 labels; for each row a lock, a place in its table and two pointers.
_LABEL_LOCKS, _ROW_BYTES = 65_536 * 40, 90


class Hnswlib(HnswLibrary):
    """Index of hnswlib."""

    name = "hnswlib"
    family = "hnswlib"
    distribution = "hnswlib"
    extra = "hnswlib"
    # It has no filters: they would be a Python function for each candidate, which times the interpreter.

    def create(self, corpus: Corpus, metric: Metric, parameters: dict[str, Any]) -> None:
        """An empty index with room for the corpus."""
        import hnswlib

        self.index = hnswlib.Index(str(metric), corpus.dimension)
        self.index.init_index(corpus.rows, **parameters, random_seed=100)

    def add(self, vectors: NDArray[Any], numbers: NDArray[np.int64]) -> None:
        """Insert nodes, with as much room as they need."""
        needed = self.rows + len(vectors)
        if needed > self.index.max_elements:
            self.index.resize_index(needed)
        self.index.add_items(float32_matrix(vectors), numbers, num_threads=self.threads)

    def configure(self, **parameters: int) -> None:
        """Set how many candidates a search keeps."""
        super().configure(**parameters)
        self.index.set_ef(parameters["ef"])

    def nearest(self, batch: QueryBatch, k: int) -> NDArray[np.int64]:
        """The nearest rows that the walk over the graph found."""
        possible = k if k <= self.live else self.live  # noqa: FURB136 - this is timed, and a call takes longer
        try:
            found = self.index.knn_query(batch.vectors, possible, self.threads)[0]  # float32 is made there
        except RuntimeError as problem:
            # It says nothing of what it did find, and asking again with more ef would measure another ef.
            raise EngineError(
                f"hnswlib found fewer than {possible} rows for a query at ef = {self.index.ef}: "
                "raise ef, or M where parts of the graph cannot be reached"
            ) from problem
        rows: NDArray[np.int64] = found.view(np.int64)
        return rows

    def nodes(self) -> int:
        """The number of nodes in the graph, deleted ones among them."""
        return int(self.index.element_count)

    def size_bytes(self) -> int:
        """The index as hnswlib would write it."""
        return int(self.index.index_file_size())

    @classmethod
    def content(cls, build: Mapping[str, Any], dimension: int, metric: Metric) -> Content:
        """The graph with its vectors, and the locks."""
        return graph_content(build["M"], FLOAT_BYTES * dimension, _ROW_BYTES, _LABEL_LOCKS)

    @classmethod
    def snippet(cls, setting: Setting) -> str:
        """Add every row, set ef, search."""
        build = setting.build
        return lines(
            "import hnswlib",
            "",
            INPUTS,
            f'index = hnswlib.Index(space="{setting.metric}", dim=vectors.shape[1])',
            f"index.init_index(len(vectors), M={build['M']}, ef_construction={build['ef_construction']})",
            "index.add_items(vectors)",
            "",
            f"index.set_ef({setting.search['ef']})",
            f"found, distances = index.knn_query(queries, k={setting.k})",
        )
