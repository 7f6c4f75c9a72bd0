"""Writes to an index, and searches in one thread while another writes."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.bench.trial_result import load_arrays, save_arrays
from recallatk.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from recallatk.adapters.base import Engine
    from recallatk.bench.load.calls import Questions

# A call of the searcher must not wait for the GIL longer than this.
_SWITCH_SECONDS = 0.0005


@dataclass(frozen=True, eq=False)
class Write:
    """One change of an index."""

    change: str
    """delete, insert or maintain."""
    rows: NDArray[np.int64]
    """Index rows to delete; what is inserted is in `vectors`."""
    vectors: NDArray[Any] | None = None

    def apply(self, engine: Engine) -> float:
        """Change the index; returns the seconds that it took."""
        started = time.perf_counter()
        if self.change == "maintain":
            engine.maintain()
        elif self.change == "delete":
            engine.delete(self.rows)
        elif self.change == "insert" and self.vectors is not None:
            engine.insert(self.vectors)
        else:
            raise EngineError(f"no change {self.change!r} of an index")
        return time.perf_counter() - started


@dataclass(frozen=True, eq=False)
class OverlappedCalls:
    """Searches during writes: who was asked when, what was answered, and when each write ran.

    All times are of one monotonic clock, in nanoseconds.
    """

    queries: NDArray[np.int64]
    """The query of each call."""
    rows: NDArray[np.int64]
    """(calls, k) rows of the index, padded with -1."""
    began_ns: NDArray[np.int64]
    ended_ns: NDArray[np.int64]
    write_began_ns: NDArray[np.int64]
    write_ended_ns: NDArray[np.int64]

    def save(self, path: Path) -> None:
        """Write it as one file of arrays."""
        save_arrays(path, {each.name: getattr(self, each.name) for each in fields(self)}, {})

    @classmethod
    def load(cls, path: Path) -> OverlappedCalls:
        """Read it back."""
        return cls(**load_arrays(path)[0])


def search_during_writes(
    engine: Engine, questions: Questions, writes: Sequence[Write], seed: int
) -> OverlappedCalls:
    """Send single queries in random order until all writes are done, at least one query.

    Args:
        engine: built and configured; the writes go to it, the searches to a client of it.
        questions: the queries.
        writes: applied one after the other in another thread.
        seed: of the order of the queries.
    """
    import sys

    written: list[tuple[int, int]] = []
    problems: list[BaseException] = []
    ready, done = threading.Event(), threading.Event()

    def write() -> None:
        ready.wait()
        try:
            for each in writes:
                began = time.monotonic_ns()
                each.apply(engine)
                written.append((began, time.monotonic_ns()))
        except BaseException as problem:
            problems.append(problem)
        finally:
            done.set()

    writer = threading.Thread(target=write, daemon=True)
    client = engine.client()
    usual = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_SECONDS)
    try:
        writer.start()
        calls = _search_until(done, ready, client, questions, np.random.default_rng(seed))
    finally:
        ready.set()
        writer.join()
        sys.setswitchinterval(usual)
        if client is not engine:
            client.close()
    if problems:
        raise problems[0]
    queries, rows, began, ended = calls
    writing = np.asarray(written, np.int64).reshape(-1, 2)
    return OverlappedCalls(
        np.asarray(queries, np.int64),
        np.stack(rows),
        np.asarray(began, np.int64),
        np.asarray(ended, np.int64),
        writing[:, 0],
        writing[:, 1],
    )


def _search_until(
    done: threading.Event,
    ready: threading.Event,
    client: Engine,
    questions: Questions,
    random: np.random.Generator,
) -> tuple[list[int], list[NDArray[np.int64]], list[int], list[int]]:
    queries: list[int] = []
    rows: list[NDArray[np.int64]] = []
    began: list[int] = []
    ended: list[int] = []
    last = False
    while not last:
        for query in random.permutation(len(questions)).tolist():
            # Writes begin while the first call runs; one call more is made after the last write.
            last = done.is_set()
            ready.set()
            began.append(time.monotonic_ns())
            found = client.search(*questions.single[query])
            ended.append(time.monotonic_ns())
            queries.append(query)
            rows.append(np.array(found[0], np.int64))
            if last:
                break
    return queries, rows, began, ended
