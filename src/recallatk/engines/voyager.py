"""voyager: Spotify's graph index, which can keep a value in one byte, in process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.core import Knob, Metric
from recallatk.engines.hnsw_library import HnswLibrary
from recallatk.engines.matrix import float32_matrix
from recallatk.errors import EngineError

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from recallatk.core import Corpus
    from recallatk.engines.base import Filters

_SPACES = {Metric.COSINE: "Cosine", Metric.IP: "InnerProduct", Metric.L2: "Euclidean"}
_STORAGES = {"f32": "Float32", "e4m3": "E4M3", "i8": "Float8"}


class Voyager(HnswLibrary):
    """Index of voyager."""

    name = "voyager"
    family = "voyager"
    distribution = "voyager"
    extra = "voyager"
    build_knobs = (
        *HnswLibrary.build_knobs,
        Knob("storage", default="f32", choices=tuple(_STORAGES), help="i8 takes values from -1 to 1 only"),
    )

    def create(self, corpus: Corpus, metric: Metric, parameters: dict[str, Any]) -> None:
        """An empty index with room for the corpus."""
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

    def add(self, vectors: NDArray[Any], numbers: NDArray[np.int64]) -> None:
        """Insert nodes; voyager makes room by itself."""
        try:
            self.index.add_items(float32_matrix(vectors).copy(), numbers.tolist(), num_threads=self.threads)
        except (RuntimeError, ValueError) as problem:
            raise EngineError(f"voyager cannot take these vectors: {problem}") from problem

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
        count = len(queries)  # without a call in the next line, threads lose no count there
        self.searched += count
        rows: NDArray[np.int64] = found.view(np.int64)
        return rows if possible == k else np.pad(rows, ((0, 0), (0, k - possible)), constant_values=-1)

    def nodes(self) -> int:
        """How many nodes the graph has, deleted ones among them."""
        return int(self.index.num_elements)

    def write(self, file: Path) -> None:
        """Write the graph with its vectors."""
        self.index.save(str(file))

    def read(self, file: Path, corpus: Corpus, metric: Metric) -> None:
        """Read the graph into memory; the file says what it is of."""
        import voyager

        self.index = voyager.Index.load(str(file))

    def size_bytes(self) -> int:
        """The index as voyager would write it."""
        return len(self.index.as_bytes())
