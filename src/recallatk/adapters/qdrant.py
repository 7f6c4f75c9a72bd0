"""qdrant: a filterable graph index, in process as a shard in a temporary folder, or on a server."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from recallatk.adapters.base import Abilities, Engine
from recallatk.adapters.batch import QueryBatch, float32_matrix, padded
from recallatk.adapters.database import address, told
from recallatk.adapters.qdrant_filters import SCHEMA, QdrantFilters
from recallatk.adapters.qdrant_store import INDEXING_THRESHOLD, Server, Shard
from recallatk.adapters.snippet import INPUTS, Setting, lines
from recallatk.adapters.stored_columns import StoredColumns
from recallatk.core import Corpus, Knob, Metric, blocks
from recallatk.errors import EngineError
from recallatk.references import secret_variable
from recallatk.units import share_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from recallatk.filters import Filter

# A server refuses requests above 32 MB, and JSON takes about 20 bytes per number.
BLOCK_BYTES = 2 << 20
_DISTANCES = {Metric.L2: "Euclid", Metric.IP: "Dot", Metric.COSINE: "Cosine"}
_ON_A_SERVER = {
    "scalar": "models.ScalarQuantization(scalar=models.ScalarQuantizationConfig(type='int8'))",
    "binary": "models.BinaryQuantization(binary=models.BinaryQuantizationConfig())",
}
_IN_PROCESS = {
    "scalar": "qdrant.ScalarQuantizationConfig(type=qdrant.ScalarType.Int8)",
    "binary": "qdrant.BinaryQuantizationConfig()",
}


class Qdrant(Engine):
    """Qdrant collection (HNSW with payload indexes); Qdrant itself normalizes vectors under cosine."""

    name = "qdrant"
    family = "qdrant"
    distribution = "qdrant-edge-py"
    extra = "qdrant"
    metrics = frozenset(Metric)
    column_indexes = True
    abilities = Abilities(filters=True, updates=True, exact_search=True, clients=True)
    build_knobs = (
        Knob("url", default="", help="server URL; without one, a shard in process (key: QDRANT_API_KEY)"),
        Knob("M", default=16, low=2, high=256),
        Knob("ef_construct", default=200, low=4, high=5000, effort=True),
        Knob("quantization", default="none", choices=("none", "scalar", "binary")),
        Knob(
            "full_scan_threshold",
            default=10,
            low=10,
            high=10**9,
            help="segment size in KB below which it scans",
        ),
    )
    secret_variables = ("QDRANT_API_KEY",)
    search_knobs = (Knob("hnsw_ef", default=64, low=1, high=10_000, effort=True),)

    whole_vectors = ("quantization", ("none",))
    store: Shard | Server | None = None

    @classmethod
    def reaches(cls, **parameters: Any) -> str | None:
        """The server, if the build names one."""
        return "the server at url" if parameters["url"] else None

    def build(self, corpus: Corpus, metric: Metric, **parameters: Any) -> None:
        """Upload every row and wait for the graph."""
        self.close()
        self.dimension, self.parameters, self.rows = corpus.dimension, parameters, corpus.rows
        self.columns = StoredColumns(self.name, corpus)
        self.translated: dict[Filter, Any] = {}
        self.passing: dict[Filter, int] = {}
        """Points that pass a filter, by Qdrant's estimate."""
        self.sent: list[Sequence[Filter | None]] = []
        """Filters of the calls since the last `configure`."""
        fields = {column.key: SCHEMA[column.kind] for column in self.columns.stored.values()}
        with told(self.name):
            self.store = (
                Server(address(self.name, parameters["url"]), secret_variable(self.secret_variables[0]))
                if parameters["url"]
                else Shard()
            )
            self.filters = QdrantFilters(self.columns, self.store.api)
            self.store.create(corpus.dimension, _DISTANCES[metric], fields, parameters)
            for start, block in blocks(corpus.vectors, BLOCK_BYTES):
                payloads = [
                    self.filters.payload(each) for each in self.columns.read(start, start + len(block))
                ]
                self.store.upsert(start, float32_matrix(block), payloads)
            self.store.settle(self.rows if self._bytes(self.rows) > INDEXING_THRESHOLD * 1024 else 0)

    def configure(self, **parameters: Any) -> None:
        """Set the effort, and forget the filters that were sent."""
        super().configure(**parameters)
        self.sent = []

    def nearest(self, batch: QueryBatch, k: int) -> NDArray[np.int64]:
        """The nearest rows by the graph; for a filter that few points pass, Qdrant scans those instead."""
        if batch.filters is not None:
            self.sent.append(batch.filters)
        return self._query(batch, k, hnsw_ef=self.settings["hnsw_ef"])

    def exact_search(self, batch: QueryBatch, k: int) -> NDArray[np.int64]:
        """Nearest rows by scanning the original vectors."""
        return self._query(batch, k, exact=True)

    def _query(self, batch: QueryBatch, k: int, **how: Any) -> NDArray[np.int64]:
        store = self._ready()
        filters = batch.filters or [None] * batch.count
        conditions = [None if each is None else self.compiled(each) for each in filters]
        asked = [number for number, each in enumerate(conditions) if each is not False]
        with told(self.name):
            vectors = float32_matrix(batch.vectors).tolist()
            found = store.query([(vectors[number], conditions[number]) for number in asked], k, how)
        answers: list[list[int]] = [[] for _ in conditions]
        for number, rows in zip(asked, found, strict=True):
            answers[number] = rows
        return padded(answers, k)

    def compiled(self, condition: Filter) -> Any:
        """The filter in the store's classes; None if every row passes, False if no row can."""
        if condition not in self.translated:
            reduced = self.columns.reduced(condition)
            whole = None if reduced is True else reduced
            self.translated[condition] = whole and self.filters.filter(whole)
        return self.translated[condition]

    def exercised(self) -> str:
        """The number of indexed points, and the share of queries whose filters made Qdrant scan.

        An EngineError if the collection is small enough for a full scan.
        """
        store = self._ready()
        with told(self.name):
            points, indexed, segments = store.counts()
        if not indexed or self._bytes(points - indexed) > INDEXING_THRESHOLD * 1024:
            raise EngineError(f"qdrant: {indexed:,} of {points:,} points are indexed; the others are scanned")
        threshold = f"full_scan_threshold = {self.parameters['full_scan_threshold']} KB"
        if self._scans(points, segments):
            raise EngineError(f"qdrant scans segments below {threshold}, and these are below it")
        held = f"{indexed:,} of {points:,} points indexed, in {segments} segments"
        with told(self.name):
            scanned = self._scanned(segments)
        if not scanned:
            return held
        walked = share_of(self.searched - scanned, self.searched, "queries", "walked", "walked")
        return f"{held}; {walked} the graph, the others have filters that few points pass ({threshold})"

    def _scans(self, points: int, segments: int) -> bool:
        """Whether Qdrant scans this many points of a collection instead of walking the graph."""
        # One segment is always empty, ready for new points.
        threshold = int(self.parameters["full_scan_threshold"]) * 1024
        return self._bytes(points) <= threshold * max(1, segments - 1)

    def _scanned(self, segments: int) -> int:
        """The number of queries since the last `configure` whose filters made Qdrant scan.

        No counter shows it, so this is Qdrant's rule, applied to its own estimate of the points that pass.
        """
        asked = Counter(each for filters in self.sent for each in filters if each is not None)
        return sum(times for each, times in asked.items() if self._scans(self._passing(each), segments))

    def _passing(self, condition: Filter) -> int:
        if condition not in self.passing:
            compiled = self.compiled(condition)
            self.passing[condition] = 0 if compiled is False else self._ready().passing(compiled)
        return self.passing[condition]

    def call(self) -> str:
        """A call of the shard, or a request to the server."""
        return self._ready().call

    def in_process(self) -> bool:
        """False: a shard maps files into memory, which private memory does not include."""
        return False

    def insert(self, vectors: NDArray[Any], metadata: pa.Table | None = None) -> None:
        """Add rows, and wait until they are indexed."""
        store = self._ready()
        payloads = [self.filters.payload(each) for each in self.columns.inserted(metadata, len(vectors))]
        self.translated.clear()
        self.passing.clear()
        with told(self.name):
            store.upsert(self.rows, float32_matrix(vectors), payloads)
            store.settle(0)
        self.rows += len(vectors)

    def delete(self, rows: NDArray[np.int64]) -> None:
        """Delete rows."""
        self.passing.clear()
        with told(self.name):
            self._ready().delete(rows.tolist())

    def size_bytes(self) -> int | None:
        """Size of the shard's folder in bytes; None for a server."""
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

    @classmethod
    def snippet(cls, setting: Setting) -> str:
        """Code for the measured collection or shard."""
        return _server_snippet(setting) if setting.build["url"] else _shard_snippet(setting)


