"""The base of hnswlib and voyager: one in-process graph with its knobs, row numbers and evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from recallatk.adapters.base import Abilities, Constraint, Library
from recallatk.core import Corpus, Knob, Metric, blocks

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray


class HnswLibrary(Library):
    """HNSW graph of a library that normalizes vectors under cosine and keeps deleted nodes.

    Subclasses write `create`, `add`, `nodes` and `nearest`.
    """

    metrics = frozenset(Metric)
    abilities = Abilities(updates=True, threads=True, deterministic=True, clients=True, forks=True)
    build_knobs: ClassVar[tuple[Knob, ...]] = (
        Knob("M", default=16, low=2, high=256),
        Knob("ef_construction", default=200, low=1, high=5000, effort=True),
    )
    search_knobs = (Knob("ef", default=64, low=1, high=10_000, effort=True),)
    # With ef below k, hnswlib silently uses k, and voyager fails.
    constraints = (Constraint("ef of at least k", ("ef", "k"), lambda ef, k: ef >= k),)
    live = 0
    """Rows that are not deleted."""

    def create(self, corpus: Corpus, metric: Metric, parameters: dict[str, Any]) -> None:
        """Create an empty index with capacity for the corpus."""
        raise NotImplementedError

    def add(self, vectors: NDArray[Any], numbers: NDArray[np.int64]) -> None:
        """Insert nodes under these numbers."""
        raise NotImplementedError

    def nodes(self) -> int:
        """The number of nodes in the graph, including deleted ones."""
        raise NotImplementedError

    def build(self, corpus: Corpus, metric: Metric, **parameters: Any) -> None:
        """Insert every row, block by block."""
        self.close()
        self.create(corpus, metric, parameters)
        self.live = 0
        for _, block in blocks(corpus.vectors):
            self.insert(block)

    def held(self) -> str:
        """The graph."""
        if not self.nodes():
            raise self.unbuilt()
        return f"graph of {self.nodes():,} nodes, M = {self.index.M}"

    def work(self) -> str:
        """The number of walks; the Python API does not count comparisons."""
        return f"{self.searched:,} walks at ef = {self.settings['ef']}"

    def insert(self, vectors: NDArray[Any], metadata: pa.Table | None = None) -> None:
        """Add nodes under the next numbers."""
        self.add(vectors, self.next_numbers(len(vectors)))
        self.rows += len(vectors)
        self.live += len(vectors)

    def delete(self, rows: NDArray[np.int64]) -> None:
        """Mark nodes as deleted; walks still pass through them."""
        for row in rows.tolist():
            self.index.mark_deleted(row)
        self.live -= len(rows)
