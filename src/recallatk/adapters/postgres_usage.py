"""Index usage in PostgreSQL: how many calls scanned the index, by the server's own counters.

EXPLAIN shows the plan for the values that it gets. A prepared statement may run a different plan: from its
sixth execution on, PostgreSQL may use a generic plan made without values. Counters show what ran.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from recallatk.errors import EngineError

_SCANS = "SELECT pg_stat_get_numscans(to_regclass(%s)), pg_stat_get_numscans(to_regclass(%s))"
# Since PostgreSQL 15, a session can flush its counters; before, it sends them at most twice a second.
_FLUSHES = 150_000
_PATIENCE_SECONDS, _LOOK_SECONDS = 3.0, 0.1


@dataclass(frozen=True)
class Usage:
    """Calls at one setting, and their index scans."""

    calls: int
    scans: int
    """Index scans; each call makes at most one."""


class CallCounter:
    """Counter of the calls of one session, and of its ended clients, since the last setting."""

    def __init__(self, engine: str, connection: Any, table: str, index: str) -> None:
        self.engine, self.connection, self.names = engine, connection, (index, table)
        self.calls = 0
        self.before = (0, 0)
        self.flushes = connection.info.server_version >= _FLUSHES

    def require_counts(self) -> None:
        """Refuse a server that does not count index scans."""
        if self.connection.execute("SHOW track_counts").fetchone() != ("on",):
            raise EngineError(
                f"{self.engine}: track_counts is off on this server, so index scans are not counted. "
                "Turn it on: ALTER SYSTEM SET track_counts = on; SELECT pg_reload_conf()"
            )

    def create(self) -> None:
        """Create the table in which clients, possibly forked processes, record their number of calls."""
        self.connection.execute("CREATE TABLE calls (count bigint)")
        self.restart()

    def restart(self) -> None:
        """Restart the count."""
        self.connection.execute("DELETE FROM calls")
        self.calls, self.before = 0, self._scans()

    def hand_over(self) -> None:
        """Add the calls of this session to the table of the owner."""
        self.connection.execute("INSERT INTO calls VALUES (%s)", (self.calls,))
        self._flush()

    def usage(self) -> Usage:
        """All calls so far, and their index scans."""
        (others,) = self.connection.execute("SELECT coalesce(sum(count), 0)::bigint FROM calls").fetchone()
        calls = self.calls + others
        until = time.monotonic() + _PATIENCE_SECONDS
        while True:
            index, table = (now - then for now, then in zip(self._scans(), self.before, strict=True))
            if self.flushes or index + table >= calls or time.monotonic() > until:
                return Usage(calls, index)
            time.sleep(_LOOK_SECONDS)

    def _scans(self) -> tuple[int, int]:
        """Scans of the index and of the table, by all sessions."""
        self._flush()
        index, table = self.connection.execute(_SCANS, self.names).fetchone()
        if index is None:
            raise EngineError(f"{self.engine}: the index did not answer: {self.names[0]} was dropped")
        return index, table

    def _flush(self) -> None:
        if self.flushes:
            self.connection.execute("SELECT pg_stat_force_next_flush()")
