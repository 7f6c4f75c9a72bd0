"""hnswlib: the graph index of the HNSW paper's authors, in process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.core import Corpus, Knob, Metric, blocks
from recallatk.engines.base import Abilities, Constraint, Engine
from recallatk.engines.matrix import float32_matrix
from recallatk.errors import EngineError

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from recallatk.engines.base import Filters


class Hnswlib(Engine):
    """Index of hnswlib, which brings vectors to unit length itself under cosine."""

    name = "hnswlib"
    family = "hnswlib"
    distribution = "hnswlib"
    extra = "hnswlib"
    metrics = frozenset(Metric)
    # It filters by a Python function called for each candidate: that would time the interpreter.
    abilities = Abilities(updates=True, threads=True, deterministic=True, saves=True)
    build_knobs = (
        Knob("M", default=16, low=2, high=256),
        Knob("ef_construction", default=200, low=1, high=5000),
    )
    search_knobs = (Knob("ef", default=64, low=1, high=10_000, effort=True),)
    # Below k it would use k without a word.
    constraints = (Constraint("ef of at least k", ("ef", "k"), lambda ef, k: ef >= k),)

    def __init__(self) -> None:
        self.index: Any = None
        self.threads = 1
        self.rows = self.live = self.searched = 0

    def build(self, corpus: Corpus, metric: Metric, **parameters: int) -> None:
        """Insert every row, block by block."""
        self._create(corpus.dimension, metric)
        self.index.init_index(corpus.rows, **parameters, random_seed=100)
        for _, block in blocks(corpus.vectors):
            self._add(block)

    def _create(self, dimension: int, metric: Metric) -> None:
        import hnswlib

        self.index = hnswlib.Index(str(metric), dimension)
        self.rows = self.live = self.searched = 0

    def _add(self, vectors: NDArray[Any]) -> None:
        numbers = np.arange(self.rows, self.rows + len(vectors))
        self.index.add_items(float32_matrix(vectors), numbers, num_threads=self.threads)
        self.rows += len(vectors)
        self.live += len(vectors)

    def configure(self, **parameters: int) -> None:
        """Set how many candidates a search keeps."""
        self.index.set_ef(parameters["ef"])
        self.searched = 0

    def search(self, queries: NDArray[Any], k: int, filters: Filters = None) -> NDArray[np.int64]:
        """The nearest rows that the walk over the graph found."""
        if filters is not None:
            self.refuse_filters(filters)
        possible = min(k, self.live)
        try:
            found = self.index.knn_query(queries, possible, self.threads)[0]  # float32 is made there
        except RuntimeError as problem:
            # It says nothing of what it did find, and asking again with more ef would measure another ef.
            raise EngineError(
                f"hnswlib found fewer than {possible} rows for a query at ef = {self.index.ef}: "
                "raise ef, or M where parts of the graph cannot be reached"
            ) from problem
        self.searched += len(queries)
        rows: NDArray[np.int64] = found.view(np.int64)
        return rows if possible == k else np.pad(rows, ((0, 0), (0, k - possible)), constant_values=-1)

    def exercised(self) -> str:
        """The graph, and how many walks there were; hnswlib does not count comparisons for Python."""
        if self.index is None or not self.searched:
            raise EngineError("hnswlib: no search went through the graph since it was configured")
        return (
            f"graph of {self.index.element_count:,} nodes, M = {self.index.M}; "
            f"{self.searched:,} walks at ef = {self.index.ef}"
        )

    def insert(self, vectors: NDArray[Any]) -> None:
        """Add nodes, with as much room as they need."""
        self.index.resize_index(self.rows + len(vectors))
        self._add(vectors)

    def delete(self, rows: NDArray[np.int64]) -> None:
        """Mark nodes as deleted; walks still pass through them."""
        for row in rows.tolist():
            self.index.mark_deleted(row)
        self.live -= len(rows)

    def save(self, folder: Path) -> None:
        """Write the graph with its vectors."""
        self.index.save_index(str(folder / "index.hnswlib"))

    def load(self, folder: Path, corpus: Corpus, metric: Metric, **parameters: int) -> None:
        """Read the graph into memory."""
        self._create(corpus.dimension, metric)
        self.index.load_index(str(folder / "index.hnswlib"))
        self.rows = self.live = corpus.rows

    def size_bytes(self) -> int:
        """The index as hnswlib would write it."""
        return int(self.index.index_file_size())

    def set_threads(self, count: int) -> None:
        """Threads of adding and of batches."""
        self.threads = count

    def close(self) -> None:
        """Let go of the index."""
        self.index = None
