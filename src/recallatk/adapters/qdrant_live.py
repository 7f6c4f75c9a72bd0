"""Qdrant objects that the caller holds: an edge shard in this process, or a client with a collection name."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from recallatk.adapters.attached import RowsById
from recallatk.adapters.batch import float32_matrix
from recallatk.adapters.database import told
from recallatk.adapters.live import SAMPLE, IndexFacts, LiveCollection, metric_of
from recallatk.adapters.qdrant_filters import QdrantFilters
from recallatk.adapters.stored_columns import own_columns
from recallatk.core import Corpus, Knob, Metric
from recallatk.errors import EngineError, UsageError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from numpy.typing import NDArray

    from recallatk.adapters.batch import QueryBatch
    from recallatk.filters import Filter

# Dots and brackets are a path into the payload.
_PLAIN_KEY = re.compile(r"[\w-]+")
_DISTANCES = {"Euclid": Metric.L2, "Dot": Metric.IP, "Cosine": Metric.COSINE}


class LiveQdrant(LiveCollection):
    """The base of shards and collections."""

    family = "qdrant"
    call_knobs: ClassVar = (
        Knob("hnsw_ef", default=0, high=1_000_000, effort=True, help="0: the collection's own setting"),
    )
    abilities: ClassVar = replace(LiveCollection.abilities, filters=True)
    aliases: ClassVar = {"ef": "hnsw_ef"}
    counts = (0, 0)
    """Number of points, and of indexed points."""

    def effort(self, api: Any) -> Any:
        """Search parameters; None for the collection's own."""
        ef = self.settings.get("hnsw_ef")
        return api.SearchParams(hnsw_ef=ef) if ef else None

    def api(self) -> Any:
        """The module with the classes of requests."""
        raise NotImplementedError

    def attach(self, corpus: Corpus, metric: Metric, **parameters: Any) -> None:
        """Remember the columns, which the payload has under the same names."""
        super().attach(corpus, metric, **parameters)
        self.columns = own_columns(self.name, corpus)

    def translated(self, condition: Filter) -> Any:
        """The filter on the payload; None lets every point pass, and False none."""
        for name in sorted(condition.columns() & self.columns.columns.keys()):
            if not _PLAIN_KEY.fullmatch(name):
                raise EngineError(f"{self.name} cannot filter by {name!r}: Qdrant reads it as a path")
        self.require_columns(condition, self.columns.corpus)
        reduced = self.columns.reduced(condition)
        if isinstance(reduced, bool):
            return None if reduced else False
        return QdrantFilters(self.columns, self.api(), own=True).filter(reduced)

    def answers(self, vectors: NDArray[Any], k: int, filters: Sequence[Any]) -> list[Any]:
        """The points of each query with its filter."""
        raise NotImplementedError

    def points(self, ids: list[Any]) -> list[Any]:
        """Some points with their payload."""
        raise NotImplementedError

    def metadata_of(self, found: Any) -> Mapping[str, Any]:
        """The payload of one point."""
        return {name: value for each in self.points([found]) for name, value in (each.payload or {}).items()}

    def lists(self, batch: QueryBatch, k: int) -> list[list[Any]]:
        """One batch of searches, without queries that no point can answer."""
        if batch.filters is None:
            return [_ids(line) for line in self.answers(batch.vectors, k, [None] * batch.count)]
        made = [None if each is None else self.compiled(each) for each in batch.filters]
        asked = [place for place, each in enumerate(made) if each is not False]
        found: list[list[Any]] = [[] for _ in made]
        lines = self.answers(batch.vectors[asked], k, [made[place] for place in asked]) if asked else []
        for place, line in zip(asked, lines, strict=True):
            found[place] = _ids(line)
        return found

    def held(self) -> str:
        """The collection, and how much of it the graph holds."""
        return f"{super().held()}, {self.counts[1]:,} of {self.counts[0]:,} points indexed"

    def scanned(self) -> str | None:
        """Points that the graph does not hold."""
        self.facts()
        points, indexed = self.counts
        if not indexed:
            return "all points: none of them is indexed"
        return f"{points - indexed:,} points that are not indexed" if indexed < points else None


