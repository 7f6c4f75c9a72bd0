"""Storage backends of Qdrant: a shard in process or a collection on a server."""

from __future__ import annotations

import contextlib
import time
import uuid
from typing import TYPE_CHECKING, Any, ClassVar

from recallatk.adapters.database import dropping
from recallatk.scratch import ScratchFolder

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# In KB. Qdrant's default leaves corpora below 10 MB without an index, and 0 disables indexing.
INDEXING_THRESHOLD = 1
OPTIMIZERS = {"indexing_threshold": INDEXING_THRESHOLD, "default_segment_number": 1}


class Shard:
    """The edge library on a temporary folder."""

    call = "library call"

    def __init__(self) -> None:
        import qdrant_edge

        self.api: Any = qdrant_edge
        self.folder = ScratchFolder()

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
        self.shard = api.EdgeShard.create(str(self.folder.path), config)
        for key, schema in fields.items():
            kind = getattr(api.PayloadSchemaType, schema.capitalize())
            self.shard.update(api.UpdateOperation.create_field_index(key, kind))

    def upsert(self, first: int, matrix: NDArray[np.float32], payloads: list[dict[str, Any]]) -> None:
        """Store rows, numbered from `first` on."""
        lines = zip(matrix.tolist(), payloads, strict=True)
        points = [self.api.Point(first + number, *line) for number, line in enumerate(lines)]
        self.shard.update(self.api.UpdateOperation.upsert_points(points))

    def settle(self, indexed: int) -> None:
        """Run the optimizers until they have nothing left to do."""
        self.shard.optimize()

    def query(self, asked: list[tuple[list[float], Any]], k: int, how: dict[str, Any]) -> list[list[int]]:
        """Nearest rows of each vector under its filter."""
        api, params = self.api, search_params(self.api, how)
        requests = [
            api.QueryRequest(limit=k, query=api.Query.Nearest(vector), filter=condition, params=params)
            for vector, condition in asked
        ]
        return [
            [point.id for point in line] for line in self.shard.query_batch(api.QueryBatchRequest(requests))
        ]

    def delete(self, rows: list[int]) -> None:
        """Delete rows."""
        self.shard.update(self.api.UpdateOperation.delete_points(rows))

    def counts(self) -> tuple[int, int, int]:
        """Points, indexed ones, and segments."""
        info = self.shard.info()
        return info.points_count, info.indexed_vectors_count, info.segments_count

    def passing(self, condition: Any) -> int:
        """Estimate of the points that pass a filter."""
        return int(self.shard.count(self.api.CountRequest(exact=False, filter=condition)))

    def size_bytes(self) -> int:
        """Bytes of the folder on disk; its files are sparse."""
        files = (each.stat() for each in self.folder.path.rglob("*"))
        return sum(each.st_blocks * 512 if hasattr(each, "st_blocks") else each.st_size for each in files)

    def version(self) -> str | None:
        """None: the library's version is used."""
        return None

    def close(self) -> None:
        """Remove the folder."""
        with contextlib.suppress(AttributeError):
            self.shard.close()
        self.folder.remove()


class Server:
    """A new collection on a server; `close` drops it."""

    call = "HTTP round trip"
    patience: ClassVar[float] = 10
    """Seconds without progress, while points are unindexed, after which waiting stops."""

    def __init__(self, url: str, key: str | None = None) -> None:
        from qdrant_client import QdrantClient, models

        self.api: Any = models
        self.collection = f"recallatk-{uuid.uuid4().hex}"
        self.created = False
        self.client = QdrantClient(url, api_key=key, timeout=600, check_compatibility=False)

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
        self.created = True
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
        """Wait until the optimizers are done and this many points are indexed; give up without progress."""
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
        """Nearest rows of each vector under its filter."""
        api, params = self.api, search_params(self.api, how)
        requests = [
            api.QueryRequest(query=vector, limit=k, filter=condition, params=params, with_payload=False)
            for vector, condition in asked
        ]
        found = self.client.query_batch_points(self.collection, requests)
        return [[int(point.id) for point in line.points] for line in found]

    def delete(self, rows: list[int]) -> None:
        """Delete rows."""
        self.client.delete(self.collection, self.api.PointIdsList(points=rows), wait=True)

    def counts(self) -> tuple[int, int, int]:
        """Points, indexed ones, and segments."""
        info = self.client.get_collection(self.collection)
        return info.points_count or 0, info.indexed_vectors_count or 0, info.segments_count

    def passing(self, condition: Any) -> int:
        """Estimate of the points that pass a filter."""
        return int(self.client.count(self.collection, condition, exact=False).count)

    def size_bytes(self) -> None:
        """None: a server does not report it."""

    def version(self) -> str | None:
        """The version that the server reports."""
        with contextlib.suppress(Exception):
            return f"qdrant {self.client.info().version}"
        return None

    def close(self) -> None:
        """Drop the collection."""
        # If the server was unreachable, there is no collection to warn about.
        with dropping("qdrant", self.collection) if self.created else contextlib.suppress(Exception):
            self.client.delete_collection(self.collection)
        self.client.close()


def search_params(api: Any, how: dict[str, Any]) -> Any:
    """Search parameters; an exact search ignores the quantization."""
    raw = api.QuantizationSearchParams(ignore=True) if how.get("exact") else None
    return api.SearchParams(**how, quantization=raw)


def hnsw(parameters: dict[str, Any]) -> dict[str, int]:
    """The graph parameters under Qdrant's names."""
    names = {"m": "M", "ef_construct": "ef_construct", "full_scan_threshold": "full_scan_threshold"}
    return {theirs: parameters[ours] for theirs, ours in names.items()}
