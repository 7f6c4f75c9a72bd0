"""The history on disk: one SQLite file that is only ever appended to, by any number of processes."""

from __future__ import annotations

import json
import os
import secrets
import sqlite3
import zlib
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.core.history import EntryKind, HistoryEntry
from recallatk.errors import FormatError, UsageError, WriteError
from recallatk.files import require_ordinary, require_version

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from recallatk.files import PathLike

HISTORY = "history.db"
FORMAT = 1
# "rcll", so that another program's database is never taken for a history.
_APPLICATION = 0x72636C6C
# A writer holds the file for milliseconds; a backup may hold it longer.
_WAIT_SECONDS = 30.0
_MOST_BYTES = 256 * 2**20
_COLUMNS = (
    "recorded", "kind", "collection", "subject", "measure", "value", "low", "high", "queries", "verdict",
    "state", "costs", "query_set", "origin", "per_query",
)  # fmt: skip
_TABLE = """
CREATE TABLE entries (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  recorded TEXT NOT NULL, kind TEXT NOT NULL, collection TEXT NOT NULL, subject TEXT NOT NULL,
  measure TEXT NOT NULL, value REAL NOT NULL, low REAL, high REAL, queries INTEGER NOT NULL, verdict TEXT,
  state TEXT NOT NULL, costs TEXT NOT NULL, query_set TEXT, origin TEXT NOT NULL, per_query BLOB
);
CREATE UNIQUE INDEX entries_are_appended_once ON entries (origin, subject, measure);
CREATE TRIGGER only_appended_1 BEFORE UPDATE ON entries
BEGIN SELECT RAISE(ABORT, 'a history is only appended to'); END;
CREATE TRIGGER only_appended_2 BEFORE DELETE ON entries
BEGIN SELECT RAISE(ABORT, 'a history is only appended to'); END;
"""


def append_history(path: PathLike, entries: Sequence[HistoryEntry]) -> None:
    """Append entries that are not there yet, all or none; the file is made if there is none.

    Args:
        path: the file of the history.
        entries: what was measured.
    """
    file = Path(path)
    rows = [_row(each) for each in entries]
    with _failing_as_write(file):
        file.parent.mkdir(parents=True, exist_ok=True)
        with _opened(file, "rwc") as connection:
            connection.execute("BEGIN IMMEDIATE")
            _require_history(connection, file, new=True)
            marks = ", ".join("?" * len(_COLUMNS))
            connection.executemany(
                f"INSERT OR IGNORE INTO entries ({', '.join(_COLUMNS)}) VALUES ({marks})",  # noqa: S608 - our own names
                rows,
            )
            connection.execute("COMMIT")


def require_appendable(path: PathLike) -> None:
    """Refuse a file that is no history, or that cannot be written, before work is done for it."""
    append_history(path, ())


def read_history(path: PathLike) -> list[HistoryEntry]:
    """All entries, in the order in which they were appended."""
    file = Path(path)
    if not file.exists():
        raise UsageError(f"{file}: no history. Measurements are recorded with --history {file}")
    try:
        # A writer that was killed leaves a journal, which only those who may write can roll back.
        with _opened(file, "rw" if os.access(file, os.W_OK) else "ro") as connection:
            _require_history(connection, file, new=False)
            found = connection.execute(
                f"SELECT {', '.join(_COLUMNS)} FROM entries ORDER BY number"  # noqa: S608 - our own names
            ).fetchall()
        return [_entry(row) for row in found]
    except (
        sqlite3.Error,
        ValueError,
        KeyError,
        TypeError,
        zlib.error,
        RecursionError,
        OverflowError,
    ) as problem:
        raise FormatError(str(file), str(problem), "a history of recallatk") from problem


@contextmanager
def _opened(file: Path, mode: str) -> Iterator[sqlite3.Connection]:
    require_ordinary(file)
    if file.is_dir():
        raise UsageError(f"{file}: is a folder. Accepted: a file such as {file / HISTORY}")
    place = f"{file.resolve().as_uri()}?mode={mode}"
    with closing(sqlite3.connect(place, uri=True, timeout=_WAIT_SECONDS, isolation_level=None)) as opened:
        yield opened


