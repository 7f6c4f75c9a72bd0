"""hnswlib: the graph index of the HNSW paper's authors, in process."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from recallatk.adapters.batch import QueryBatch, float32_matrix
from recallatk.adapters.hnsw_library import HnswLibrary
from recallatk.adapters.live import IndexFacts, LiveIndex, metric_of
from recallatk.adapters.memory_model import FLOAT_BYTES, Content, graph_content
from recallatk.adapters.snippet import INPUTS, Setting, lines
from recallatk.core import Knob, Metric
from recallatk.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from recallatk.core import Corpus

# One lock for each of 65,536 labels; for each row a lock, a place in its table and two pointers.
_LABEL_LOCKS, _ROW_BYTES = 65_536 * 40, 90


class Hnswlib(HnswLibrary):
    """hnswlib.Index: an HNSW graph."""

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
                "raise ef, or M if parts of the graph are unreachable"
            ) from problem
        rows: NDArray[np.int64] = found.view(np.int64)
        return rows

    def nodes(self) -> int:
        """The number of nodes in the graph, deleted ones among them."""
        return int(self.index.element_count)

    def holds(self, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """The rows that are nodes, whether or not a walk reaches them."""
        return np.isin(rows, self.index.get_ids_list())

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


class LiveHnswlib(LiveIndex):
    """An `hnswlib.Index`."""

    family = "hnswlib"
    distribution = "hnswlib"
    abilities: ClassVar = replace(LiveIndex.abilities, threads=True)
    own_knobs: ClassVar = (Knob("ef", default=10, low=1, high=1_000_000, effort=True),)

    def title(self) -> str:
        """The class."""
        return "hnswlib.Index"

    def facts(self) -> IndexFacts:
        """The space, dimension, row count and labels."""
        labels = np.array(self.index.get_ids_list() if self.index.max_elements else [], np.int64)
        return IndexFacts(Metric(self.index.space), self.index.dim, len(labels), labels)

    def current(self, name: str) -> int:
        """The ef of the object."""
        return int(self.index.ef)

    def change(self, name: str, value: int) -> None:
        """Set the ef of the object."""
        self.index.set_ef(value)

    def stored(self, labels: NDArray[np.int64]) -> NDArray[Any]:
        """The vectors of some nodes."""
        return np.array(self.index.get_items(labels))

    def ask(self, batch: QueryBatch, k: int) -> NDArray[np.int64]:
        """One query of the graph."""
        try:
            found = self.index.knn_query(batch.vectors, k, self.threads)[0]
        except RuntimeError as problem:
            raise EngineError(
                f"{self.name} found fewer than {k} rows for a query at ef = {self.index.ef}: raise ef"
            ) from problem
        rows: NDArray[np.int64] = found.view(np.int64)
        return rows

    def size_bytes(self) -> int | None:
        """The index as hnswlib would write it."""
        return int(self.index.index_file_size())


class LiveBruteForce(LiveIndex):
    """An `hnswlib.BFIndex`, which states neither its space nor its dimension."""

    family = "hnswlib"
    distribution = "hnswlib"
    abilities: ClassVar = replace(LiveIndex.abilities, threads=True)

    def title(self) -> str:
        """The class."""
        return "hnswlib.BFIndex"

    def facts(self) -> IndexFacts:
        """The row count; searches show the rest."""
        return IndexFacts(None, None, self.index.get_current_count())

    @classmethod
    def require_data(cls, corpus: Corpus, metric: Metric) -> None:
        """Compare the distance of a first answer with the corpus, which tells the space."""
        super().require_data(corpus, metric)
        first = float32_matrix(corpus.vectors.read(0, 1))
        try:
            # The row itself comes first, and its distance of 0 tells little.
            labels, distances = cls.held_object.knn_query(first, k=min(2, corpus.rows))
        except RuntimeError as problem:
            raise EngineError(f"{cls.name} rejects the corpus vectors: {problem}") from problem
        row, distance = int(labels[0, -1]), float(distances[0, -1])
        near = float32_matrix(corpus.vectors.read(row, row + 1))[0] if row < corpus.rows else first[0]
        # Its cosine space normalizes the vectors that it holds, and no queries.
        unit = near / np.linalg.norm(near)
        cosine = np.isclose(1 - first[0] @ unit, distance, rtol=1e-3, atol=1e-4)
        found = Metric.COSINE if cosine else metric_of(first[0], near, distance)
        cls().require_metric(IndexFacts(found, None, corpus.rows), corpus, metric)

    def ask(self, batch: QueryBatch, k: int) -> NDArray[np.int64]:
        """One scan."""
        rows: NDArray[np.int64] = self.index.knn_query(batch.vectors, k, self.threads)[0].view(np.int64)
        return rows
