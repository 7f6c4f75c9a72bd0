"""SQLite files: opened without a change to them or beside them, with the functions of sqlite-vec."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from recallatk.errors import EngineError

if TYPE_CHECKING:
    from pathlib import Path

_MAGIC = b"SQLite format 3\0"
_WRITE_AHEAD = 2


def reason_to_copy(path: Path, text: str) -> str | None:
    """Why a file cannot be read in place without creating or changing files beside it; None if it can."""
    with path.open("rb") as file:
        header = file.read(20)
    if not header.startswith(_MAGIC):
        raise EngineError(f"{text} is no SQLite database")
    if _WRITE_AHEAD in header[18:20]:
        return f"{path.name} is in WAL mode, and whoever reads it creates or changes {path.name}-shm"
    journal = path.with_name(f"{path.name}-journal")
    if journal.exists() and journal.stat().st_size:
        return f"{journal.name} holds a transaction that whoever reads {path.name} may have to undo"
    return None


def connected(path: Path, own: bool) -> Any:
    """A connection that can search vectors; to a copy of our own it may also write."""
    import apsw
    import sqlite_vec

    mode = apsw.SQLITE_OPEN_READWRITE if own else apsw.SQLITE_OPEN_READONLY
    name = f"file:{quote(str(path.absolute()))}?mode={'rw' if own else 'ro'}"
    try:
        connection = apsw.Connection(name, flags=mode | apsw.SQLITE_OPEN_URI)
        connection.set_busy_timeout(2000)
        connection.enable_load_extension(True)
        connection.load_extension(sqlite_vec.loadable_path())
        connection.enable_load_extension(False)
        for setting in ("query_only = 1", "trusted_schema = 0", "temp_store = memory"):
            connection.execute(f"PRAGMA {setting}").fetchall()
    except apsw.Error as problem:
        raise EngineError(f"{path} cannot be read: {str(problem).strip()}") from problem
    return connection
