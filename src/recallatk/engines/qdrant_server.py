"""Qdrant on a server: a collection of its own there."""

from __future__ import annotations

import contextlib
import time
import uuid
from typing import TYPE_CHECKING, Any, ClassVar

from recallatk.engines.database import dropping
from recallatk.engines.qdrant_forms import OPTIMIZERS, hnsw, search_params

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Server:
    """A collection of its own on a server; closing drops it."""

    call = "HTTP round trip"
    patience: ClassVar[float] = 10
    """Seconds that a server may be idle with points that it has not indexed."""

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
        # Where it could not be made, because a server was not there, there is nothing to be said.
        with dropping("qdrant", self.collection) if self.created else contextlib.suppress(Exception):
            self.client.delete_collection(self.collection)
        self.client.close()
