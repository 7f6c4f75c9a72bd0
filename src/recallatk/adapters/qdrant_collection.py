"""Existing Qdrant collections: a copy of an edge shard's folder, or a server where it is."""

from __future__ import annotations

import importlib.util
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from recallatk.adapters.collection import Answer, CollectionTarget, Discovery, Neighbors
from recallatk.adapters.collection_copy import CollectionCopy
from recallatk.adapters.database import told
from recallatk.adapters.embedded_collection import chosen, local_path, null_note, require_rows
from recallatk.adapters.installation import importing
from recallatk.adapters.payload_collection import Page, PayloadCollection
from recallatk.adapters.qdrant import Qdrant
from recallatk.adapters.qdrant_filters import QdrantFilters
from recallatk.adapters.qdrant_live import _DISTANCES, _PLAIN_KEY
from recallatk.adapters.qdrant_points import ServerPoints, ShardPoints
from recallatk.adapters.server_target import (
    beyond_limit,
    lost_connection,
    remote_collection,
    require_server,
    stated_flag,
)
from recallatk.errors import EngineError, MissingFileError, UsageError, choices, unknown
from recallatk.references import secret_variable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from recallatk.adapters.probe_limits import ProbeLimits
    from recallatk.adapters.qdrant_points import PointFacts
    from recallatk.adapters.server_target import RemoteCollection
    from recallatk.adapters.stored_columns import FilterColumns
    from recallatk.core import Knob
    from recallatk.filters import Filter

_EXAMPLE = "qdrant://folder/of/edge-shard or qdrant://host:6333/collection"
UNTESTED = "targets on a Qdrant server are untested: no test of this version has asked one"
_BEYOND_WHOLE = 2**63