def _graph(setting: Setting) -> str:
    build = setting.build
    return (
        f"m={build['M']}, ef_construct={build['ef_construct']}, "
        f"full_scan_threshold={build['full_scan_threshold']}"
    )


def _server_snippet(setting: Setting) -> str:
    codes = _ON_A_SERVER.get(setting.build["quantization"])
    distance = f"models.Distance.{_DISTANCES[setting.metric].upper()}"
    return lines(
        "from qdrant_client import QdrantClient, models",
        "",
        INPUTS,
        f"client = QdrantClient({setting.build['url']!r})",
        "client.create_collection(",
        '    "items",',
        f"    vectors_config=models.VectorParams(size=vectors.shape[1], distance={distance}),",
        f"    hnsw_config=models.HnswConfigDiff({_graph(setting)}),",
        f"    quantization_config={codes}," if codes else None,
        ")",
        "points = (",
        "    models.PointStruct(id=row, vector=vector) for row, vector in enumerate(vectors.tolist())",
        ")",
        'client.upload_points("items", points)',
        "",
        f"effort = models.SearchParams(hnsw_ef={setting.search['hnsw_ef']})",
        "asked = [",
        f"    models.QueryRequest(query=query, limit={setting.k}, params=effort)",
        "    for query in queries.tolist()",
        "]",
        "found = [",
        '    [point.id for point in each.points] for each in client.query_batch_points("items", asked)',
        "]",
    )


