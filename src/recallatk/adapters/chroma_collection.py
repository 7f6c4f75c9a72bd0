"""Existing Chroma collections: a copy of a local folder, or a server where it is."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import quote

import numpy as np

from recallatk.adapters.chroma import Chroma, close_client, local_client, quiet, server_client
from recallatk.adapters.chroma_filters import ChromaFilters
from recallatk.adapters.collection import Answer, CollectionTarget, Discovery
from recallatk.adapters.collection_copy import CollectionCopy
from recallatk.adapters.database import told
from recallatk.adapters.embedded_collection import local_path, require_rows
from recallatk.adapters.installation import importing
from recallatk.adapters.payload_collection import Page, PayloadCollection
from recallatk.adapters.server_target import (
    beyond_limit,
    lost_connection,
    remote_collection,
    require_server,
    stated_flag,
)
from recallatk.core import Metric
from recallatk.errors import EngineError, MissingFileError, UsageError, choices
from recallatk.references import secret_variable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from recallatk.adapters.probe_limits import ProbeLimits
    from recallatk.adapters.server_target import RemoteCollection
    from recallatk.adapters.stored_columns import FilterColumns
    from recallatk.core import Knob
    from recallatk.filters import Filter

_EXAMPLE = "chroma://folder/collection or chroma://host:8000/collection"
_STORE = "chroma.sqlite3"


class ChromaCollection(PayloadCollection):
    """A collection of Chroma: of a folder, which opening would write to, a copy is opened."""

    schemes: ClassVar = ("chroma",)
    options: ClassVar = ("tenant", "database", "https")
    # A bound of 1.5 is 1 for values that are stored as whole numbers.
    one_number: ClassVar = False
    text_ids = True

    def __init__(
        self,
        target: CollectionTarget,
        name: str,
        limits: ProbeLimits,
        connect: Callable[[], Any],
        copy: CollectionCopy | None,
    ) -> None:
        super().__init__()
        self.target, self.name, self.limits, self._connect, self._copy = target, name, limits, connect, copy
        self.on_copy = self.snapshots = copy is not None
        self.client: Any = None
        try:
            self._open()
            self._describe()
        except BaseException:
            self.close()
            raise

    @classmethod
    def open(cls, target: CollectionTarget, limits: ProbeLimits) -> ChromaCollection:
        """Copy the folder, or ask the server."""
        with importing(Chroma):
            import chromadb as chromadb  # noqa: PLC0414 - only whether it is installed
        named = {name: target.options[name] for name in ("tenant", "database") if name in target.options}
        remote = remote_collection(target)
        if remote is not None:
            secure, token = stated_flag(target, "https"), secret_variable(Chroma.secret_variables[0])
            require_server(target, remote, limits)

            def connect() -> Any:
                _require_database(target, remote, secure, token, limits)
                client = server_client(remote.host, remote.port, secure, token, **named)
                client._server._session.timeout = limits.seconds
                return client

            return cls(target, remote.name, limits, connect, None)
        path = local_path(target, _EXAMPLE)
        if (path / _STORE).is_file():
            raise UsageError(f"{target.text} names no collection. {_listed(path, named)}")
        folder = path.parent
        if not (folder / _STORE).is_file():
            there = "has no Chroma store" if folder.is_dir() else "does not exist"
            raise MissingFileError(
                f"{target.text}: the folder {folder} {there} ({_STORE}). Type it as {_EXAMPLE}"
            )
        copy = CollectionCopy(folder)
        return cls(target, path.name, limits, lambda: local_client(copy.path, **named), copy)

    def _open(self) -> None:
        from chromadb.errors import NotFoundError

        with self._asking():
            self.client = self._connect()
            try:
                self.collection = self.client.get_collection(self.name, embedding_function=None)
            except (NotFoundError, ValueError):
                known = sorted(each.name for each in self.client.list_collections())
                raise UsageError(
                    f"{self.target.text}: no collection {self.name!r}. The collections are: "
                    f"{choices(known) or 'none'}"
                ) from None

    def _describe(self) -> None:
        with self._asking():
            settings, self.searchable = self.collection.configuration_json, self.collection.count()
        require_rows(self.target, self.searchable)
        kind = "hnsw" if settings.get("hnsw") else "spann"
        held: dict[str, Any] = settings.get(kind) or {}
        [first] = self.taken(next(self.pages(1)).ids).vectors  # type: ignore[misc]
        graph = ", ".join(
            f"{name}={held[name]}"
            for name in ("space", "max_neighbors", "ef_construction")
            if held.get(name) is not None
        )
        name = "ef_search" if kind == "hnsw" else "search_nprobe"
        self._stored_ef = held.get(name)
        self.found = Discovery(
            target=self.target.text,
            engine="chroma",
            rows=self.searchable,
            dimension=len(first),
            metric=Metric(held.get("space", "l2")),
            index=f"{kind} ({graph})",
            settings={} if self._stored_ef is None else {name: self._stored_ef},
            columns=self.first_columns(),
            notes=("a temporary copy of the folder is searched",) if self.on_copy else (),
        )
        self._load()

    def _load(self) -> None:
        """One query that is not timed: the first one loads a copy."""
        if self.on_copy:
            self.answer(np.ones(self.found.dimension or 1), 1, None)

    def knobs(self) -> tuple[Knob, ...]:
        """The effort of the graph, which only a copy can be loaded with."""
        return Chroma.search_knobs if self.on_copy and "ef_search" in self.found.settings else ()

    def without_effort(self) -> str:
        """Why a server's collection has no effort for one client."""
        return (
            "a Chroma server takes ef_search from the collection, for all of its clients, when it loads the "
            "collection. Tune a copy of its folder: chroma://folder/collection"
        )

    def configure(self, search: Mapping[str, Any], settings: Mapping[str, str] | None = None) -> None:
        """Load the copy with another ef_search."""
        if search and not self.knobs():
            raise UsageError(f"--search {next(iter(search))}: {self.without_effort()}")
        super().configure(search, settings)
        if not self.knobs():
            return
        wanted = self.search.get("ef_search", self._stored_ef)
        if wanted == self.found.settings["ef_search"]:
            return
        with self._asking():
            # A collection that is loaded keeps its ef_search.
            self.collection.modify(configuration={"hnsw": {"ef_search": wanted}})
            close_client(self.client)
        self._open()
        self._load()
        self.found = replace(self.found, settings={"ef_search": wanted})

    def answer(self, vector: NDArray[Any], k: int, condition: Filter | None) -> Answer:
        """One query; Chroma does not tell whether its graph answered."""
        where = None if condition is None else self.compiled(condition)
        if where is False:
            return Answer([], None, None)
        asked = np.asarray(vector, np.float32)[None]
        with self._asking():
            start = time.perf_counter()
            found = self.collection.query(query_embeddings=asked, n_results=k, where=where, include=[])
            seconds = time.perf_counter() - start
        return Answer(list(found["ids"][0]), seconds, None)

    def translated(self, condition: Filter, columns: FilterColumns) -> Any:
        """The filter as `where`."""
        return ChromaFilters(columns).compiled(condition)

    def pages(self, rows: int, *, vectors: bool = False, payloads: bool = False) -> Iterator[Page]:
        """The rows in the order in which they were added."""
        include = [name for name, wanted in (("embeddings", vectors), ("metadatas", payloads)) if wanted]
        for start in range(0, self.searchable, rows):
            with self._asking():
                found = self.collection.get(limit=rows, offset=start, include=include)
            yield Page(found["ids"], found["embeddings"], found["metadatas"])
        if not self.on_copy:
            self._require_unchanged()

    def _require_unchanged(self) -> None:
        """Pages are counted off, so that rows that are deleted meanwhile would move others out of them."""
        with self._asking():
            now = self.collection.count()
        if now != self.searchable:
            raise EngineError(
                f"{self.target.text} had {self.searchable:,} rows and has {now:,}: rows were written while "
                "they were read. Probe it while nothing writes to it"
            )

    def taken(self, ids: list[Any]) -> Page:
        """The vectors of some ids."""
        with self._asking():
            found = self.collection.get(ids=ids, include=["embeddings"])
        return Page(found["ids"], np.asarray(found["embeddings"], np.float32))

    def snippet(self, search: Mapping[str, Any]) -> str:
        """The change of the collection, and when it takes effect."""
        listed = ", ".join(f'"{name}": {value}' for name, value in search.items())
        return (
            f'client.get_collection("{self.name}").modify(configuration={{"hnsw": {{{listed}}}}})\n'
            "# in force when the collection is loaded the next time: restart the server or the program"
        )

    def close(self) -> None:
        """Let go of the store, and remove the copy."""
        client, self.client = self.client, None
        if client is not None:
            close_client(client)
        copy, self._copy = self._copy, None
        if copy is not None:
            copy.remove()

    @contextmanager
    def _asking(self) -> Iterator[None]:
        """Turn errors into ours."""
        import httpx
        from chromadb.errors import NotFoundError

        with quiet(), told("chroma"):
            try:
                yield
            except httpx.TimeoutException:
                raise beyond_limit(self.target, self.limits) from None
            except httpx.TransportError as problem:
                raise lost_connection(self.target, problem) from None
            except NotFoundError as problem:
                if not hasattr(self, "found"):
                    raise
                raise EngineError(
                    f"{self.target.text}: the collection was deleted or made anew meanwhile: {problem}. "
                    "Start the probe again"
                ) from None


