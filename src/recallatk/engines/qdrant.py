"""qdrant: a filterable graph index, in process as a shard in a temporary folder, or on a server."""

from __future__ import annotations

import contextlib
import os
import time
import uuid
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, ClassVar

from recallatk.core import Corpus, Knob, Metric, blocks
from recallatk.engines.base import Abilities, Engine
from recallatk.engines.matrix import float32_matrix
from recallatk.engines.payloads import (
    StoredColumns,
    address,
    padded,
    qdrant_filter,
    qdrant_payload,
    told,
)
from recallatk.errors import EngineError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from recallatk.engines.base import Filters
    from recallatk.filters import Filter

# In KB: Qdrant's own default would leave corpora below 10 MB without any index, and 0 means never.
INDEXING_THRESHOLD = 1
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
        Knob("ef_construct", default=200, low=4, high=5000),
        Knob("quantization", default="none", choices=("none", "scalar", "binary")),
        Knob("full_scan_threshold", default=10, low=10, high=10**9, help="KB below which it scans all"),
    )
    search_knobs = (Knob("hnsw_ef", default=64, low=1, high=10_000, effort=True),)

    def __init__(self) -> None:
        self.store: Shard | Server | None = None
        self.rows = 0

    def build(self, corpus: Corpus, metric: Metric, **parameters: Any) -> None:
        """Upload every row and wait for the graph."""
        self.close()
        self.dimension, self.parameters, self.rows = corpus.dimension, parameters, corpus.rows
        self.columns = StoredColumns(self.name, corpus)
        self.translated: dict[Filter, Any] = {}
        fields = {column.key: _SCHEMA[column.kind] for column in self.columns.stored.values()}
        with told(self.name, _key()):
            self.store = Server(address(self.name, parameters["url"])) if parameters["url"] else Shard()
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
        with told(self.name, _key()):
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
        points, indexed, segments = self._ready().counts()
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
        with told(self.name, _key()):
            store.upsert(self.rows, float32_matrix(vectors), [{} for _ in vectors])
            store.settle(0)
        self.rows += len(vectors)

    def delete(self, rows: NDArray[np.int64]) -> None:
        """Take rows out."""
        with told(self.name, _key()):
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


def search_params(api: Any, how: dict[str, Any]) -> Any:
    """Exact search is over the vectors as they were given, and not as they were quantised."""
    raw = api.QuantizationSearchParams(ignore=True) if how.get("exact") else None
    return api.SearchParams(**how, quantization=raw)


def hnsw(parameters: dict[str, Any]) -> dict[str, int]:
    """The graph's parameters as Qdrant names them."""
    names = {"m": "M", "ef_construct": "ef_construct", "full_scan_threshold": "full_scan_threshold"}
    return {theirs: parameters[ours] for theirs, ours in names.items()}


OPTIMIZERS = {"indexing_threshold": INDEXING_THRESHOLD, "default_segment_number": 1}


class Shard:
    """The edge library on a temporary folder."""

    call = "library call"

    def __init__(self) -> None:
        import qdrant_edge

        self.api: Any = qdrant_edge
        self.folder = TemporaryDirectory(prefix="recallatk-", ignore_cleanup_errors=True)

    def create(
        self, dimension: int, distance: str, fields: dict[str, str], parameters: dict[str, Any]
    ) -> None:
        """An empty shard with its payload indexes."""
        api = self.api
        quantized = {
            "none": lambda: None,
            "scalar": lambda: api.ScalarQuantizationConfig(type=api.ScalarType.Int8),
            "binary": api.BinaryQuantizationConfig,
        }
        config = api.EdgeConfig(
            vectors=api.EdgeVectorParams(size=dimension, distance=getattr(api.Distance, distance)),
            hnsw_config=api.HnswIndexConfig(**hnsw(parameters)),
            quantization_config=quantized[parameters["quantization"]](),
            optimizers=api.EdgeOptimizersConfig(**OPTIMIZERS),
            wal_enabled=False,
        )
        self.shard = api.EdgeShard.create(self.folder.name, config)
        for key, schema in fields.items():
            kind = getattr(api.PayloadSchemaType, schema.capitalize())
            self.shard.update(api.UpdateOperation.create_field_index(key, kind))

    def upsert(self, first: int, matrix: NDArray[np.float32], payloads: list[dict[str, Any]]) -> None:
        """Store rows, numbered from `first` on."""
        lines = zip(matrix.tolist(), payloads, strict=True)
        points = [self.api.Point(first + number, *line) for number, line in enumerate(lines)]
        self.shard.update(self.api.UpdateOperation.upsert_points(points))

    def settle(self, indexed: int) -> None:
        """Run the optimizers until there is nothing left to do."""
        self.shard.optimize()

    def query(self, asked: list[tuple[list[float], Any]], k: int, how: dict[str, Any]) -> list[list[int]]:
        """The rows that answer each vector with its filter."""
        api, params = self.api, search_params(self.api, how)
        requests = [
            api.QueryRequest(limit=k, query=api.Query.Nearest(vector), filter=condition, params=params)
            for vector, condition in asked
        ]
        return [
            [point.id for point in line] for line in self.shard.query_batch(api.QueryBatchRequest(requests))
        ]

    def delete(self, rows: list[int]) -> None:
        """Take rows out."""
        self.shard.update(self.api.UpdateOperation.delete_points(rows))

    def counts(self) -> tuple[int, int, int]:
        """Points, indexed ones, and segments."""
        info = self.shard.info()
        return info.points_count, info.indexed_vectors_count, info.segments_count

    def size_bytes(self) -> int:
        """What the folder takes on the disk, which is less than its sparse files claim."""
        files = (each.stat() for each in Path(self.folder.name).rglob("*"))
        return sum(each.st_blocks * 512 if hasattr(each, "st_blocks") else each.st_size for each in files)

    def version(self) -> str | None:
        """Nothing but the library's."""
        return None

    def close(self) -> None:
        """Remove the folder."""
        with contextlib.suppress(AttributeError):
            self.shard.close()
        self.folder.cleanup()