class QdrantCollection(PayloadCollection):
    """Points with one vector: of a shard's folder, which loading would write to, a copy is loaded."""

    schemes: ClassVar = ("qdrant",)
    options: ClassVar = ("vector", "https")
    exact_mode = True
    one_number: ClassVar = True

    def __init__(
        self,
        target: CollectionTarget,
        limits: ProbeLimits,
        points: ShardPoints | ServerPoints,
        copy: CollectionCopy | None,
    ) -> None:
        super().__init__()
        self.target, self.limits, self._copy = target, limits, copy
        self.points: ShardPoints | ServerPoints | None = points
        self.on_copy = self.snapshots = copy is not None
        try:
            with self._asking() as asked:
                self._describe(asked.facts())
        except BaseException:
            self.close()
            raise

    @classmethod
    def open(cls, target: CollectionTarget, limits: ProbeLimits) -> QdrantCollection:
        """Copy the shard's folder, or ask the server."""
        remote = remote_collection(target)
        if remote is not None:
            return cls(target, limits, ServerPoints(_client(target, remote, limits), remote.name), None)
        with importing(Qdrant):
            import qdrant_edge as qdrant_edge  # noqa: PLC0414 - only whether it is installed
        folder = local_path(target, _EXAMPLE)
        _require_shard(target, folder)
        copy = CollectionCopy(folder)
        try:
            with told("qdrant"):
                points = ShardPoints(copy.path)
        except BaseException:
            copy.remove()
            raise
        return cls(target, limits, points, copy)

    def _describe(self, facts: PointFacts) -> None:
        require_rows(self.target, facts.points)
        self.using = _vector_name(self.target, facts.vectors)
        vector = facts.vectors[self.using]
        if vector.get("multivector_config"):
            raise EngineError(f"{self.target.text} has several vectors per point and name. Accepted: one")
        datatype = str(vector.get("datatype") or "float32").lower()
        metric = _DISTANCES.get(str(vector["distance"]))
        if metric is None:
            raise EngineError(
                f"{self.target.text} uses the distance {vector['distance']}. "
                f"Accepted: {choices(list(_DISTANCES))}"
            )
        self.searchable = facts.points
        if self.using:
            with self._asking() as asked:
                self.searchable = asked.count(self._having())
            require_rows(self.target, self.searchable)
        self.text_ids = self._has_text_ids()
        notes = null_note(facts.points - self.searchable, self.using)
        self.indexed = facts.indexed
        if not facts.indexed:
            notes += ("no point is indexed: every search scans all points",)
        elif facts.indexed < self.searchable:
            notes += (f"{self.searchable - facts.indexed:,} points are not indexed; every search scans them",)
        notes += ("a temporary copy of the folder is searched",) if self.on_copy else (UNTESTED,)
        hnsw = {**facts.hnsw, **{n: v for n, v in (vector.get("hnsw_config") or {}).items() if v is not None}}
        columns = self.first_columns()
        self.found = Discovery(
            target=self.target.text,
            engine="qdrant",
            rows=facts.points,
            dimension=int(vector["size"]),
            metric=metric,
            index=_definition(facts, hnsw, vector) if facts.indexed else None,
            columns={
                name: f"{columns.get(name, 'none in the first points')}"
                + (f", {facts.indexes[name].lower()} index" if name in facts.indexes else "")
                for name in sorted(columns.keys() | facts.indexes.keys())
            },
            exact=f"{datatype}[{vector['size']}]",
            quantized=datatype != "float32",
            notes=notes,
        )

    def _has_text_ids(self) -> bool:
        """Whether there are UUIDs, which come after numbers, or numbers beyond 63 bits."""
        with self._asking() as asked:
            return bool(asked.scroll(1, _BEYOND_WHOLE)[0])

    def _having(self) -> Any:
        """The filter for points with this vector; None if all have it."""
        if not self.using or self.points is None:
            return None
        api = self.points.api
        names = {"vector": self.using} if isinstance(self.points, ShardPoints) else {"has_vector": self.using}
        return api.Filter(must=[api.HasVectorCondition(**names)])

    def knobs(self) -> tuple[Knob, ...]:
        """The candidates of a search, stated with each call."""
        return Qdrant.search_knobs if self.indexed else ()

    def answer(self, vector: NDArray[Any], k: int, condition: Filter | None) -> Answer:
        """One query; Qdrant does not tell whether the graph answered or the points that pass were scanned."""
        wanted = None if condition is None else self.compiled(condition)
        if wanted is False:
            return Answer([], None, None)
        asked = np.asarray(vector, np.float32).tolist()
        with self._asking() as points:
            start = time.perf_counter()
            found = points.query(asked, self.using, k, wanted, self.search)
            seconds = time.perf_counter() - start
        return Answer([self._id(each.id) for each in found], seconds, None if self.indexed else False)

    def exact(self, vector: NDArray[Any], depth: int, condition: Filter | None) -> Neighbors:
        """Compare the original vectors of all points, without the graph and the quantization."""
        wanted = None if condition is None else self.compiled(condition)
        if wanted is False:
            return Neighbors([], np.empty(0), True)
        asked = np.asarray(vector, np.float32).tolist()
        with self._asking() as points:
            found = points.query(asked, self.using, depth, wanted, {"exact": True})
        sign = 1 if str(self.found.metric) == "l2" else -1
        distances = np.array([sign * each.score for each in found], np.float64)
        complete = len(found) < depth or len(found) == self.searchable
        return Neighbors([self._id(each.id) for each in found], distances, complete)

    def passing(self, condition: Filter) -> int:
        """Counted by Qdrant."""
        wanted = self.compiled(condition)
        if wanted is False:
            return 0
        having = self._having()
        with self._asking() as points:
            both = [each for each in (wanted, having) if each is not None]
            return points.count(points.api.Filter(must=both) if both else None)

    def translated(self, condition: Filter, columns: FilterColumns) -> Any:
        """The filter in the classes of the shard or the client."""
        for name in sorted(condition.columns() & columns.columns.keys()):
            if not _PLAIN_KEY.fullmatch(name):
                raise EngineError(f"qdrant cannot filter by {name!r}: Qdrant reads it as a path")
        reduced = columns.reduced(condition)
        if isinstance(reduced, bool):
            return None if reduced else False
        with self._asking() as points:
            return QdrantFilters(columns, points.api, own=True).filter(reduced)

    def pages(self, rows: int, *, vectors: bool = False, payloads: bool = False) -> Iterator[Page]:
        """The points by ascending id."""
        having, offset = self._having(), None
        while True:
            with self._asking() as points:
                found, offset = points.scroll(
                    rows, offset, having, vectors=vectors and self._names(), payloads=payloads
                )
            yield self._page(found, vectors, payloads)
            if offset is None:
                return

    def taken(self, ids: list[Any]) -> Page:
        """The vectors of some ids."""
        with self._asking() as points:
            own = [int(each) if self.text_ids and each.isdigit() else each for each in ids]
            return self._page(points.retrieve(own, self._names()), vectors=True, payloads=False)

    def _names(self) -> Any:
        return [self.using] if self.using else True

    def _page(self, found: Any, vectors: bool, payloads: bool) -> Page:
        matrix = None
        if vectors:
            lists = [each.vector[self.using] if self.using else each.vector for each in found]
            matrix = np.array(lists, np.float32).reshape(len(lists), -1)
        held = [each.payload for each in found] if payloads else None
        return Page([self._id(each.id) for each in found], matrix, held)

    def _id(self, found: Any) -> Any:
        """An id: a number, or text if there are UUIDs."""
        return str(found) if self.text_ids else found

    def snippet(self, search: Mapping[str, Any]) -> str:
        """The parameters of a query."""
        listed = ", ".join(f"{name}={value}" for name, value in search.items())
        if self.on_copy:
            return f"QueryRequest(..., params=qdrant_edge.SearchParams({listed}))"
        return f"client.query_points(..., search_params=models.SearchParams({listed}))"

    def close(self) -> None:
        """Let go of the shard and remove the copy, or disconnect."""
        points, self.points = self.points, None
        if points is not None:
            points.close()
        copy, self._copy = self._copy, None
        if copy is not None:
            copy.remove()

    @contextmanager
    def _asking(self) -> Iterator[ShardPoints | ServerPoints]:
        """The points, with errors turned into ours."""
        if self.points is None:
            raise EngineError(f"{self.target.text} is closed")
        with _answering(self.target, self.limits):
            yield self.points


