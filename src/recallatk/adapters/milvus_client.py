"""Clients of existing Milvus collections: of a server, or of a copy of a Milvus Lite database."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow.parquet as pq

from recallatk.adapters.collection_copy import CollectionCopy
from recallatk.adapters.database import told
from recallatk.adapters.embedded_collection import local_path
from recallatk.adapters.installation import importing
from recallatk.adapters.milvus import Milvus
from recallatk.adapters.server_target import (
    beyond_limit,
    lost_connection,
    remote_collection,
    require_server,
    stated_flag,
)
from recallatk.errors import EngineError, MissingFileError, RecallError, UsageError, choices
from recallatk.redaction import redact_text
from recallatk.references import secret_variable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from recallatk.adapters.collection import CollectionTarget
    from recallatk.adapters.probe_limits import ProbeLimits
    from recallatk.adapters.server_target import RemoteCollection

_BEYOND = ("deadline exceeded", "deadline_exceeded", "retry timeout")
_LOST = ("fail connecting", "unavailable", "connection refused")
EXAMPLE = "milvus://path/file.db/collection, or milvus://host:19530/collection for a server"


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
        held = None if self.copy is None else next(self.copy.path.rglob(f"collections/{self.name}"), None)
        if held is None:
            return None
        rows = 0
        for index in held.rglob(f"*.{vector}.*.idx"):
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
        target: host and port before the first slash are a server; everything else is a path.
        limits: time limits.
    """
    with importing(Milvus):
        import pymilvus  # noqa: F401
    # They log a traceback for every failure; the error raised here says why.
    for each in ("pymilvus", "milvus_lite", "grpc"):
        logging.getLogger(each).setLevel(logging.CRITICAL)
    host = target.place.partition("/")[0]
    if "@" in host and ":" in host:
        raise UsageError(
            f"{target.text}: no user or password belongs in the URL. Set MILVUS_TOKEN to the token, or to "
            "user:password"
        )
    remote = remote_collection(target)
    if remote is None:
        path = local_path(target, EXAMPLE)
        return _local(target, path.parent, path.name)
    require_server(target, remote, limits)
    return OpenedMilvus(_server(target, remote, limits), remote.name, None)


@contextmanager
def told_by_milvus(target: CollectionTarget, limits: ProbeLimits) -> Iterator[None]:
    """Turn failures of a call into ours: time limit, lost connection, and what the database refuses.

    Args:
        target: the target, for messages.
        limits: time limits.
    """
    with told("milvus"):
        try:
            yield
        except RecallError:
            raise
        except Exception as problem:
            said = str(problem).lower()
            if any(each in said for each in _BEYOND):
                raise beyond_limit(target, limits) from None
            if any(each in said for each in _LOST):
                raise lost_connection(target, problem) from None
            raise


def _server(target: CollectionTarget, remote: RemoteCollection, limits: ProbeLimits) -> Any:
    from pymilvus import MilvusClient

    host = f"[{remote.host}]" if ":" in remote.host else remote.host
    try:
        return MilvusClient(
            f"{'https' if stated_flag(target, 'https') else 'http'}://{host}:{remote.port}",
            token=secret_variable(Milvus.secret_variables[0]) or "",
            db_name=target.options.get("database", ""),
            timeout=limits.connect_seconds,
        )
    except RecallError:
        raise
    except Exception as problem:
        said = redact_text(str(getattr(problem, "message", problem)))
        raise EngineError(
            f"{target.text}: no connection: {said[:200]}. Check host, port, https=true, database and "
            "MILVUS_TOKEN"
        ) from None


def _local(target: CollectionTarget, source: Path, name: str) -> OpenedMilvus:
    with importing(Milvus):
        import milvus_lite  # noqa: F401
        from pymilvus import MilvusClient
    if not source.exists():
        raise MissingFileError(f"{target.text}: {source} does not exist. Type it as {EXAMPLE}")
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