class Server:
    """A collection of its own on a server; closing drops it."""

    call = "HTTP round trip"
    patience: ClassVar[float] = 10
    """Seconds that a server may be idle with points that it has not indexed."""

    def __init__(self, url: str) -> None:
        from qdrant_client import QdrantClient, models

        self.api: Any = models
        self.collection = f"recallatk-{uuid.uuid4().hex}"
        self.client = QdrantClient(url, api_key=_key(), timeout=600, check_compatibility=False)

    def create(
        self, dimension: int, distance: str, fields: dict[str, str], parameters: dict[str, Any]
    ) -> None:
        """An empty collection with its payload indexes."""
        api = self.api
        scalar = api.ScalarQuantization(scalar=api.ScalarQuantizationConfig(type="int8"))
        binary = api.BinaryQuantization(binary=api.BinaryQuantizationConfig())
        self.client.create_collection(
            self.collection,
            vectors_config=api.VectorParams(size=dimension, distance=distance),
            hnsw_config=api.HnswConfigDiff(**hnsw(parameters)),
            quantization_config={"none": None, "scalar": scalar, "binary": binary}[
                parameters["quantization"]
            ],
            optimizers_config=api.OptimizersConfigDiff(**OPTIMIZERS),
        )
        for key, schema in fields.items():
            self.client.create_payload_index(self.collection, key, api.PayloadSchemaType(schema))

    def upsert(self, first: int, matrix: NDArray[np.float32], payloads: list[dict[str, Any]]) -> None:
        """Store rows, numbered from `first` on."""
        lines = enumerate(zip(matrix.tolist(), payloads, strict=True), first)
        points = [
            self.api.PointStruct(id=row, vector=vector, payload=payload) for row, (vector, payload) in lines
        ]
        self.client.upsert(self.collection, points, wait=True)

    def settle(self, indexed: int) -> None:
        """Wait until the optimizers are done and so many points are indexed, as far as that goes on."""
        since, before = time.monotonic(), -1
        while True:
            info = self.client.get_collection(self.collection)
            now = info.indexed_vectors_count or 0
            if info.status == "green" and now >= indexed:
                return
            if info.status != "green" or now != before:
                since, before = time.monotonic(), now
            elif time.monotonic() - since >= self.patience:
                return
            time.sleep(0.1)

    def query(self, asked: list[tuple[list[float], Any]], k: int, how: dict[str, Any]) -> list[list[int]]:
        """The rows that answer each vector with its filter."""
        api, params = self.api, search_params(self.api, how)
        requests = [
            api.QueryRequest(query=vector, limit=k, filter=condition, params=params, with_payload=False)
            for vector, condition in asked
        ]
        found = self.client.query_batch_points(self.collection, requests)
        return [[int(point.id) for point in line.points] for line in found]

    def delete(self, rows: list[int]) -> None:
        """Take rows out."""
        self.client.delete(self.collection, self.api.PointIdsList(points=rows), wait=True)

    def counts(self) -> tuple[int, int, int]:
        """Points, indexed ones, and segments."""
        info = self.client.get_collection(self.collection)
        return info.points_count or 0, info.indexed_vectors_count or 0, info.segments_count

    def size_bytes(self) -> None:
        """A server does not tell."""

    def version(self) -> str | None:
        """What the server says it is."""
        with contextlib.suppress(Exception):
            return f"qdrant {self.client.info().version}"
        return None

    def close(self) -> None:
        """Drop the collection."""
        with contextlib.suppress(Exception):
            self.client.delete_collection(self.collection)
        self.client.close()


def _key() -> str | None:
    return os.environ.get("QDRANT_API_KEY")
