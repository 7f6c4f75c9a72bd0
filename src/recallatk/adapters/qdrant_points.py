"""Points of existing Qdrant collections: of a shard in this process, or behind a client."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from recallatk.adapters.qdrant_store import search_params

if TYPE_CHECKING:
    from pathlib import Path


class PointFacts(NamedTuple):
    """What a shard or a collection says about itself."""

    points: int
    indexed: int
    vectors: dict[str, dict[str, Any]]
    """Settings of each vector by its name, which is empty for points with a single vector."""
    hnsw: dict[str, Any]
    quantization: dict[str, Any] | None
    indexes: dict[str, str]
    """Payload indexes and their types."""


class ShardPoints:
    """A shard of the edge library; it states its settings in a file alone."""

    call = "in this process"

    def __init__(self, path: Path) -> None:
        import qdrant_edge

        self.api: Any = qdrant_edge
        self.shard = qdrant_edge.EdgeShard.load(str(path))
        # Loading completes the file.
        self.config = json.loads((path / "edge_config.json").read_text(encoding="utf-8"))

    def facts(self) -> PointFacts:
        """Counts of the shard, and settings of its file."""
        info, config = self.shard.info(), self.config
        indexes = {name: str(held.data_type).rpartition(".")[2] for name, held in info.payload_schema.items()}
        return PointFacts(
            info.points_count,
            info.indexed_vectors_count,
            config.get("vectors") or {},
            config.get("hnsw_config") or {},
            config.get("quantization_config"),
            indexes,
        )

    def query(self, vector: list[float], using: str, k: int, condition: Any, how: dict[str, Any]) -> Any:
        """The nearest points, with their scores."""
        api = self.api
        nearest = api.Query.Nearest(vector, using or None)
        params = search_params(api, how)
        return self.shard.query(api.QueryRequest(limit=k, query=nearest, filter=condition, params=params))

    def scroll(
        self, limit: int, offset: Any, condition: Any = None, *, vectors: Any = False, payloads: bool = False
    ) -> tuple[Any, Any]:
        """Points by ascending id from an id on, and the id of the next."""
        request = self.api.ScrollRequest(
            offset=offset, limit=limit, filter=condition, with_payload=payloads, with_vector=vectors
        )
        return self.shard.scroll(request)

    def count(self, condition: Any) -> int:
        """The number of points that pass a filter."""
        return int(self.shard.count(self.api.CountRequest(exact=True, filter=condition)))

    def retrieve(self, ids: list[Any], vectors: Any) -> Any:
        """Points by their ids."""
        return self.shard.retrieve(ids, False, vectors)

    def close(self) -> None:
        """Let go of the files."""
        self.shard.close()


class ServerPoints:
    """A collection behind a client."""

    call = "HTTP round trip"

    def __init__(self, client: Any, collection: str) -> None:
        from qdrant_client import models

        self.api: Any = models
        self.client, self.collection = client, collection

    def facts(self) -> PointFacts:
        """One request."""
        info = self.client.get_collection(self.collection)
        config = info.config
        named = config.params.vectors
        vectors = named if isinstance(named, dict) else {} if named is None else {"": named}
        held = config.quantization_config
        return PointFacts(
            info.points_count or 0,
            info.indexed_vectors_count or 0,
            {name: each.model_dump(mode="json") for name, each in vectors.items()},
            config.hnsw_config.model_dump(mode="json"),
            None if held is None else held.model_dump(mode="json"),
            {name: str(each.data_type.value) for name, each in (info.payload_schema or {}).items()},
        )

    def query(self, vector: list[float], using: str, k: int, condition: Any, how: dict[str, Any]) -> Any:
        """The nearest points, with their scores."""
        found = self.client.query_points(
            self.collection,
            query=vector,
            using=using or None,
            limit=k,
            query_filter=condition,
            search_params=search_params(self.api, how),
            with_payload=False,
        )
        return found.points

    def scroll(
        self, limit: int, offset: Any, condition: Any = None, *, vectors: Any = False, payloads: bool = False
    ) -> tuple[Any, Any]:
        """Points by ascending id from an id on, and the id of the next."""
        found: tuple[Any, Any] = self.client.scroll(
            self.collection,
            scroll_filter=condition,
            limit=limit,
            offset=offset,
            with_payload=payloads,
            with_vectors=vectors,
        )
        return found

    def count(self, condition: Any) -> int:
        """The number of points that pass a filter."""
        return int(self.client.count(self.collection, condition, exact=True).count)

    def retrieve(self, ids: list[Any], vectors: Any) -> Any:
        """Points by their ids."""
        return self.client.retrieve(self.collection, ids, with_payload=False, with_vectors=vectors)

    def close(self) -> None:
        """Disconnect."""
        self.client.close()
