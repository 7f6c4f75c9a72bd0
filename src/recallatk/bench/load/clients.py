"""Concurrent clients, as threads or forked processes, which start together."""

from __future__ import annotations

import os
import selectors
import signal
import threading
import warnings
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from recallatk.bench.child_process import end_with_parent
from recallatk.bench.load.timed_loops import clock
from recallatk.bench.messages import in_words
from recallatk.errors import EngineError
from recallatk.scratch import ScratchFolder, scratch_writing

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

    from recallatk.adapters.base import Engine
    from recallatk.bench.load.calls import ClientLog

    AskInThread = Callable[[Engine, int, Any], ClientLog]
    AskInProcess = Callable[[Engine, int, int], ClientLog]
    Arrays = tuple[NDArray[np.int64], NDArray[np.int64]]

# An interrupted block waits this long for calls in flight.
_PATIENCE_SECONDS = 5.0
_READY, _DONE = b"r", b"d"
_TIME_BYTES = 8


def ask_by_threads(
    engine: Engine, clients: int, ask: AskInThread, lead_ns: int = 0
) -> tuple[list[Arrays], int]:
    """Run clients as threads; return the arrays of each client's log, and the start time of the block.

    Args:
        engine: the built engine; a single client uses it directly, in this thread.
        clients: number of threads.
        ask: the loop of a client, called with its engine client, the start time of the block, and an object
            that becomes true when the loop has to stop.
        lead_ns: delay between the readiness of the last client and the start of the block.
    """
    if clients == 1:
        began = clock() + lead_ns
        return [ask(engine, began, ()).arrays()], began
    team = _Team(engine, clients, ask, lead_ns)
    team.run()
    return [team.logs[number].arrays() for number in range(clients)], team.began_ns


class _Team:
    def __init__(self, engine: Engine, clients: int, ask: AskInThread, lead_ns: int) -> None:
        self.engine, self.ask, self.lead_ns = engine, ask, lead_ns
        self.began_ns = 0
        self.logs: dict[int, ClientLog] = {}
        self.problems: list[BaseException] = []
        self._making = threading.Lock()
        self._ready = threading.Barrier(clients, self._begin)
        # Up to Python 3.12, an interrupted join marks a running thread as ended.
        self._over = [threading.Event() for _ in range(clients)]
        self._threads = [
            threading.Thread(target=self._client, args=(number,), daemon=True) for number in range(clients)
        ]

    def run(self) -> None:
        """Start all threads, wait for all, and raise the first problem of any."""
        try:
            for thread in self._threads:
                thread.start()
            for over in self._over:
                over.wait()
        except BaseException as problem:
            self._give_up(problem)
            # An interrupt may arrive before all threads have started.
            for thread, over in zip(self._threads, self._over, strict=True):
                if thread.ident is not None:
                    over.wait(_PATIENCE_SECONDS)
            raise
        if self.problems:
            raise self.problems[0]

    def _begin(self) -> None:
        self.began_ns = clock() + self.lead_ns

    def _client(self, number: int) -> None:
        try:
            self._work(number)
        except threading.BrokenBarrierError as problem:
            # Another client failed to start, and its error is reported.
            self.problems.append(problem)
        except BaseException as problem:
            self._give_up(problem)
        finally:
            self._over[number].set()

    def _work(self, number: int) -> None:
        with self._making:
            client = self.engine.client()
        try:
            self._ready.wait()
            self.logs[number] = self.ask(client, self.began_ns, self.problems)
        finally:
            if client is not self.engine:
                client.close()

    def _give_up(self, problem: BaseException) -> None:
        self.problems.append(problem)
        self._ready.abort()


def ask_by_processes(engine: Engine, clients: int, ask: AskInProcess) -> tuple[list[Arrays], int]:
    """Run clients as forked processes; return the arrays of each log, and the start time of the block.

    No process outlives this one.

    Args:
        engine: the built engine; each process makes its own client of it after the fork.
        clients: number of processes.
        ask: the loop of a client, called with its engine client, its number, and the start time of the block.
    """
    with ScratchFolder() as folder:
        starting, start = os.pipe()
        children: list[_Child] = []
        try:
            for number in range(clients):
                # Fork one by one: if a fork fails, those before it must be ended.
                children += [_forked(engine, ask, number, folder, (starting, start))]
            _hear_all(children, _READY, folder)
            began = clock()
            os.write(start, began.to_bytes(_TIME_BYTES, "little") * clients)
            _hear_all(children, _DONE, folder)
            for child in children:
                child.require_well_ended(child.wait(), clients, folder)
            return [_read(folder, number) for number in range(clients)], began
        finally:
            for child in children:
                child.end()
            os.close(starting)
            os.close(start)


