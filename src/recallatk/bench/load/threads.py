"""Several clients as threads, each with a client of the engine for itself, which begin together."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from recallatk.bench.load.asking import clock

if TYPE_CHECKING:
    from collections.abc import Callable

    from recallatk.bench.load.block import Pad, Record
    from recallatk.engines.base import Engine

    Ask = Callable[[Engine, int, Any], Pad]

# What an interrupted block waits for calls that are on their way.
_PATIENCE_SECONDS = 5.0


def ask_by_threads(engine: Engine, clients: int, ask: Ask, lead_ns: int = 0) -> tuple[list[Record], int]:
    """What each of so many clients wrote down, and when they began.

    Args:
        engine: where they ask; one client alone asks it itself, in this thread.
        clients: how many.
        ask: what each does, told its client, when the block began, and what is true once it has to stop.
        lead_ns: how long after all are ready the block begins.
    """
    if clients == 1:
        began = clock() + lead_ns
        return [ask(engine, began, ()).record()], began
    team = _Team(engine, clients, ask, lead_ns)
    team.run()
    return [team.pads[number].record() for number in range(clients)], team.began_ns


class _Team:
    def __init__(self, engine: Engine, clients: int, ask: Ask, lead_ns: int) -> None:
        self.engine, self.ask, self.lead_ns = engine, ask, lead_ns
        self.began_ns = 0
        self.pads: dict[int, Pad] = {}
        self.problems: list[BaseException] = []
        self._making = threading.Lock()
        self._ready = threading.Barrier(clients, self._begin)
        # Until Python 3.12, a thread whose join was interrupted counts as ended though it is not.
        self._over = [threading.Event() for _ in range(clients)]
        self._threads = [
            threading.Thread(target=self._client, args=(number,), daemon=True) for number in range(clients)
        ]

    def run(self) -> None:
        """Start all, wait for all, and raise what any of them ran into."""
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
            # Another one could not begin, and has said why.
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
            self.pads[number] = self.ask(client, self.began_ns, self.problems)
        finally:
            if client is not self.engine:
                client.close()

    def _give_up(self, problem: BaseException) -> None:
        self.problems.append(problem)
        self._ready.abort()
