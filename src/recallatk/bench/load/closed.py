"""The closed loops: so many clients, each of which sends on when it has its answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from recallatk.bench.load.asking import NEVER_NS, ask_on, turns
from recallatk.bench.load.block import Block, Pad, assemble
from recallatk.bench.load.processes import ask_by_processes
from recallatk.bench.load.questions import Script
from recallatk.bench.load.threads import ask_by_threads
from recallatk.core import Via

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from recallatk.bench.load.questions import Questions
    from recallatk.core import Load
    from recallatk.engines.base import Engine


def run_closed(engine: Engine, load: Load, questions: Questions, order: NDArray[np.int64]) -> Block:
    """Ask each query once, or again and again until the time is over."""
    script = Script(questions, order, load.batch)
    if load.via is Via.PROCESSES:
        return _by_processes(engine, load, script)
    # All clients take from one pile, so that a slow one does not hold up the end.
    taken = turns(range(len(script)), load.seconds)

    def ask(client: Engine, began_ns: int, stop: Any) -> Pad:
        return ask_on(client, script, taken, _end(load, began_ns), stop)

    records, began = ask_by_threads(engine, load.clients_or(1), ask)
    return assemble(script, records, began)


def _by_processes(engine: Engine, load: Load, script: Script) -> Block:
    clients = load.clients_or(1)

    def ask(client: Engine, number: int, began_ns: int) -> Pad:
        share = range(number, len(script), clients)
        return ask_on(client, script, turns(share, load.seconds), _end(load, began_ns))

    records, began = ask_by_processes(engine, clients, ask)
    return assemble(script, records, began)


def _end(load: Load, began_ns: int) -> int:
    return NEVER_NS if load.seconds is None else began_ns + round(load.seconds * 1e9)