class _Child:
    """A forked client as its parent sees it."""

    def __init__(self, number: int, pid: int, hearing: int) -> None:
        self.number, self.pid, self.hearing = number, pid, hearing
        self.status: int | None = None

    def wait(self) -> int:
        """Exit status, once the process has ended."""
        if self.status is None:
            self.status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.status

    def end(self) -> None:
        """Kill the process unless it has ended."""
        if self.status is None:
            os.kill(self.pid, signal.SIGKILL)
            self.wait()
        os.close(self.hearing)

    def require_well_ended(self, status: int, clients: int, folder: Path) -> None:
        """Raise the error that the process reported."""
        if status == 0:
            return
        said = folder / f"{self.number}.txt"
        if said.exists():
            how = f": {said.read_text('utf-8')}"
        elif status < 0:
            how = f" was killed by signal {-status} ({signal.strsignal(-status)})"
        else:
            how = f" ended with exit code {status}"
        raise EngineError(f"client {self.number + 1} of {clients}{how}")


def _forked(engine: Engine, ask: AskInProcess, number: int, folder: Path, pipe: tuple[int, int]) -> _Child:
    hearing, telling = os.pipe()
    parent = os.getpid()
    with warnings.catch_warnings():
        # Python warns about forking with threads; the engine declares that it supports forks.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        _live(engine, ask, number, folder, pipe, telling, parent)
    os.close(telling)
    return _Child(number, pid, hearing)


def _live(
    engine: Engine,
    ask: AskInProcess,
    number: int,
    folder: Path,
    pipe: tuple[int, int],
    telling: int,
    parent: int,
) -> NoReturn:
    """Body of a forked client, from fork to exit."""
    status = 1
    try:
        end_with_parent()
        starting, start = pipe
        # The pipe closes with the parent only if no other process holds its write end.
        os.close(start)
        if os.getppid() == parent:
            _ask(engine, ask, number, folder, starting, telling)
            status = 0
    except BaseException as problem:
        (folder / f"{number}.txt").write_text(in_words(problem), "utf-8", "replace")
    finally:
        # Exit without flushing, closing or waiting for anything inherited from the parent.
        os._exit(status)


def _ask(engine: Engine, ask: AskInProcess, number: int, folder: Path, starting: int, telling: int) -> None:
    client = engine.client()
    try:
        os.write(telling, _READY)
        told = os.read(starting, _TIME_BYTES)
        if len(told) == _TIME_BYTES:
            arrays = ask(client, number, int.from_bytes(told, "little")).arrays()
            for path, array in zip(_paths(folder, number), arrays, strict=True):
                with scratch_writing(path):
                    np.save(path, array)
            os.write(telling, _DONE)
    finally:
        if client is not engine:
            client.close()


def _paths(folder: Path, number: int) -> tuple[Path, Path]:
    return folder / f"{number}-times.npy", folder / f"{number}-rows.npy"


def _read(folder: Path, number: int) -> Arrays:
    times, rows = (np.load(path) for path in _paths(folder, number))
    return times, rows


def _hear_all(children: list[_Child], word: bytes, folder: Path) -> None:
    """Wait until every child has sent this word; raise the error of one that ends without it."""
    with selectors.DefaultSelector() as selector:
        for child in children:
            selector.register(child.hearing, selectors.EVENT_READ, child)
        while selector.get_map():
            for key, _ in selector.select():
                child = key.data
                if os.read(child.hearing, 1) != word:
                    child.require_well_ended(child.wait(), len(children), folder)
                    raise EngineError(
                        f"client {child.number + 1} of {len(children)} ended before it finished"
                    )
                selector.unregister(child.hearing)
