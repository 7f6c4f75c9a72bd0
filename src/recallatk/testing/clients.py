"""Concurrent clients of one engine: threads, and a forked process."""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
import time
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.adapters import QueryBatch
from recallatk.bench.load import Questions
from recallatk.bench.load.writes import Write, search_during_writes
from recallatk.testing.contract_ground import K

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from recallatk.adapters.base import Engine

CLIENTS = 4
_ROUNDS = 5
PATIENCE_SECONDS = 60.0


def answers_alone(client: Engine, queries: NDArray[Any]) -> NDArray[np.int64]:
    """Answers of one client, one query at a time."""
    return np.concatenate([client.search(QueryBatch(each[None]), K) for each in queries])


def answers_of_threads(engine: Engine, queries: NDArray[Any]) -> NDArray[np.int64]:
    """Answers of concurrent clients; each sends its own queries repeatedly, one at a time.

    Answers that differ from round to round become -2, which no engine returns.
    """
    found = np.full((len(queries), K), -2, np.int64)
    problems: list[BaseException] = []
    ready = threading.Barrier(CLIENTS)

    def work(first: int) -> None:
        try:
            client = engine.client()
            ready.wait(PATIENCE_SECONDS)
            own = range(first, len(queries), CLIENTS)
            rounds = [
                [client.search(QueryBatch(queries[row : row + 1]), K)[0] for row in own]
                for _ in range(_ROUNDS)
            ]
            same = (np.array(rounds) == np.array(rounds[0])).all(axis=(0, 2))
            found[own] = np.where(same[:, None], rounds[0], -2)
            if client is not engine:
                client.close()
        except BaseException as problem:
            ready.abort()
            problems.append(problem)

    threads = [threading.Thread(target=work, args=(first,)) for first in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if problems:
        raise problems[0]
    return found


def answers_during_writes(engine: Engine, queries: NDArray[Any], rows: int) -> tuple[NDArray[np.int64], int]:
    """Answers of a client while the queries are inserted as rows and deleted again, and the rows inserted."""
    count, writes = len(queries), []
    for first in range(rows, rows + _ROUNDS * count, count):
        numbers = np.arange(first, first + count)
        writes += [Write("insert", numbers, queries), Write("delete", numbers)]
    calls = search_during_writes(engine, Questions(queries, K), writes, seed=0)
    return calls.rows, _ROUNDS * count


def can_fork() -> bool:
    """Whether clients can be forked here."""
    return sys.platform == "linux"


def answers_of_a_fork(engine: Engine, queries: NDArray[Any]) -> NDArray[np.int64]:
    """Answers of a client in a forked process; raises on timeout."""

    def work() -> bytes:
        client = engine.client()
        found = answers_alone(client, queries)
        if client is not engine:
            client.close()
        return found.astype(np.int64).tobytes()

    return np.frombuffer(forked(work), np.int64).reshape(len(queries), K)


def forked(work: Callable[[], bytes]) -> bytes:
    """Run a function in a forked process and return its value."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        # Python warns that forking with threads may deadlock, which is exactly what is tested.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if not child:
        try:
            _write_all(writing, b"+" + work())
        except BaseException as problem:
            _write_all(writing, f"-{type(problem).__name__}: {problem}".encode())
        finally:
            os._exit(0)
    os.close(writing)
    try:
        said = _read_all(reading)
    finally:
        os.close(reading)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    if said[:1] != b"+":
        raise RuntimeError(
            f"a forked copy of this process failed: {said[1:].decode() or 'it gave no message'}"
        )
    return said[1:]


def _write_all(pipe: int, data: bytes) -> None:
    while data:
        data = data[os.write(pipe, data) :]


def _read_all(pipe: int) -> bytes:
    """All bytes until the other end is closed."""
    parts, until = [b""], time.monotonic() + PATIENCE_SECONDS
    while select.select([pipe], [], [], max(0.0, until - time.monotonic()))[0]:
        part = os.read(pipe, 1 << 16)
        if not part:
            return b"".join(parts)
        parts.append(part)
    raise TimeoutError(f"a forked copy of this process took longer than {PATIENCE_SECONDS:g} s")
