"""usearch: an HNSW graph with optional low-precision storage, in process."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from recallatk.adapters.base import Abilities, Library
from recallatk.adapters.batch import QueryBatch, float32_matrix
from recallatk.adapters.live import IndexFacts, LiveIndex
from recallatk.adapters.memory_model import Content, graph_content
from recallatk.adapters.snippet import INPUTS, Setting, lines
from recallatk.core import Corpus, Knob, Metric, blocks
from recallatk.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa
    from numpy.typing import NDArray

_METRICS = {Metric.COSINE: "cos", Metric.IP: "ip", Metric.L2: "l2sq"}
# Bytes of a stored value.
_VALUE_BYTES = {"f32": 4.0, "f16": 2.0, "bf16": 2.0, "i8": 1.0, "b1": 0.125}
# Per row: an entry of the key table, a pointer, and the allocator's rounding.
_ROW_BYTES = 110


class Usearch(Library):
    """usearch.Index: an HNSW graph; no filters in its Python API."""

    name = "usearch"
    family = "usearch"
    distribution = "usearch"
    extra = "usearch"
    metrics = frozenset(Metric)
    abilities = Abilities(
        updates=True, threads=True, deterministic=True, exact_search=True, clients=True, forks=True
    )
    build_knobs = (
        Knob("connectivity", default=16, low=2, high=256, help="neighbors per node"),
        Knob("expansion_add", default=128, low=1, high=5000, effort=True, help="candidates during the build"),
        Knob(
            "storage",
            default="f32",
            choices=("f32", "f16", "bf16", "i8", "b1"),
            help="storage type; i8 keeps only directions, b1 only signs, compared by Hamming distance",
        ),
    )
    search_knobs = (Knob("expansion", default=64, low=1, high=10_000, effort=True),)
    whole_vectors = ("storage", ("f32",))
    signs = False
    compared = 0

    def build(self, corpus: Corpus, metric: Metric, **parameters: Any) -> None:
        """Insert every row, block by block."""
        from usearch.index import Index

        self.close()
        self.signs = parameters["storage"] == "b1"
        self.index = Index(
            # usearch packs eight signs into a byte, and the dimension must fill whole bytes.
            ndim=-(-corpus.dimension // 8) * 8 if self.signs else corpus.dimension,
            metric="hamming" if self.signs else _METRICS[metric],
            dtype=parameters["storage"],
            connectivity=parameters["connectivity"],
            expansion_add=parameters["expansion_add"],
        )
        for _, block in blocks(corpus.vectors):
            self.insert(block)

    def configure(self, **parameters: int) -> None:
        """Set the number of candidates that a search keeps."""
        super().configure(**parameters)
        self.index.expansion_search, self.compared = parameters["expansion"], 0

    def nearest(self, batch: QueryBatch, k: int) -> NDArray[np.int64]:
        """Nearest rows found by walking the graph."""
        found = self.index.search(self._kept(batch.vectors), k, threads=self.threads)
        compared = found.computed_distances
        self.compared += compared  # free of calls, so that += stays atomic under the GIL
        return _rows(found, k)

    def exact_search(self, batch: QueryBatch, k: int) -> NDArray[np.int64]:
        """Compare every stored vector with every query."""
        self.refuse_filters(batch)
        return _rows(self.index.search(self._kept(batch.vectors), k, threads=self.threads, exact=True), k)

    def _kept(self, vectors: NDArray[Any]) -> NDArray[Any]:
        return np.packbits(vectors > 0, axis=1) if self.signs else float32_matrix(vectors)

    def held(self) -> str:
        """The graph."""
        if not len(self.index):
            raise self.unbuilt()
        return f"graph of {len(self.index):,} nodes, {self.index.max_level + 1} levels"

    def work(self) -> str:
        """The share of the corpus that the walks compared; a scan would compare all of it."""
        return f"{self.compared / self.searched:,.0f} comparisons per query"

    def insert(self, vectors: NDArray[Any], metadata: pa.Table | None = None) -> None:
        """Add nodes under the next numbers."""
        keys = self.next_numbers(len(vectors)).astype(np.uint64)
        self.index.add(keys, self._kept(vectors), threads=self.threads)
        self.rows += len(vectors)

    def delete(self, rows: NDArray[np.int64]) -> None:
        """Mark nodes as removed; walks still pass through them."""
        self.index.remove(np.asarray(rows, np.uint64))

    def holds(self, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """The rows that are nodes, whether or not a walk reaches them."""
        return np.asarray(self.index.contains(np.asarray(rows, np.uint64)), bool)

    def size_bytes(self) -> int:
        """Size of the serialized index."""
        return int(self.index.serialized_length)

    @classmethod
    def content(cls, build: Mapping[str, Any], dimension: int, metric: Metric) -> Content:
        """Bytes of the graph, with vectors in the build's storage type."""
        return graph_content(build["connectivity"], _VALUE_BYTES[build["storage"]] * dimension, _ROW_BYTES)

    @classmethod
    def snippet(cls, setting: Setting) -> str:
        """Code that adds every row, sets the expansion, and searches."""
        build = setting.build
        signs = build["storage"] == "b1"
        stored, asked = (
            ("np.packbits(vectors > 0, axis=1)", "np.packbits(queries > 0, axis=1)")
            if signs
            else ("vectors", "queries")
        )
        return lines(
            "import numpy as np",
            "from usearch.index import Index",
            "",
            INPUTS,
            "index = Index(",
            f"    ndim={'-(-vectors.shape[1] // 8) * 8' if signs else 'vectors.shape[1]'},",
            f'    metric="{"hamming" if signs else _METRICS[setting.metric]}",',
            f'    dtype="{build["storage"]}",',
            f"    connectivity={build['connectivity']},",
            f"    expansion_add={build['expansion_add']},",
            ")",
            f"index.add(np.arange(len(vectors)), {stored})",
            "",
            f"index.expansion_search = {setting.search['expansion']}",
            f"found = index.search({asked}, {setting.k}).keys",
        )