class LiveQdrantShard(LiveQdrant):
    """A `qdrant_edge.EdgeShard`, which states neither its distance nor its dimension."""

    distribution = "qdrant-edge-py"

    def title(self) -> str:
        """The class."""
        return "qdrant_edge.EdgeShard"

    def facts(self) -> IndexFacts:
        """The number of points; a search in `require_data` reveals the distance and the dimension."""
        with told(self.name):
            info = self.index.info()
        self.counts = info.points_count, info.indexed_vectors_count
        return IndexFacts(None, None, info.points_count)

    @classmethod
    def require_data(cls, corpus: Corpus, metric: Metric) -> None:
        """Infer the distance from the score of one answer."""
        super().require_data(corpus, metric)
        engine, ids = cls(), RowsById(corpus)
        first = float32_matrix(corpus.vectors.read(0, 1))
        with told(cls.name):
            # The nearest answer is the row itself at distance 0, which fits several metrics.
            *_, point = engine.answers(first, 2, [None])[0]
        row = ids.row(point.id)
        near = float32_matrix(corpus.vectors.read(row, row + 1))[0]
        found = metric_of(first[0], near, float(point.score))
        engine.require_metric(IndexFacts(found, None, corpus.rows), corpus, metric)

    def some_ids(self, corpus: Corpus) -> list[Any]:
        """Some ids."""
        import qdrant_edge

        with told(self.name):
            return [each.id for each in self.index.scroll(qdrant_edge.ScrollRequest(limit=SAMPLE))[0]]

    def api(self) -> Any:
        """The shard's own."""
        import qdrant_edge

        return qdrant_edge

    def points(self, ids: list[Any]) -> list[Any]:
        """Some points with their payload."""
        return list(self.index.retrieve(ids, True, False))

    def answers(self, vectors: NDArray[Any], k: int, filters: Sequence[Any]) -> list[Any]:
        """One batch of searches."""
        api = self.api()
        effort = self.effort(api)
        asked = [
            api.QueryRequest(limit=k, query=api.Query.Nearest(vector), filter=each, params=effort)
            for vector, each in zip(vectors.tolist(), filters, strict=True)
        ]
        return list(self.index.query_batch(api.QueryBatchRequest(asked)))


class LiveQdrantCollection(LiveQdrant):
    """A collection behind a `QdrantClient`, as `(client, "collection")`."""

    distribution = "qdrant-client"
    collection: ClassVar[str] = ""
    using: str | None = None
    """The name of the vector, if the collection has named vectors."""

    @classmethod
    def of(cls, held: Any, names: Collection[str] = ()) -> Any:
        """The engine class of one collection."""
        if not isinstance(held, tuple) or not isinstance(held[1], str):
            raise UsageError('a Qdrant client without a collection. Accepted: (client, "collection")')
        made: Any = super().of(held[0], names)
        made.collection = held[1]
        return made

    def title(self) -> str:
        """The kind of collection."""
        return "qdrant.collection"

    def facts(self) -> IndexFacts:
        """The distance, dimension and number of points."""
        with told(self.name):
            info = self.index.get_collection(self.collection)
        vectors, self.using = info.config.params.vectors, None
        if isinstance(vectors, dict):
            if len(vectors) != 1:
                many = f"{self.name} {self.collection} has {len(vectors)} vectors per point"
                raise UsageError(f"{many}. Accepted: one")
            self.using, vectors = next(iter(vectors.items()))
        self.counts = info.points_count or 0, info.indexed_vectors_count or 0
        return IndexFacts(_DISTANCES.get(str(vectors.distance.value)), vectors.size, info.points_count or 0)

    def some_ids(self, corpus: Corpus) -> list[Any]:
        """Some ids."""
        with told(self.name):
            found = self.index.scroll(self.collection, limit=SAMPLE, with_payload=False)[0]
        return [each.id for each in found]

    def api(self) -> Any:
        """The client's."""
        from qdrant_client import models

        return models

    def points(self, ids: list[Any]) -> list[Any]:
        """Some points with their payload."""
        return list(self.index.retrieve(self.collection, ids, with_payload=True))

    def answers(self, vectors: NDArray[Any], k: int, filters: Sequence[Any]) -> list[Any]:
        """One batch of searches."""
        api, how = self.api(), {"limit": k, "using": self.using, "with_payload": False}
        effort = self.effort(api)
        asked = [
            api.QueryRequest(query=vector, filter=each, params=effort, **how)
            for vector, each in zip(vectors.tolist(), filters, strict=True)
        ]
        return [line.points for line in self.index.query_batch_points(self.collection, asked)]

    def held(self) -> str:
        """The collection by its name."""
        return f"{self.collection}: {super().held()}"

    def scanned(self) -> str | None:
        """All points in the client's local mode, else those that the graph does not hold."""
        return "all points: the client's local mode has no index" if self._local() else super().scanned()

    def call(self) -> str:
        """A call in process, or a request to the server."""
        return super().call() if self._local() else "round trip to the server"

    def _local(self) -> bool:
        return "Local" in type(getattr(self.index, "_client", None)).__name__


def _ids(points: Sequence[Any]) -> list[Any]:
    return [point.id for point in points]