def _require_history(connection: sqlite3.Connection, file: Path, *, new: bool) -> None:
    """Refuse other databases and newer formats; an empty file becomes a history if it may."""
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    if new and application == 0 and not connection.execute("SELECT * FROM sqlite_master").fetchall():
        connection.execute(f"PRAGMA application_id = {_APPLICATION}")
        connection.execute(f"PRAGMA user_version = {FORMAT}")
        for statement in _statements(_TABLE):
            connection.execute(statement)
        return
    if application != _APPLICATION:
        raise FormatError(str(file), "another SQLite database", "a history of recallatk")
    require_version(str(file), "history", connection.execute("PRAGMA user_version").fetchone()[0], FORMAT)


def _statements(script: str) -> Iterator[str]:
    """The statements of a script; `executescript` would end the transaction."""
    text = ""
    for line in script.splitlines(keepends=True):
        text += line
        if sqlite3.complete_statement(text):
            yield text
            text = ""


@contextmanager
def _failing_as_write(file: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.DatabaseError as problem:
        if isinstance(problem, sqlite3.OperationalError):
            raise WriteError(file, str(problem), "") from problem
        raise FormatError(str(file), str(problem), "a history of recallatk") from problem
    except OSError as problem:
        raise WriteError(file, problem.strerror or str(problem), "") from problem


def _row(entry: HistoryEntry) -> tuple[Any, ...]:
    return (
        entry.when, str(entry.kind), entry.collection, entry.subject, entry.measure, entry.value, entry.low,
        entry.high, entry.queries, entry.verdict, _json(entry.state), _json(entry.costs), entry.query_set,
        entry.origin or secrets.token_hex(16),
        _packed(entry.per_query),
    )  # fmt: skip


def _entry(row: tuple[Any, ...]) -> HistoryEntry:
    named = dict(zip(_COLUMNS, row, strict=True))
    state, costs = json.loads(named["state"]), json.loads(named["costs"])
    if not isinstance(state, dict) or not isinstance(costs, dict):
        raise ValueError("an entry whose state or costs are no objects")
    return HistoryEntry(
        when=datetime.fromisoformat(named["recorded"]).astimezone(UTC).isoformat(timespec="microseconds"),
        kind=EntryKind(named["kind"]),
        value=_number(named["value"]),
        low=None if named["low"] is None else _number(named["low"]),
        high=None if named["high"] is None else _number(named["high"]),
        queries=int(named["queries"]),
        verdict=None if named["verdict"] is None else str(named["verdict"]),
        state=state,
        costs={str(name): None if each is None else _number(each) for name, each in costs.items()},
        query_set=None if named["query_set"] is None else str(named["query_set"]),
        per_query=_unpacked(named["per_query"]),
        **{name: str(named[name]) for name in ("collection", "subject", "measure", "origin")},
    )


def _number(value: Any) -> float:
    if not isinstance(value, int | float) or not isfinite(value):
        raise ValueError(f"{value!r} is no finite number")
    return float(value)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)


def _packed(values: NDArray[np.float64] | None) -> bytes | None:
    # Hits out of k need no more than 24 bits.
    return None if values is None else zlib.compress(np.asarray(values, "<f4").tobytes(), 9)


def _unpacked(packed: bytes | None) -> NDArray[np.float64] | None:
    if packed is None:
        return None
    if not isinstance(packed, bytes):
        raise ValueError("recalls that are no bytes")
    # A damaged or hostile file must not fill the memory.
    unpacker = zlib.decompressobj()
    raw = unpacker.decompress(packed, _MOST_BYTES)
    if not unpacker.eof:
        raise ValueError("recalls that are cut, or too many")
    return np.frombuffer(raw, "<f4").astype(np.float64)
