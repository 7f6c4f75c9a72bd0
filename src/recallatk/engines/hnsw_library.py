"""What hnswlib and voyager share: one graph in this process, its knobs, its numbers and its evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from recallatk.core import Corpus, Knob, Metric, blocks
from recallatk.engines.base import Abilities, Constraint, Engine

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

_COUNTS = "rows.txt"


class HnswLibrary(Engine):
    """A graph whose library brings vectors to unit length itself under cosine, and keeps deleted nodes.

    Subclasses write `create`, `add`, `read`, `write` and `search`.
    """

    metrics = frozenset(Metric)
    abilities = Abilities(
        updates=True, threads=True, deterministic=True, saves=True, clients=True, forks=True
    )
    build_knobs: ClassVar[tuple[Knob, ...]] = (
        Knob("M", default=16, low=2, high=256),
        Knob("ef_construction", default=200, low=1, high=5000, effort=True),
    )
    search_knobs = (Knob("ef", default=64, low=1, high=10_000, effort=True),)
    # Below k, hnswlib would use k without a word, and voyager refuses.
    constraints = (Constraint("ef of at least k", ("ef", "k"), lambda ef, k: ef >= k),)

    def __init__(self) -> None:
        self.index: Any = None
        self.threads = 1
        self.rows = self.live = self.searched = 0
        self.ef = 64

    def create(self, corpus: Corpus, metric: Metric, parameters: dict[str, Any]) -> None:
        """An empty index with room for the corpus."""
        raise NotImplementedError

    def add(self, vectors: NDArray[Any], numbers: NDArray[np.int64]) -> None:
        """Insert nodes under these numbers."""
        raise NotImplementedError

    def nodes(self) -> int:
        """How many nodes the graph has, deleted ones among them."""
        raise NotImplementedError

    def write(self, file: Path) -> None:
        """Write the graph with its vectors."""
        raise NotImplementedError

    def read(self, file: Path, corpus: Corpus, metric: Metric) -> None:
        """Read the graph into memory."""
        raise NotImplementedError

    def build(self, corpus: Corpus, metric: Metric, **parameters: Any) -> None:
        """Insert every row, block by block."""
        self.create(corpus, metric, parameters)
        self.rows = self.live = self.searched = 0
        for _, block in blocks(corpus.vectors):
            self.insert(block)

    def configure(self, **parameters: int) -> None:
        """Set how many candidates a search keeps."""
        self.ef, self.searched = parameters["ef"], 0

    def exercised(self) -> str:
        """The graph, and how many walks there were; comparisons are not counted for Python."""
        if self.index is None or not self.nodes():
            raise self.unbuilt()
        walks = f"; {self.searched:,} walks at ef = {self.ef}" if self.searched else ""
        return f"graph of {self.nodes():,} nodes, M = {self.index.M}{walks}"

    def insert(self, vectors: NDArray[Any]) -> None:
        """Add nodes under the next numbers."""
        self.add(vectors, np.arange(self.rows, self.rows + len(vectors)))
        self.rows += len(vectors)
        self.live += len(vectors)

    def delete(self, rows: NDArray[np.int64]) -> None:
        """Mark nodes as deleted; walks still pass through them."""
        for row in rows.tolist():
            self.index.mark_deleted(row)
        self.live -= len(rows)

    def save(self, folder: Path) -> None:
        """Write the graph, and how many rows there were and are."""
        self.write(folder / f"index.{self.name}")
        (folder / _COUNTS).write_text(f"{self.rows} {self.live}")

    def load(self, folder: Path, corpus: Corpus, metric: Metric, **parameters: Any) -> None:
        """Read both back."""
        self.read(folder / f"index.{self.name}", corpus, metric)
        self.rows, self.live = map(int, (folder / _COUNTS).read_text().split())
        self.searched = 0

    def set_threads(self, count: int) -> None:
        """Threads of adding and of batches."""
        self.threads = count

    def close(self) -> None:
        """Let go of the index."""
        self.index = None