def _require_database(
    target: CollectionTarget, remote: RemoteCollection, secure: bool, token: str | None, limits: ProbeLimits
) -> None:
    """Ask the server for the database, because a new client waits for that without a limit.

    Args:
        target: where `tenant` and `database` may be named.
        remote: the server.
        secure: whether it is asked by HTTPS.
        token: the token of the client, if it needs one.
        limits: the time limit.
    """
    import httpx

    tenant = target.options.get("tenant", "default_tenant")
    database = target.options.get("database", "default_database")
    host = f"[{remote.host}]" if ":" in remote.host else remote.host
    path = f"/api/v2/tenants/{quote(tenant, safe='')}/databases/{quote(database, safe='')}"
    said = httpx.get(
        f"http{'s' if secure else ''}://{host}:{remote.port}{path}",
        headers={"x-chroma-token": token} if token else None,
        timeout=limits.seconds,
    )
    if said.status_code in (401, 403):
        raise EngineError(
            f"{target.text}: the server does not admit this client. Set {Chroma.secret_variables[0]}"
        )
    if said.status_code == 404:
        raise UsageError(
            f"{target.text}: the server has no database {database!r} of the tenant {tenant!r}. Name them "
            "with tenant= and database="
        )


def _listed(folder: Path, named: Mapping[str, str]) -> str:
    """What could have been named in a folder."""
    copy = CollectionCopy(folder)
    try:
        with told("chroma"), quiet():
            client = local_client(copy.path, **named)
            try:
                known = sorted(each.name for each in client.list_collections())
            finally:
                close_client(client)
    finally:
        copy.remove()
    return f"Type it as {_EXAMPLE}. The collections are: {choices(known) or 'none'}"
