"""chroma: an HNSW index behind an embedded database in a temporary folder, or behind its server."""

from __future__ import annotations

import contextlib
import uuid
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urlsplit

import numpy as np

from recallatk.adapters.base import Abilities
from recallatk.adapters.batch import QueryBatch, float32_matrix, padded
from recallatk.adapters.chroma_filters import ChromaFilters
from recallatk.adapters.database import Database, address, dropping, told
from recallatk.adapters.live import SAMPLE, IndexFacts, LiveCollection
from recallatk.adapters.snippet import INPUTS, Setting, lines
from recallatk.adapters.stored_columns import StoredColumns, own_columns
from recallatk.core import Corpus, Knob, Metric, blocks
from recallatk.errors import EngineError
from recallatk.scratch import ScratchFolder

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    import pyarrow as pa
    from numpy.typing import NDArray

    from recallatk.filters import Filter

# Chroma writes its graph to disk each time it has received this many rows; later rows stay in a log.
SYNC_THRESHOLD = 1000
DEFAULT_EF = 100


class Chroma(Database):
    """Chroma collection (HNSW); ef_search is fixed on loading, so every change reloads or rebuilds it."""

    name = "chroma"
    family = "chroma"
    distribution = "chromadb"
    extra = "chroma"
    secret_variables = ("CHROMA_API_KEY",)
    abilities = Abilities(filters=True, updates=True, clients=True)
    build_knobs = (
        Knob(
            "url",
            default="",
            help="server URL; without one, a local folder in process (token: CHROMA_API_KEY)",
        ),
        Knob("M", default=16, low=2, high=256),
        Knob("ef_construction", default=100, low=2, high=5000, effort=True),
    )
    search_knobs = (Knob("ef_search", default=DEFAULT_EF, low=1, high=10_000, effort=True),)

    @classmethod
    def reaches(cls, **parameters: Any) -> str | None:
        """The server, if the build names one."""
        return "the server at url" if parameters["url"] else None

    def build(self, corpus: Corpus, metric: Metric, **parameters: Any) -> None:
        """Add every row to a new collection."""
        self.close()
        self.corpus, self.metric, self.parameters = corpus, metric, parameters
        self.columns = StoredColumns(self.name, corpus)
        self.updated = False
        if not parameters["url"]:
            self.folder = ScratchFolder()
        with quiet(), self.told():
            self.connection = self._open()
            self._fill(DEFAULT_EF)

    def _open(self) -> Any:
        if self.folder is not None:
            return local_client(self.folder.path)
        url = urlsplit(address(self.name, self.parameters["url"]))
        if url.scheme not in ("http", "https") or not url.hostname:
            raise EngineError("chroma: url. Accepted: http://host:8000")
        secure = url.scheme == "https"
        return server_client(url.hostname, url.port or (443 if secure else 8000), secure, self.key())

    def _fill(self, ef_search: int) -> None:
        hnsw = {
            "space": str(self.metric),
            "ef_construction": self.parameters["ef_construction"],
            "max_neighbors": self.parameters["M"],
            "ef_search": ef_search,
            "sync_threshold": max(2, min(SYNC_THRESHOLD, self.corpus.rows)),
        }
        self.collection = self.connection.create_collection(
            f"recallatk-{uuid.uuid4().hex}", configuration={"hnsw": hnsw}, embedding_function=None
        )
        self.rows, self.ef_search = 0, ef_search
        for start, block in blocks(self.corpus.vectors):
            self._add(block, self.columns.read(start, start + len(block)))
        self._warm()

    def _add(self, vectors: NDArray[Any], payloads: list[dict[str, Any]]) -> None:
        matrix, step = float32_matrix(vectors), self.connection.get_max_batch_size()
        for start in range(0, len(matrix), step):
            part = matrix[start : start + step]
            metadatas: Any = [_metadata(each) for each in payloads[start : start + step]]
            self.collection.add(
                ids=[str(self.rows + number) for number in range(len(part))],
                embeddings=part,
                metadatas=metadatas if any(metadatas) else None,
            )
            self.rows += len(part)

    def _warm(self) -> None:
        """Send one untimed query, because the first query loads the collection."""
        self.collection.query(query_embeddings=[[1.0] * self.corpus.dimension], n_results=1, include=[])

    def configure(self, **parameters: Any) -> None:
        """Reload the collection with another ef_search; a server requires a rebuild."""
        super().configure(**parameters)
        ef_search = parameters["ef_search"]
        if ef_search == self.ef_search:
            return
        with quiet(), self.told():
            if self.folder is None:
                if self.updated:
                    raise EngineError("chroma: a server cannot change ef_search after rows were updated")
                self.connection.delete_collection(self.collection.name)
                self._fill(ef_search)
                return
            self.collection.modify(configuration={"hnsw": {"ef_search": ef_search}})
            name, self.ef_search = self.collection.name, ef_search
            self.connection.close()
            self.connection = self._open()
            self.collection = self.connection.get_collection(name, embedding_function=None)
            self._warm()

    def nearest(self, batch: QueryBatch, k: int) -> NDArray[np.int64]:
        """Nearest rows by the graph; queries with the same filter are sent together."""
        if self.connection is None:
            raise self.unbuilt()
        matrix = float32_matrix(batch.vectors)
        answers: list[list[int]] = [[] for _ in matrix]
        with self.told():
            for condition, numbers in batch.by_filter():
                where = None if condition is None else self.compiled(condition)
                if where is False:
                    continue
                found = self.collection.query(
                    query_embeddings=matrix[numbers], n_results=k, where=where, include=[]
                )
                for number, ids in zip(numbers, found["ids"], strict=True):
                    answers[number] = [int(each) for each in ids]
        return padded(answers, k)

    def compiled(self, condition: Filter) -> Any:
        """The filter as Chroma's `where`; None lets every row pass, and False none."""
        return ChromaFilters(self.columns).compiled(condition)

    def exercised(self) -> str:
        """Rows in the file of the graph; a server shows only its row count and configuration."""
        if self.connection is None:
            raise self.unbuilt()
        with self.told():
            rows = self.collection.count()
        if self.folder is None:
            return f"the server has a collection of {rows:,} rows, ef_search {self.ef_search}"
        # This file of the index holds one number per row.
        held = sum(each.stat().st_size // 4 for each in self.folder.path.glob("*/length.bin"))
        if not held:
            raise EngineError("chroma: the index did not answer: no graph was written")
        return f"graph of {held:,} rows on disk, of {rows:,}; ef_search {self.ef_search}"

    def call(self) -> str:
        """A call in process, or a request to the server."""
        return super().call() if self.folder is not None else "HTTP round trip"

    def insert(self, vectors: NDArray[Any], metadata: pa.Table | None = None) -> None:
        """Add rows to the collection."""
        self.updated = True
        with self.told():
            self._add(vectors, self.columns.inserted(metadata, len(vectors)))

    def delete(self, rows: NDArray[np.int64]) -> None:
        """Delete rows."""
        self.updated = True
        with self.told():
            for start in range(0, len(rows), step := self.connection.get_max_batch_size()):
                self.collection.delete(ids=[str(row) for row in rows[start : start + step].tolist()])

    def close(self) -> None:
        """Drop the collection and the folder."""
        client, self.connection = self.connection, None
        if client is not None:
            with dropping(self.name, self.collection.name):
                client.delete_collection(self.collection.name)
            close_client(client)
        folder, self.folder = self.folder, None
        if folder is not None:
            folder.remove()

    @classmethod
    def snippet(cls, setting: Setting) -> str:
        """Code that creates the collection with a fixed ef_search, adds rows in batches, and queries."""
        build = setting.build
        return lines(
            "import chromadb",
            "",
            INPUTS,
            f"client = {_client_code(build['url'])}",
            "collection = client.create_collection(",
            '    "items",',
            '    configuration={"hnsw": {',
            f'        "space": "{setting.metric}",',
            f'        "max_neighbors": {build["M"]},',
            f'        "ef_construction": {build["ef_construction"]},',
            f'        "ef_search": {setting.search["ef_search"]},',
            "    }},",
            "    embedding_function=None,",
            ")",
            "step = client.get_max_batch_size()",
            "for start in range(0, len(vectors), step):",
            "    part = vectors[start : start + step]",
            "    collection.add(ids=[str(start + row) for row in range(len(part))], embeddings=part)",
            "",
            f"answers = collection.query(query_embeddings=queries, n_results={setting.k}, include=[])",
            'found = [[int(row) for row in ids] for ids in answers["ids"]]',
        )


def local_client(path: Path, **database: str) -> Any:
    """A client of the store in a folder, in this process.

    Args:
        path: the folder.
        database: `tenant` and `database`, if they are not the defaults.
    """
    import chromadb

    return chromadb.PersistentClient(path=path, settings=_settings(), **database)


def server_client(host: str, port: int, secure: bool, token: str | None, **database: str) -> Any:
    """A client of a server; building it asks the server for its version."""
    import chromadb

    headers = {"x-chroma-token": token} if token else None
    return chromadb.HttpClient(
        host=host, port=port, ssl=secure, headers=headers, settings=_settings(), **database
    )


def _settings() -> Any:
    from chromadb.config import Settings

    return Settings(anonymized_telemetry=False)


def close_client(client: Any) -> None:
    """Close the client and the server connections that it would leave open."""
    client.close()
    for holder in (client, getattr(client, "_admin_client", None)):
        session = getattr(getattr(holder, "_server", None), "_session", None)
        if session is not None:
            session.close()


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Suppress the warning that a collection has no embedding function."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "legacy embedding function config", DeprecationWarning)
        yield


def _metadata(payload: dict[str, Any]) -> dict[str, Any] | None:
    """The values of one row; Chroma stores no empty list, which contains as little as a missing one."""
    return {key: value for key, value in payload.items() if value != []} or None


def _client_code(url: str) -> str:
    if not url:
        return 'chromadb.PersistentClient("./chroma")'
    parts = urlsplit(url)
    secure = parts.scheme == "https"
    port = parts.port or (443 if secure else 8000)
    return f"chromadb.HttpClient(host={parts.hostname!r}, port={port}, ssl={secure})"


class LiveChroma(LiveCollection):
    """A collection of Chroma, searched with the ef_search that it was loaded with."""

    family = "chroma"
    distribution = "chromadb"
    abilities: ClassVar = replace(LiveCollection.abilities, filters=True)

    def title(self) -> str:
        """The class."""
        return "chromadb.Collection"

    def facts(self) -> IndexFacts:
        """The space, dimension and row count."""
        with told(self.name), quiet():
            settings, rows = self.index.configuration_json, self.index.count()
            first = self._vectors(1)
        space = (settings.get("hnsw") or settings.get("spann") or {}).get("space", "l2")
        return IndexFacts(Metric(space), first.shape[1] if rows else None, rows)

    def _vectors(self, count: int) -> NDArray[Any]:
        return np.asarray(self.index.get(limit=count, include=["embeddings"])["embeddings"])

    def stored(self, labels: NDArray[np.int64]) -> NDArray[Any]:
        """Some vectors."""
        with told(self.name):
            return self._vectors(SAMPLE)

    def some_ids(self, corpus: Corpus) -> list[Any]:
        """Some ids."""
        with told(self.name):
            return list(self.index.get(limit=SAMPLE, include=[])["ids"])

    def attach(self, corpus: Corpus, metric: Metric, **parameters: Any) -> None:
        """Remember the columns, which the collection has under the same names."""
        super().attach(corpus, metric, **parameters)
        self._columns = own_columns(self.name, corpus)

    def translated(self, condition: Filter) -> Any:
        """The `where` of the collection; None lets every row pass, and False none."""
        self.require_columns(condition, self._columns.corpus)
        return ChromaFilters(self._columns).compiled(condition)

    def metadata_of(self, found: Any) -> Mapping[str, Any]:
        """The metadata of one id."""
        [stored] = self.index.get(ids=[str(found)], include=["metadatas"])["metadatas"] or [None]
        return stored or {}

    def lists(self, batch: QueryBatch, k: int) -> list[list[Any]]:
        """One query of the collection for each filter."""
        found: list[list[Any]] = [[] for _ in range(batch.count)]
        for condition, places in batch.by_filter():
            where = None if condition is None else self.compiled(condition)
            if where is False:
                continue
            vectors = batch.vectors if len(places) == batch.count else batch.vectors[places]
            asked = self.index.query(query_embeddings=vectors, n_results=k, where=where, include=[])
            for place, ids in zip(places, asked["ids"], strict=True):
                found[place] = ids
        return found

    def call(self) -> str:
        """A call in process, or a request to the server."""
        remote = "FastAPI" in type(getattr(self.index, "_client", None)).__name__
        return "HTTP round trip" if remote else super().call()
