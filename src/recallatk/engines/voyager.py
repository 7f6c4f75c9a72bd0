"""voyager: Spotify's graph index, which can keep a value in one byte, in process."""

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

_SPACES = {Metric.COSINE: "Cosine", Metric.IP: "InnerProduct", Metric.L2: "Euclidean"}
_STORAGES = {"f32": "Float32", "e4m3": "E4M3", "i8": "Float8"}


class Voyager(Engine):
    """Index of voyager, which brings vectors to unit length itself under cosine."""

    name = "voyager"
    family = "voyager"
    distribution = "voyager"
    extra = "voyager"
    metrics = frozenset(Metric)
    abilities = Abilities(updates=True, threads=True, deterministic=True, saves=True)
    build_knobs = (
        Knob("M", default=16, low=2, high=256),
        Knob("ef_construction", default=200, low=1, high=5000),
        Knob("storage", default="f32", choices=tuple(_STORAGES), help="i8 takes values from -1 to 1 only"),
    )
    search_knobs = (Knob("ef", default=64, low=1, high=10_000, effort=True),)
    constraints = (Constraint("ef of at least k", ("ef", "k"), lambda ef, k: ef >= k),)

    def __init__(self) -> None:
        self.index: Any = None
        self.threads = 1
        self.live = self.searched = 0
        self.ef = 64

    def build(self, corpus: Corpus, metric: Metric, **parameters: Any) -> None:
        """Insert every row, block by block."""
        import voyager

        self.index = voyager.Index(
            getattr(voyager.Space, _SPACES[metric]),
            corpus.dimension,
            M=parameters["M"],
            ef_construction=parameters["ef_construction"],
            random_seed=1,
            max_elements=corpus.rows,
            storage_data_type=getattr(voyager.StorageDataType, _STORAGES[parameters["storage"]]),
        )
        self.live = self.searched = 0
        for _, block in blocks(corpus.vectors):
            self.insert(block)

    def configure(self, **parameters: int) -> None:
        """Set how many candidates a search keeps."""
        self.ef = parameters["ef"]
        self.searched = 0

    def search(self, queries: NDArray[Any], k: int, filters: Filters = None) -> NDArray[np.int64]:
        """The nearest rows that the walk over the graph found."""
        if filters is not None:
            self.refuse_filters(filters)
        possible = min(k, self.live)
        asked = float32_matrix(queries)
        if not asked.flags.writeable:  # voyager refuses arrays that it could not write to
            asked = asked.copy()
        try:
            found = self.index.query(asked, possible, self.threads, self.ef)[0]
        except Exception as problem:  # its error of too few answers is a bare Exception
            raise EngineError(f"voyager at k = {possible} and ef = {self.ef}: {problem}") from problem
        self.searched += len(queries)
        rows: NDArray[np.int64] = found.view(np.int64)
        return rows if possible == k else np.pad(rows, ((0, 0), (0, k - possible)), constant_values=-1)

    def exercised(self) -> str:
        """The graph, and how many walks there were; voyager does not count comparisons."""
        if self.index is None or not self.searched:
            raise EngineError("voyager: no search went through the graph since it was configured")
        return (
            f"graph of {self.index.num_elements:,} nodes, M = {self.index.M}; "
            f"{self.searched:,} walks at ef = {self.ef}"
        )

    def insert(self, vectors: NDArray[Any]) -> None:
        """Add nodes under the next numbers."""
        start = self.index.num_elements
        numbers = list(range(start, start + len(vectors)))
        try:
            self.index.add_items(float32_matrix(vectors).copy(), numbers, num_threads=self.threads)
        except (RuntimeError, ValueError) as problem:
            raise EngineError(f"voyager cannot take these vectors: {problem}") from problem
        self.live += len(vectors)

    def delete(self, rows: NDArray[np.int64]) -> None:
        """Mark nodes as deleted; walks still pass through them."""
        for row in rows.tolist():
            self.index.mark_deleted(row)
        self.live -= len(rows)

    def save(self, folder: Path) -> None:
        """Write the graph with its vectors."""
        self.index.save(str(folder / "index.voyager"))

    def load(self, folder: Path, corpus: Corpus, metric: Metric, **parameters: Any) -> None:
        """Read the graph into memory; the file says what it is of."""
        import voyager

        self.index = voyager.Index.load(str(folder / "index.voyager"))
        self.live, self.searched = corpus.rows, 0

    def size_bytes(self) -> int:
        """The index as voyager would write it."""
        return len(self.index.as_bytes())

    def set_threads(self, count: int) -> None:
        """Threads of adding and of batches."""
        self.threads = count

    def close(self) -> None:
        """Let go of the index."""
        self.index = None
