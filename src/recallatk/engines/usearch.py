"""usearch: a graph index that can keep its vectors in fewer bits, in process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.core import Corpus, Knob, Metric, blocks
from recallatk.engines.base import Abilities, Engine
from recallatk.engines.matrix import float32_matrix

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from recallatk.engines.base import Filters

_NUMBERED = "numbered.txt"
_METRICS = {Metric.COSINE: "cos", Metric.IP: "ip", Metric.L2: "l2sq"}


class Usearch(Engine):
    """Index of usearch; its Python interface takes no filters."""

    name = "usearch"
    family = "usearch"
    distribution = "usearch"
    metrics = frozenset(Metric)
    abilities = Abilities(
        updates=True,
        threads=True,
        deterministic=True,
        saves=True,
        exact_search=True,
        clients=True,
        forks=True,
    )
    build_knobs = (
        Knob("connectivity", default=16, low=2, high=256, help="neighbours of a node"),
        Knob("expansion_add", default=128, low=1, high=5000, effort=True, help="candidates while it builds"),
        Knob(
            "storage",
            default="f32",
            choices=("f32", "f16", "bf16", "i8", "b1"),
            help="how a value is kept; i8 keeps directions only, b1 only signs, compared by Hamming distance",
        ),
    )
    search_knobs = (Knob("expansion", default=64, low=1, high=10_000, effort=True),)

    def __init__(self) -> None:
        self.index: Any = None
        self.threads = 1
        self.signs = False
        self.rows = self.searched = self.compared = 0

    def build(self, corpus: Corpus, metric: Metric, **parameters: Any) -> None:
        """Insert every row, block by block."""
        self._create(corpus.dimension, metric, parameters)
        for _, block in blocks(corpus.vectors):
            self.insert(block)

    def _create(self, dimension: int, metric: Metric, parameters: dict[str, Any]) -> None:
        from usearch.index import Index

        self.signs = parameters["storage"] == "b1"
        self.index = Index(
            # usearch packs eight signs a byte, and wants whole bytes.
            ndim=-(-dimension // 8) * 8 if self.signs else dimension,
            metric="hamming" if self.signs else _METRICS[metric],
            dtype=parameters["storage"],
            connectivity=parameters["connectivity"],
            expansion_add=parameters["expansion_add"],
        )
        self.rows = self.searched = self.compared = 0

    def configure(self, **parameters: int) -> None:
        """Set how many candidates a search keeps."""
        self.index.expansion_search = parameters["expansion"]
        self.searched = self.compared = 0

    def search(self, queries: NDArray[Any], k: int, filters: Filters = None) -> NDArray[np.int64]:
        """The nearest rows that the walk over the graph found."""
        if filters is not None:
            self.refuse_filters(filters)
        found = self.index.search(self._kept(queries), k, threads=self.threads)
        count = len(queries)  # without a call in the next lines, threads lose no count there
        self.searched += count
        self.compared += found.computed_distances
        return _rows(found, k)

    def exact_search(self, queries: NDArray[Any], k: int, filters: Filters = None) -> NDArray[np.int64]:
        """Every vector as it is stored, compared with every query."""
        self.refuse_filters(filters)
        return _rows(self.index.search(self._kept(queries), k, threads=self.threads, exact=True), k)

    def _kept(self, vectors: NDArray[Any]) -> NDArray[Any]:
        return np.packbits(vectors > 0, axis=1) if self.signs else float32_matrix(vectors)

    def exercised(self) -> str:
        """How much of the corpus the walks compared, which a scan could not show."""
        if self.index is None or not len(self.index):
            raise self.unbuilt()
        graph = f"graph of {len(self.index):,} nodes, {self.index.max_level + 1} levels"
        if not self.searched:
            return graph
        return f"{graph}; {self.compared / self.searched:,.0f} comparisons a query"

    def insert(self, vectors: NDArray[Any]) -> None:
        """Add nodes under the next numbers."""
        keys = np.arange(self.rows, self.rows + len(vectors), dtype=np.uint64)
        self.index.add(keys, self._kept(vectors), threads=self.threads)
        self.rows += len(vectors)

    def delete(self, rows: NDArray[np.int64]) -> None:
        """Mark nodes as removed; walks still pass through them."""
        self.index.remove(np.asarray(rows, np.uint64))

    def save(self, folder: Path) -> None:
        """Write the graph with its vectors, and the number of the next row."""
        self.index.save(str(folder / "index.usearch"))
        (folder / _NUMBERED).write_text(str(self.rows))

    def load(self, folder: Path, corpus: Corpus, metric: Metric, **parameters: Any) -> None:
        """Read both into memory."""
        self._create(corpus.dimension, metric, parameters)
        self.index.load(str(folder / "index.usearch"))
        self.rows = int((folder / _NUMBERED).read_text())

    def size_bytes(self) -> int:
        """The index as usearch would write it."""
        return int(self.index.serialized_length)

    def set_threads(self, count: int) -> None:
        """Threads of adding and of batches."""
        self.threads = count

    def close(self) -> None:
        """Let go of the index."""
        self.index = None


def _rows(found: Any, k: int) -> NDArray[np.int64]:
    """One query's matches are cut where they end; those of several are filled up with key 0."""
    keys: NDArray[np.int64] = found.keys.view(np.int64)
    if keys.ndim == 1:
        if len(keys) < k:
            keys = np.concatenate([keys, np.full(k - len(keys), -1)])
        return keys[None]
    if found.counts.min() < k:
        keys[np.arange(k) >= found.counts[:, None]] = -1
    return keys
