"""Qdrant in process: its edge library on a temporary folder."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from recallatk.engines.qdrant_forms import OPTIMIZERS, hnsw, search_params
from recallatk.scratch import ScratchFolder

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


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
        files = (each.stat() for each in self.folder.path.rglob("*"))
        return sum(each.st_blocks * 512 if hasattr(each, "st_blocks") else each.st_size for each in files)

    def version(self) -> str | None:
        """Nothing but the library's."""
        return None

    def close(self) -> None:
        """Remove the folder."""
        with contextlib.suppress(AttributeError):
            self.shard.close()
        self.folder.remove()
