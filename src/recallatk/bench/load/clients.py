"""Several clients at once, as threads or as forked processes, which begin together."""

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

# An interrupted block waits this long for calls that are under way.
_PATIENCE_SECONDS = 5.0
_READY, _DONE = b"r", b"d"
_TIME_BYTES = 8


def ask_by_threads(
    engine: Engine, clients: int, ask: AskInThread, lead_ns: int = 0
) -> tuple[list[Arrays], int]:
    """The arrays of each client's log, and when the block began.

    Args:
        engine: the built engine; a single client uses it directly, in this thread.
        clients: number of threads.
        ask: what each client does, given its client of the engine, the time at which the block begins, and
            an object that becomes true once it has to stop.
        lead_ns: delay between the last client's readiness and the beginning of the block.
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
        # Until Python 3.12, a thread whose join was interrupted counts as ended though it is not.
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
            # An interrupt may come before all have started.
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
            # Another client could not begin, and has said why.
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
    """The arrays of each client's log, and when the block began; no process outlives this one.

    Args:
        engine: the built engine; each process makes its own client of it after the fork.
        clients: number of processes.
        ask: what each client does, given its client of the engine, its number, and when the block began.
    """
    with ScratchFolder() as folder:
        starting, start = os.pipe()
        children: list[_Child] = []
        try:
            for number in range(clients):
                # One by one: those that were forked have to end if the next cannot be.
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
        """Raise the problem that the process reported."""
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
        # Python warns where other threads run; the engine declares that it can be forked.
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
    """The whole life of a child."""
    status = 1
    try:
        end_with_parent()
        starting, start = pipe
        # The pipe ends with the parent only when nobody else can write into it.
        os.close(start)
        if os.getppid() == parent:
            _ask(engine, ask, number, folder, starting, telling)
            status = 0
    except BaseException as problem:
        (folder / f"{number}.txt").write_text(in_words(problem), "utf-8", "replace")
    finally:
        # Nothing of the parent's may be flushed, closed or waited for.
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
    """Wait until every child has sent this word; the first that ends without it is an error."""
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
