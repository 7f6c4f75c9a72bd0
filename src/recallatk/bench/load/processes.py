"""Several clients as forked processes, which begin together and never outlive this one."""

from __future__ import annotations

import os
import selectors
import signal
import warnings
from dataclasses import fields
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from recallatk.bench.load.asking import clock
from recallatk.bench.load.block import Record
from recallatk.bench.load.kernel import end_with_parent
from recallatk.errors import EngineError, RecallError
from recallatk.scratch import ScratchFolder, scratch_writing

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from recallatk.bench.load.block import Pad
    from recallatk.engines.base import Engine

    Ask = Callable[[Engine, int, int], Pad]

_READY, _DONE = b"r", b"d"
_TIME_BYTES = 8


def ask_by_processes(engine: Engine, clients: int, ask: Ask) -> tuple[list[Record], int]:
    """What each of so many clients wrote down, and when they began.

    Args:
        engine: where they ask, each through a client that it makes after the fork.
        clients: how many.
        ask: what each does, told its client, its number, and when the block began.
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
    """One client as this process sees it."""

    def __init__(self, number: int, pid: int, hearing: int) -> None:
        self.number, self.pid, self.hearing = number, pid, hearing
        self.status: int | None = None

    def wait(self) -> int:
        """How it ended, once it has."""
        if self.status is None:
            self.status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.status

    def end(self) -> None:
        """See that it has ended."""
        if self.status is None:
            os.kill(self.pid, signal.SIGKILL)
            self.wait()
        os.close(self.hearing)

    def require_well_ended(self, status: int, clients: int, folder: Path) -> None:
        """Say what it ran into."""
        if status == 0:
            return
        said = folder / f"{self.number}.txt"
        if said.exists():
            how = f": {said.read_text('utf-8')}"
        elif status < 0:
            how = f" was ended by signal {-status} ({signal.strsignal(-status)})"
        else:
            how = f" ended with exit code {status}"
        raise EngineError(f"client {self.number + 1} of {clients}{how}")


def _forked(engine: Engine, ask: Ask, number: int, folder: Path, pipe: tuple[int, int]) -> _Child:
    hearing, telling = os.pipe()
    parent = os.getpid()
    with warnings.catch_warnings():
        # Python warns where other threads run; the engine says that it can be forked.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        _live(engine, ask, number, folder, pipe, telling, parent)
    os.close(telling)
    return _Child(number, pid, hearing)


def _live(
    engine: Engine, ask: Ask, number: int, folder: Path, pipe: tuple[int, int], telling: int, parent: int
) -> NoReturn:
    """All that a child does."""
    status = 1
    try:
        end_with_parent()
        starting, start = pipe
        # The end of the parent is the end of the pipe only when nobody else can write into it.
        os.close(start)
        if os.getppid() == parent:
            _ask(engine, ask, number, folder, starting, telling)
            status = 0
    except BaseException as problem:
        said = str(problem) if isinstance(problem, RecallError) else f"{type(problem).__name__}: {problem}"
        (folder / f"{number}.txt").write_text(said, "utf-8", "replace")
    finally:
        # Nothing of the parent's is flushed, closed or waited for.
        os._exit(status)


def _ask(engine: Engine, ask: Ask, number: int, folder: Path, starting: int, telling: int) -> None:
    client = engine.client()
    try:
        os.write(telling, _READY)
        told = os.read(starting, _TIME_BYTES)
        if len(told) == _TIME_BYTES:
            record = ask(client, number, int.from_bytes(told, "little")).record()
            for each in fields(record):
                path = folder / f"{number}-{each.name}.npy"
                with scratch_writing(path):
                    np.save(path, getattr(record, each.name))
            os.write(telling, _DONE)
    finally:
        if client is not engine:
            client.close()


def _read(folder: Path, number: int) -> Record:
    return Record(*(np.load(folder / f"{number}-{each.name}.npy") for each in fields(Record)))


def _hear_all(children: list[_Child], word: bytes, folder: Path) -> None:
    """Wait until every child has said this; the first that ends without it is an error."""
    with selectors.DefaultSelector() as selector:
        for child in children:
            selector.register(child.hearing, selectors.EVENT_READ, child)
        while selector.get_map():
            for key, _ in selector.select():
                child = key.data
                if os.read(child.hearing, 1) != word:
                    child.require_well_ended(child.wait(), len(children), folder)
                    raise EngineError(
                        f"client {child.number + 1} of {len(children)} ended before it was done"
                    )
                selector.unregister(child.hearing)