@contextmanager
def _answering(target: CollectionTarget, limits: ProbeLimits) -> Iterator[None]:
    """Turn errors into ours; the client has one for all failures of a connection."""
    with told("qdrant"):
        try:
            yield
        except Exception as problem:
            if type(problem).__name__ != "ResponseHandlingException":
                raise
            if "timed out" in str(problem).lower():
                raise beyond_limit(target, limits) from None
            raise lost_connection(target, problem) from None


def _client(target: CollectionTarget, remote: RemoteCollection, limits: ProbeLimits) -> Any:
    """A client that asks nothing yet."""
    if importlib.util.find_spec("qdrant_client") is None:
        raise UsageError(
            f"{target.text}: qdrant-client, which a server needs, is not installed. "
            "Install it: pip install qdrant-client"
        )
    require_server(target, remote, limits)
    from qdrant_client import QdrantClient

    client = QdrantClient(
        host=remote.host,
        port=remote.port,
        https=stated_flag(target, "https"),
        api_key=secret_variable(Qdrant.secret_variables[0]),
        timeout=max(1, round(limits.seconds)),
        check_compatibility=False,
    )
    try:
        with _answering(target, limits):
            # Keys of a single collection may not list the others.
            if not client.collection_exists(remote.name):
                known = sorted(each.name for each in client.get_collections().collections)
                raise UsageError(f"{target.text}: {unknown('collection', remote.name, known)}")
    except BaseException:
        client.close()
        raise
    return client


def _require_shard(target: CollectionTarget, folder: Path) -> None:
    """Refuse folders that are no shard; loading one would make it a shard."""
    for place in (folder, folder.parent):
        if (place / "meta.json").is_file() and (place / "collection").is_dir():
            raise UsageError(
                f"{target.text}: {place} belongs to the local mode of qdrant-client, which has no index: "
                "every search is exact, and its recall is 1. Probe a server or an edge shard: " + _EXAMPLE
            )
    if not folder.is_dir():
        raise MissingFileError(f"{target.text}: the folder {folder} does not exist. Type it as {_EXAMPLE}")
    if not any((folder / "segments").glob("*/segment.json")):
        raise UsageError(
            f"{target.text}: the folder {folder} is no edge shard: it has no segments. Type it as {_EXAMPLE}"
        )


def _vector_name(target: CollectionTarget, vectors: Mapping[str, Any]) -> str:
    """The name of the dense vector; empty if points have a single one without a name."""
    if not vectors:
        raise EngineError(f"{target.text} has no dense vectors")
    return chosen(target, "vector", vectors, next(iter(vectors)) if len(vectors) == 1 else None, "vector")


def _definition(facts: PointFacts, hnsw: Mapping[str, Any], vector: Mapping[str, Any]) -> str:
    """The graph, the quantization and how much is indexed."""
    names = ("m", "payload_m", "ef_construct", "full_scan_threshold")
    graph = ", ".join(f"{name}={hnsw[name]}" for name in names if hnsw.get(name) is not None)
    held = vector.get("quantization_config") or facts.quantization
    codes = "no quantization"
    if held:
        kind, settings = next(iter(held.items()))
        said = ", ".join(f"{name}={value}" for name, value in (settings or {}).items() if value is not None)
        codes = f"{kind} quantization" + (f" ({said})" if said else "")
    return f"hnsw ({graph}), {codes}, {facts.indexed:,} of {facts.points:,} points indexed"
