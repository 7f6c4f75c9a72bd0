"""hnswlib: the graph index of the HNSW paper's authors, in process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.engines.hnsw_library import HnswLibrary
from recallatk.engines.matrix import float32_matrix
from recallatk.errors import EngineError

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from recallatk.core import Corpus, Metric
    from recallatk.engines.base import Filters


class Hnswlib(HnswLibrary):
    """Index of hnswlib."""

    name = "hnswlib"
    family = "hnswlib"
    distribution = "hnswlib"
    extra = "hnswlib"
    # It has no filters: they would be a Python function for each candidate, which times the interpreter.

    def create(self, corpus: Corpus, metric: Metric, parameters: dict[str, Any]) -> None:
        """An empty index with room for the corpus."""
        self.index = _index(corpus, metric)
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
        self.index.set_ef(self.ef)

    def search(self, queries: NDArray[Any], k: int, filters: Filters = None) -> NDArray[np.int64]:
        """The nearest rows that the walk over the graph found."""
        if filters is not None:
            self.refuse_filters(filters)
        possible = k if k <= self.live else self.live  # noqa: FURB136 - this is timed, and a call takes longer
        try:
            found = self.index.knn_query(queries, possible, self.threads)[0]  # float32 is made there
        except RuntimeError as problem:
            # It says nothing of what it did find, and asking again with more ef would measure another ef.
            raise EngineError(
                f"hnswlib found fewer than {possible} rows for a query at ef = {self.index.ef}: "
                "raise ef, or M where parts of the graph cannot be reached"
            ) from problem
        count = len(queries)  # without a call in the next line, threads lose no count there
        self.searched += count
        rows: NDArray[np.int64] = found.view(np.int64)
        return rows if possible == k else np.pad(rows, ((0, 0), (0, k - possible)), constant_values=-1)

    def nodes(self) -> int:
        """How many nodes the graph has, deleted ones among them."""
        return int(self.index.element_count)

    def write(self, file: Path) -> None:
        """Write the graph with its vectors."""
        self.index.save_index(str(file))

    def read(self, file: Path, corpus: Corpus, metric: Metric) -> None:
        """Read the graph into memory."""
        self.index = _index(corpus, metric)
        self.index.load_index(str(file))

    def size_bytes(self) -> int:
        """The index as hnswlib would write it."""
        return int(self.index.index_file_size())


def _index(corpus: Corpus, metric: Metric) -> Any:
    import hnswlib

    return hnswlib.Index(str(metric), corpus.dimension)
