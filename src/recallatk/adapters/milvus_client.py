"""Clients of existing Milvus collections: of a server, or of a copy of a Milvus Lite database."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

import pyarrow.parquet as pq

from recallatk.adapters.collection_copy import CollectionCopy
from recallatk.adapters.database import told
from recallatk.adapters.installation import importing
from recallatk.adapters.milvus import Milvus
from recallatk.errors import EngineError, UsageError, choices
from recallatk.references import secret_variable

if TYPE_CHECKING:
    from collections.abc import Callable

    from recallatk.adapters.collection import CollectionTarget
    from recallatk.adapters.probe_limits import ProbeLimits

EXAMPLE = "milvus://host:19530/collection, or milvus:///path/file.db/collection"
_PORT = 19530
_LOCAL = ("", ".", "..", "~")


class OpenedMilvus(NamedTuple):
    """A client, the collection that it is for, and the copy if there is one."""

    client: Any
    name: str
    copy: CollectionCopy | None

    def indexed_rows(self, vector: str) -> int | None:
        """Rows in the index files of a local database, which itself calls scanned rows indexed; else None.

        Args:
            vector: the field with the vectors.
        """
        if self.copy is None:
            return None
        rows = 0
        for index in self.copy.path.rglob(f"collections/{self.name}/**/*.{vector}.*.idx"):
            data = index.parent.parent / "data" / f"{index.name.partition('.')[0]}.parquet"
            if not data.exists():
                return None
            rows += pq.read_metadata(data).num_rows
        return rows

    def close(self) -> None:
        """Disconnect; stop Lite and remove its copy."""
        try:
            self.client.close()
        finally:
            if self.copy is not None:
                _removed(self.copy)


def open_milvus(target: CollectionTarget, limits: ProbeLimits) -> OpenedMilvus:
    """Connect to the server, or open a copy of the local database, that a target names.

    Args:
        target: a host before the first slash is a server; nothing, `.`, `..` and `~` begin a path.
        limits: time limits.
    """
    place, _, rest = target.place.partition("?")
    if rest:
        raise UsageError(f"{target.text}: no option {rest.partition('=')[0]!r}. Type it as {EXAMPLE}")
    host, path = place.partition("/")[0], Path(unquote(place)).expanduser()
    name = path.name
    if not name or (host not in _LOCAL and place.strip("/").count("/") != 1):
        raise UsageError(f"{target.text} names no collection. Type it as {EXAMPLE}")
    with importing(Milvus):
        import pymilvus  # noqa: F401
    # They log a traceback for every failure; the error raised here says why.
    for each in ("pymilvus", "milvus_lite", "grpc"):
        logging.getLogger(each).setLevel(logging.CRITICAL)
    if host in _LOCAL:
        return _local(target, path.parent, name)
    if path.parent.exists():
        raise UsageError(
            f"{target.text} names the server {host}. For the file of that name: milvus://./{host}/{name}"
        )
    return OpenedMilvus(_server(target, host, limits), name, None)


def _server(target: CollectionTarget, host: str, limits: ProbeLimits) -> Any:
    from pymilvus import MilvusClient

    if "@" in host:
        raise UsageError(
            f"{target.text}: no user or password belongs in the URL. Set MILVUS_TOKEN to the token, or to "
            "user:password"
        )
    secure = target.options.get("https", "false")
    if secure not in ("true", "false"):
        raise UsageError(f"{target.text}: https={secure}. Accepted: true or false")
    address = host if ":" in host else f"{host}:{_PORT}"
    try:
        return MilvusClient(
            f"{'https' if secure == 'true' else 'http'}://{address}",
            token=secret_variable(Milvus.secret_variables[0]) or "",
            db_name=target.options.get("database", ""),
            timeout=limits.connect_seconds,
        )
    except Exception as problem:
        said = str(getattr(problem, "message", problem))
        raise EngineError(
            f"{target.text}: no connection: {said[:200]}. Check host, port, https=true and MILVUS_TOKEN"
        ) from None


def _local(target: CollectionTarget, source: Path, name: str) -> OpenedMilvus:
    with importing(Milvus):
        import milvus_lite  # noqa: F401
        from pymilvus import MilvusClient
    if not source.exists():
        raise UsageError(f"{target.text}: {source} does not exist. Type it as {EXAMPLE}")
    # The client takes a path for a database of Lite if it ends so.
    copy = CollectionCopy(source, left_out=_others(target, source, name), name="copy.db")
    try:
        with told("milvus"):
            client = MilvusClient(str(copy.path), db_name=target.options.get("database", ""))
    except BaseException:
        _removed(copy)
        raise
    return OpenedMilvus(client, name, copy)


def _removed(copy: CollectionCopy) -> None:
    """Stop the server of a copy, and remove it."""
    from milvus_lite.server_manager import server_manager_instance

    try:
        server_manager_instance.release_server(str(copy.path))
    finally:
        copy.remove()


def _others(target: CollectionTarget, source: Path, name: str) -> Callable[[Path], bool] | None:
    """Whether a path belongs to another collection, which need not be copied; None to copy all."""
    database = target.options.get("database", "default")
    home = source if database == "default" else source / "databases" / database
    held = home / "collections"
    if not held.is_dir():
        # A database of another form than that of today; the library decides.
        return None
    aliases = home / "aliases.json"
    if not (held / name).is_dir():
        if aliases.exists() and f'"{name}"' in aliases.read_text(encoding="utf-8"):
            return None
        known = sorted(each.name for each in held.iterdir() if each.is_dir())
        raise UsageError(
            f"{target.text}: no collection {name!r}. The collections are: {choices(known) or 'none'}"
        )

    def left_out(path: Path) -> bool:
        return held in path.parents and held / name not in (path, *path.parents)

    return left_out