def _shard_snippet(setting: Setting) -> str:
    codes = _IN_PROCESS.get(setting.build["quantization"])
    distance = f"qdrant.Distance.{_DISTANCES[setting.metric]}"
    return lines(
        "from pathlib import Path",
        "",
        "import qdrant_edge as qdrant",
        "",
        INPUTS,
        'Path("./qdrant").mkdir()',
        "config = qdrant.EdgeConfig(",
        f"    vectors=qdrant.EdgeVectorParams(size=vectors.shape[1], distance={distance}),",
        f"    hnsw_config=qdrant.HnswIndexConfig({_graph(setting)}),",
        f"    quantization_config={codes}," if codes else None,
        "    optimizers=qdrant.EdgeOptimizersConfig(indexing_threshold=1, default_segment_number=1),",
        ")",
        'shard = qdrant.EdgeShard.create("./qdrant", config)',
        "points = [qdrant.Point(row, vector, {}) for row, vector in enumerate(vectors.tolist())]",
        "shard.update(qdrant.UpdateOperation.upsert_points(points))",
        "shard.optimize()",
        "",
        f"effort = qdrant.SearchParams(hnsw_ef={setting.search['hnsw_ef']})",
        "asked = [",
        f"    qdrant.QueryRequest(limit={setting.k}, query=qdrant.Query.Nearest(query), params=effort)",
        "    for query in queries.tolist()",
        "]",
        "answers = shard.query_batch(qdrant.QueryBatchRequest(asked))",
        "found = [[point.id for point in each] for each in answers]",
    )
