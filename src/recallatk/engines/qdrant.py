"""qdrant: a filterable graph index, in process as a shard in a temporary folder, or on a server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from recallatk.core import Corpus, Knob, Metric, blocks
from recallatk.engines.base import Abilities, Engine
from recallatk.engines.database import address, padded, told
from recallatk.engines.matrix import float32_matrix
from recallatk.engines.qdrant_forms import INDEXING_THRESHOLD, qdrant_filter, qdrant_payload
from recallatk.engines.qdrant_server import Server
from recallatk.engines.qdrant_shard import Shard
from recallatk.engines.stored_columns import StoredColumns
from recallatk.errors import EngineError
from recallatk.references import secret_variable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from recallatk.engines.base import Filters
    from recallatk.filters import Filter

# A server refuses larger requests than 32 MB, and JSON takes about 20 bytes for a number.
BLOCK_BYTES = 2 << 20
_SCHEMA = {"text": "keyword", "whole": "integer", "number": "float", "truth": "integer"}
_DISTANCE = {Metric.L2: "Euclid", Metric.IP: "Dot", Metric.COSINE: "Cosine"}


class Qdrant(Engine):
    """HNSW that knows payload indexes; cosine is normalised by Qdrant itself."""

    name = "qdrant"
    family = "qdrant"
    distribution = "qdrant-edge-py"
    extra = "qdrant"
    metrics = frozenset(Metric)
    abilities = Abilities(filters=True, updates=True, exact_search=True, clients=True)
    build_knobs = (
        Knob("url", default="", help="a server; without one, a shard in process (key: QDRANT_API_KEY)"),
        Knob("M", default=16, low=2, high=256),
        Knob("ef_construct", default=200, low=4, high=5000, effort=True),
        Knob("quantization", default="none", choices=("none", "scalar", "binary")),
        Knob("full_scan_threshold", default=10, low=10, high=10**9, help="KB below which it scans all"),
    )
    secret_variables = ("QDRANT_API_KEY",)
    search_knobs = (Knob("hnsw_ef", default=64, low=1, high=10_000, effort=True),)

    def __init__(self) -> None:
        self.store: Shard | Server | None = None
        self.rows = 0

    @classmethod
    def reaches(cls, **parameters: Any) -> str | None:
        """A server, where one is given."""
        return "the server at url" if parameters["url"] else None

    def build(self, corpus: Corpus, metric: Metric, **parameters: Any) -> None:
        """Upload every row and wait for the graph."""
        self.close()
        self.dimension, self.parameters, self.rows = corpus.dimension, parameters, corpus.rows
        self.columns = StoredColumns(self.name, corpus)
        self.translated: dict[Filter, Any] = {}
        fields = {column.key: _SCHEMA[column.kind] for column in self.columns.stored.values()}
        with told(self.name):
            self.store = (
                Server(address(self.name, parameters["url"]), secret_variable(self.secret_variables[0]))
                if parameters["url"]
                else Shard()
            )
            self.store.create(corpus.dimension, _DISTANCE[metric], fields, parameters)
            for start, block in blocks(corpus.vectors, BLOCK_BYTES):
                payloads = [qdrant_payload(each) for each in self.columns.read(start, start + len(block))]
                self.store.upsert(start, float32_matrix(block), payloads)
            self.store.settle(self.rows if self._bytes(self.rows) > INDEXING_THRESHOLD * 1024 else 0)

    def configure(self, **parameters: Any) -> None:
        """Set how many candidates a search keeps."""
        self.hnsw_ef = parameters["hnsw_ef"]

    def search(self, queries: NDArray[Any], k: int, filters: Filters = None) -> NDArray[np.int64]:
        """The nearest rows by the graph."""
        return self._query(queries, k, filters, hnsw_ef=self.hnsw_ef)

    def exact_search(self, queries: NDArray[Any], k: int, filters: Filters = None) -> NDArray[np.int64]:
        """The nearest rows by a scan of the vectors as they were given."""
        return self._query(queries, k, filters, exact=True)

    def _query(self, queries: NDArray[Any], k: int, filters: Filters, **how: Any) -> NDArray[np.int64]:
        store = self._ready()
        conditions = [
            None if each is None else self._translate(each) for each in filters or [None] * len(queries)
        ]
        asked = [number for number, each in enumerate(conditions) if each is not False]
        with told(self.name):
            vectors = float32_matrix(queries).tolist()
            found = store.query([(vectors[number], conditions[number]) for number in asked], k, how)
        answers: list[list[int]] = [[] for _ in conditions]
        for number, rows in zip(asked, found, strict=True):
            answers[number] = rows
        return padded(answers, k)

    def _translate(self, condition: Filter) -> Any:
        """In the classes of the store; None lets every row pass, and False none."""
        if condition not in self.translated:
            reduced = self.columns.reduced(condition)
            whole = None if reduced is True else reduced
            self.translated[condition] = whole and qdrant_filter(whole, self._ready().api)
        return self.translated[condition]

    def exercised(self) -> str:
        """What the collection says is indexed, and that it is too large to be scanned instead."""
        store = self._ready()
        with told(self.name):
            points, indexed, segments = store.counts()
        if not indexed or self._bytes(points - indexed) > INDEXING_THRESHOLD * 1024:
            raise EngineError(f"qdrant: {indexed:,} of {points:,} points are indexed; the others are scanned")
        threshold = self.parameters["full_scan_threshold"]
        # One segment is empty and waits for new points.
        if self._bytes(points) <= threshold * 1024 * max(1, segments - 1):
            raise EngineError(
                f"qdrant scans segments below full_scan_threshold = {threshold} KB, as these are"
            )
        return f"{indexed:,} of {points:,} points indexed, in {segments} segments"

    def call(self) -> str:
        """A call of the shard, or a request to the server."""
        return self._ready().call

    def in_process(self) -> bool:
        """A shard maps its files into memory, which are not counted as this process's own."""
        return False

    def insert(self, vectors: NDArray[Any]) -> None:
        """Add rows without payload, and wait until they are indexed."""
        store = self._ready()
        self.columns.lose()
        self.translated.clear()
        with told(self.name):
            store.upsert(self.rows, float32_matrix(vectors), [{} for _ in vectors])
            store.settle(0)
        self.rows += len(vectors)

    def delete(self, rows: NDArray[np.int64]) -> None:
        """Take rows out."""
        with told(self.name):
            self._ready().delete(rows.tolist())

    def size_bytes(self) -> int | None:
        """What the shard's folder takes; a server does not tell."""
        return self._ready().size_bytes()

    def version(self) -> str | None:
        """The server's version, or the library's."""
        return super().version() if self.store is None else self.store.version() or super().version()

    def close(self) -> None:
        """Drop the collection or the folder."""
        store, self.store = self.store, None
        if store is not None:
            store.close()

    def _ready(self) -> Shard | Server:
        if self.store is None:
            raise self.unbuilt()
        return self.store

    def _bytes(self, rows: int) -> int:
        return rows * self.dimension * 4
