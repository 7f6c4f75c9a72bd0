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
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from recallatk.core import Corpus
    from recallatk.filters import Filter

# 65,536 label locks; per row a lock, an entry of the label table and two pointers.
_LABEL_LOCKS, _ROW_BYTES = 65_536 * 40, 90


class Hnswlib(HnswLibrary):
    """hnswlib.Index: an HNSW graph."""

    name = "hnswlib"
    family = "hnswlib"
    distribution = "hnswlib"
    extra = "hnswlib"
    # No filters: hnswlib calls a Python function per candidate, so this would time the interpreter.

    def create(self, corpus: Corpus, metric: Metric, parameters: dict[str, Any]) -> None:
        """Create an empty index with capacity for the corpus."""
        import hnswlib

        self.index = hnswlib.Index(str(metric), corpus.dimension)
        self.index.init_index(corpus.rows, **parameters, random_seed=100)

    def add(self, vectors: NDArray[Any], numbers: NDArray[np.int64]) -> None:
        """Insert nodes, resizing the index if needed."""
        needed = self.rows + len(vectors)
        if needed > self.index.max_elements:
            self.index.resize_index(needed)
        self.index.add_items(float32_matrix(vectors), numbers, num_threads=self.threads)

    def configure(self, **parameters: int) -> None:
        """Set the number of candidates that a search keeps."""
        super().configure(**parameters)
        self.index.set_ef(parameters["ef"])

    def nearest(self, batch: QueryBatch, k: int) -> NDArray[np.int64]:
        """Nearest rows found by walking the graph."""
        possible = k if k <= self.live else self.live  # noqa: FURB136 - timed, and calling min() is slower
        try:
            found = self.index.knn_query(batch.vectors, possible, self.threads)[0]  # converts to float32
        except RuntimeError as problem:
            # The error carries no partial result, and a retry with a larger ef would measure that ef.
            raise EngineError(
                f"hnswlib found fewer than {possible} rows for a query at ef = {self.index.ef}: "
                "raise ef, or M if parts of the graph are unreachable"
            ) from problem
        rows: NDArray[np.int64] = found.view(np.int64)
        return rows

    def nodes(self) -> int:
        """The number of nodes in the graph, including deleted ones."""
        return int(self.index.element_count)

    def holds(self, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """The rows that are nodes, whether or not a walk reaches them."""
        return np.isin(rows, self.index.get_ids_list())

    def size_bytes(self) -> int:
        """Size of the serialized index."""
        return int(self.index.index_file_size())

    @classmethod
    def content(cls, build: Mapping[str, Any], dimension: int, metric: Metric) -> Content:
        """Bytes of the graph, its vectors and its locks."""
        return graph_content(build["M"], FLOAT_BYTES * dimension, _ROW_BYTES, _LABEL_LOCKS)

    @classmethod
    def snippet(cls, setting: Setting) -> str:
        """Code that adds every row, sets ef, and searches."""
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
    abilities: ClassVar = replace(LiveIndex.abilities, filters=True, threads=True)
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
        """One query of the graph, or one for each filter."""
        if batch.filters is None:
            return self._found(batch.vectors, k, self.threads)
        rows = np.full((batch.count, k), -1, np.int64)
        for condition, places in batch.by_filter():
            if condition is None:
                rows[places] = self._found(batch.vectors[places], k, self.threads)
                continue
            allowed = self.compiled(condition)
            possible = min(k, len(allowed))
            if possible:
                # Threads would only wait for each other: every candidate calls Python.
                found = self._found(batch.vectors[places], possible, 1, allowed.__contains__)
                rows[places, :possible] = found
        return rows

    def translated(self, condition: Filter) -> frozenset[int]:
        """The labels that pass, which hnswlib asks for one by one."""
        return frozenset(self.allowed_labels(condition).tolist())

    def work(self) -> str:
        """The number of queries, and how hnswlib filters."""
        called = ", with a Python call for each candidate of a filtered query" if self._made else ""
        return f"{super().work()}{called}"

    def _found(
        self, vectors: NDArray[Any], k: int, threads: int, allowed: Callable[[int], bool] | None = None
    ) -> NDArray[np.int64]:
        try:
            found = self.index.knn_query(vectors, k, threads, allowed)[0]
        except RuntimeError as problem:
            raise EngineError(
                f"{self.name} found fewer than {k} rows for a query at ef = {self.index.ef}: raise ef, "
                "or build with a higher M if parts of the graph are unreachable"
            ) from problem
        rows: NDArray[np.int64] = found.view(np.int64)
        return rows

    def size_bytes(self) -> int | None:
        """Size of the serialized index."""
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
        """Row count; a search in `require_data` reveals the space and the dimension."""
        return IndexFacts(None, None, self.index.get_current_count())

    @classmethod
    def require_data(cls, corpus: Corpus, metric: Metric) -> None:
        """Infer the space from the distance of one answer."""
        super().require_data(corpus, metric)
        first = float32_matrix(corpus.vectors.read(0, 1))
        try:
            # The nearest answer is the row itself at distance 0, which fits several metrics.
            labels, distances = cls.held_object.knn_query(first, k=min(2, corpus.rows))
        except RuntimeError as problem:
            raise EngineError(f"{cls.name} rejects the corpus vectors: {problem}") from problem
        row, distance = int(labels[0, -1]), float(distances[0, -1])
        near = float32_matrix(corpus.vectors.read(row, row + 1))[0] if row < corpus.rows else first[0]
        # Its cosine space normalizes stored vectors but not queries.
        unit = near / np.linalg.norm(near)
        cosine = np.isclose(1 - first[0] @ unit, distance, rtol=1e-3, atol=1e-4)
        found = Metric.COSINE if cosine else metric_of(first[0], near, distance)
        cls().require_metric(IndexFacts(found, None, corpus.rows), corpus, metric)

    def scanned(self) -> str:
        """All rows."""
        return "all rows, as BFIndex does by design"

    def ask(self, batch: QueryBatch, k: int) -> NDArray[np.int64]:
        """One scan."""
        rows: NDArray[np.int64] = self.index.knn_query(batch.vectors, k, self.threads)[0].view(np.int64)
        return rows