def _rows(found: Any, k: int) -> NDArray[np.int64]:
    """Pad matches with -1: usearch truncates those of one query and fills those of several with key 0."""
    keys: NDArray[np.int64] = found.keys.view(np.int64)
    if keys.ndim == 1:
        if len(keys) < k:
            keys = np.concatenate([keys, np.full(k - len(keys), -1)])
        return keys[None]
    if found.counts.min() < k:
        keys[np.arange(k) >= found.counts[:, None]] = -1
    return keys


class LiveUsearch(LiveIndex):
    """A `usearch.index.Index`."""

    family = "usearch"
    distribution = "usearch"
    abilities: ClassVar = replace(LiveIndex.abilities, threads=True)
    own_knobs: ClassVar = (Knob("expansion_search", default=64, low=1, high=1_000_000, effort=True),)
    aliases: ClassVar = {"expansion": "expansion_search"}

    def title(self) -> str:
        """The class."""
        return "usearch.Index"

    def facts(self) -> IndexFacts:
        """The metric, dimension, row count and keys."""
        kinds = {"Cos": Metric.COSINE, "IP": Metric.IP, "L2sq": Metric.L2}
        kind = self.index.metric_kind.name
        if kind not in kinds:
            raise EngineError(f"{self.name} has metric {kind}. Accepted: {', '.join(kinds)}")
        keys = np.asarray(self.index.keys).astype(np.int64)
        return IndexFacts(kinds[kind], self.index.ndim, len(self.index), keys)

    def current(self, name: str) -> int:
        """The expansion of the object."""
        return int(self.index.expansion_search)

    def change(self, name: str, value: int) -> None:
        """Set the expansion of the object."""
        self.index.expansion_search = value

    def stored(self, labels: NDArray[np.int64]) -> NDArray[Any]:
        """The vectors of some keys."""
        return np.stack([np.asarray(self.index.get(int(key)), np.float32) for key in labels])

    def ask(self, batch: QueryBatch, k: int) -> NDArray[np.int64]:
        """One search of the graph."""
        return _rows(self.index.search(batch.vectors, k, threads=self.threads), k)

    def size_bytes(self) -> int | None:
        """Size of the serialized index."""
        return int(self.index.serialized_length)
