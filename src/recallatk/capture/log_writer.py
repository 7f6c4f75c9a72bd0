"""The background writer of a query log: a bounded queue, one thread, whole Parquet files."""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import queue
import secrets
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from recallatk.capture.call_record import CallRecord, valid_record
from recallatk.capture.log_format import FAILED, RETURNED, file_name, is_log_file, log_table, parquet_bytes
from recallatk.errors import RecallError
from recallatk.files import atomic_file

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

Redaction: TypeAlias = Callable[[CallRecord], CallRecord | None]

_LOGGER = logging.getLogger("recallatk.capture")
_EXIT_SECONDS = 5.0
# Files that a killed process did not finish are hidden; none is written for as long as this.
_LEFT_SECONDS = 600.0
# A file is written when this share of the memory is full, so that calls still find room meanwhile.
_FILE_SHARE = 4
_FATES = ("written", "dropped", "unwritable", "redacted", "skipped")
_open_logs: weakref.WeakSet[LogWriter] = weakref.WeakSet()


@dataclass(frozen=True)
class LogLimits:
    """How much memory, disk and time a query log may take."""

    max_bytes: int = 64 << 20
    """Most bytes of calls that wait to be written; calls beyond are dropped and counted."""
    rotate_rows: int = 10_000
    """Most rows of a file."""
    rotate_seconds: float = 300.0
    """Longest time until a call is written."""
    keep_bytes: int | None = None
    """Most bytes of files in the folder, the oldest deleted first; None keeps every file."""


@dataclass
class _Pending:
    """Calls that go into one file."""

    calls: list[CallRecord] = field(default_factory=list)
    bytes: int = 0
    since: float = field(default_factory=time.monotonic)


@dataclass(frozen=True)
class _Flush:
    """A request to write everything that waits."""

    done: threading.Event = field(default_factory=threading.Event)
    last: bool = False


class LogWriter:
    """Writes calls to a folder; nothing that goes wrong here reaches the search."""

    def __init__(self, folder: Path, limits: LogLimits, redact: Redaction | None = None) -> None:
        # Arrow imports pandas with the first list, and at exit, when the last calls are written, it cannot.
        import pyarrow as pa

        parquet_bytes(pa.table({"k": [0]}))
        self.folder, self.limits, self.redact = folder, limits, redact
        self.closed = False
        self._begin()
        _open_logs.add(self)

    def _begin(self) -> None:
        """Start with nothing; in a forked child, whose parent writes what waits there."""
        self._counts: Counter[str] = Counter()
        self._warned: set[str] = set()
        # Reentrant, because a signal handler may search while this thread adds a call.
        self._lock = threading.RLock()
        self._queue: queue.SimpleQueue[Sequence[CallRecord] | _Flush] = queue.SimpleQueue()
        self._waiting_bytes = 0
        self._thread: threading.Thread | None = None
        self._token, self._files, self._rows = secrets.token_hex(4), 0, 0

    @property
    def counts(self) -> dict[str, int]:
        """Queries of sampled calls by fate: written, dropped, unwritable, redacted; and calls skipped."""
        return {name: self._counts[name] for name in _FATES}

    def add(self, calls: Sequence[CallRecord]) -> None:
        """Take calls over, or drop them if there is no room."""
        size = sum(each.size for each in calls)
        with self._lock:
            if self.closed:
                return
            if self._waiting_bytes + size > self.limits.max_bytes:
                self.count("dropped", len(calls), "the writer does not keep up")
                return
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="recallatk.capture", daemon=True)
                thread.start()
                self._thread = thread
            self._waiting_bytes += size
            self._queue.put(calls)

    def count(self, fate: str, calls: int, reason: str = "") -> None:
        """Count calls by what became of them, and say once why they are not written."""
        with self._lock:
            self._counts[fate] += calls
            new = bool(reason) and fate not in self._warned
            self._warned.add(fate if new else "")
        if new:
            # A handler of the service may raise.
            with contextlib.suppress(Exception):
                _LOGGER.warning("%s: calls are %s: %s. Said once; see log.counts", self.folder, fate, reason)

    def flush(self, timeout: float = _EXIT_SECONDS) -> bool:
        """Write everything that waits; False if it took longer than `timeout` seconds."""
        return self._ask(_Flush(), timeout)

    def close(self, timeout: float = _EXIT_SECONDS) -> bool:
        """Write everything that waits and keep no further calls; the search goes on."""
        self.closed = True
        return self._ask(_Flush(last=True), timeout)

    def _ask(self, request: _Flush, timeout: float) -> bool:
        with self._lock:
            thread = self._thread
            if thread is None:
                return True
            if request.last:
                self._thread = None
            self._queue.put(request)
        return thread is threading.current_thread() or request.done.wait(timeout)

    def retire(self) -> None:
        """Close without waiting: nobody can call the search any more."""
        self.closed = True
        if self._thread is not None:
            self._queue.put(_Flush(last=True))

    def __enter__(self) -> LogWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _run(self) -> None:
        """The thread: collect calls by the type of their vectors, and write each collection in time."""
        pending: dict[tuple[str, int, bool], _Pending] = {}
        with contextlib.suppress(OSError):
            self._remove_unfinished()
        while True:
            due = min((each.since for each in pending.values()), default=None)
            wait = None if due is None else max(0.0, due + self.limits.rotate_seconds - time.monotonic())
            try:
                item = self._queue.get(timeout=wait)
            except queue.Empty:
                item = ()
            if isinstance(item, _Flush):
                self._write_all(pending, everything=True)
                item.done.set()
                if item.last:
                    return
                continue
            for call in item:
                self._collect(call, pending)
            self._write_all(pending)

    def _collect(self, call: CallRecord, pending: dict[tuple[str, int, bool], _Pending]) -> None:
        size, kept = call.size, None
        try:
            kept = call if self.redact is None else valid_record(self.redact(call))
        except Exception as problem:
            # Never write a call that the redaction did not finish with.
            self.count("redacted", 1, f"redact failed with {type(problem).__name__}")
        else:
            self.count("redacted", int(kept is None))
        if kept is None:
            self._release(size)
            return
        key = (kept.vector.dtype.name, len(kept.vector), kept.error is not None)
        group = pending.setdefault(key, _Pending())
        group.calls.append(kept)
        group.bytes += size

    def _write_all(self, pending: dict[tuple[str, int, bool], _Pending], *, everything: bool = False) -> None:
        """Write the collections that are full or due, or every one."""
        limits, now = self.limits, time.monotonic()
        crowded = sum(each.bytes for each in pending.values()) >= limits.max_bytes // _FILE_SHARE
        for key, group in list(pending.items()):
            due = now - group.since >= limits.rotate_seconds
            if everything or crowded or due or len(group.calls) >= limits.rotate_rows:
                self._write(FAILED if key[2] else RETURNED, group)
                del pending[key]

    def _write(self, kind: str, group: _Pending) -> None:
        ids = [f"{self._token}-{self._rows + place}" for place in range(len(group.calls))]
        target = self.folder / file_name(kind, os.getpid(), self._token, self._files)
        self._rows += len(ids)
        self._files += 1
        try:
            content = parquet_bytes(log_table(group.calls, ids))
            with atomic_file(target) as scratch:
                scratch.write_bytes(content)
            self.count("written", len(ids))
            # Another process may remove the same files.
            with contextlib.suppress(OSError):
                self._remove_oldest()
        except Exception as problem:
            known = isinstance(problem, RecallError | OSError)
            self.count("unwritable", len(ids), str(problem) if known else type(problem).__name__)
        finally:
            self._release(group.bytes)

    def _release(self, size: int) -> None:
        with self._lock:
            self._waiting_bytes -= size

    def _remove_oldest(self) -> None:
        if self.limits.keep_bytes is None:
            return
        files = sorted(
            (path for path in self.folder.iterdir() if is_log_file(path.name)),
            key=lambda path: path.name.partition("-")[2],
        )
        total = sum(path.stat().st_size for path in files)
        for path in files[:-1]:
            if total <= self.limits.keep_bytes:
                return
            total -= path.stat().st_size
            path.unlink()

    def _remove_unfinished(self) -> None:
        """Remove what killed processes left behind."""
        for kind in (RETURNED, FAILED):
            for path in self.folder.glob(f".{kind}-*.parquet"):
                if time.time() - path.stat().st_mtime > _LEFT_SECONDS:
                    path.unlink()


def _close_all() -> None:
    """At exit: write what waits, in a bounded time."""
    for log in list(_open_logs):
        with contextlib.suppress(Exception):
            log.close()


def _restart_all() -> None:
    for log in list(_open_logs):
        log._begin()


atexit.register(_close_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_restart_all)
