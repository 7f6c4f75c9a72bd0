"""The open loop: calls that arrive when they do, whether the ones before are answered or not."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from recallatk.bench.load.asking import ask_when_due, turns
from recallatk.bench.load.block import Block, assemble
from recallatk.bench.load.kernel import ring_on_time
from recallatk.bench.load.questions import Script
from recallatk.bench.load.threads import ask_by_threads
from recallatk.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from numpy.typing import NDArray

    from recallatk.bench.load.block import Pad
    from recallatk.bench.load.questions import Questions
    from recallatk.core import Load
    from recallatk.engines.base import Engine

USUAL_CLIENTS = 16
LONGEST_SECONDS = 60.0
# So that the first call is not late because its thread was still waking up.
_LEAD_NS = 2_000_000
# A thread that wakes up waits this long, not Python's 5 ms, for another one that computes in Python.
_SWITCH_SECONDS = 0.0005


def clients_of(engine: Engine, load: Load) -> int:
    """Clients of an open loop: the number given, else 16 if the engine takes several calls at once, else 1.

    An engine that takes one call at a time has a queue before it, and time spent there counts.
    """
    return load.clients_or(USUAL_CLIENTS if engine.abilities.clients else 1)


def arrivals(rate: float, calls: int, seconds: float | None, seed: int) -> NDArray[np.int64]:
    """When calls are due, in ns: a Poisson process of this rate, drawn from the seed.

    Without seconds there are so many calls, fewer if 60 s are over before; with them as many as fall into
    that time. One there always is.
    """
    drawn = np.random.default_rng(seed)
    if seconds is None:
        due = np.cumsum(drawn.exponential(1 / rate, calls))
        within = due <= LONGEST_SECONDS
    else:
        expected = rate * seconds
        due = np.cumsum(drawn.exponential(1 / rate, 8 + int(expected + 8 * np.sqrt(expected))))
        while due[-1] <= seconds:
            due = np.append(due, due[-1] + np.cumsum(drawn.exponential(1 / rate, len(due))))
        within = due <= seconds
    within[:1] = True
    return np.rint(due[within] * 1e9).astype(np.int64)


def run_at_rate(
    engine: Engine, load: Load, questions: Questions, order: NDArray[np.int64], seed: int
) -> Block:
    """Ask the queries as they arrive; a latency counts from when its call was due."""
    if load.rate is None:
        raise UsageError(f"load {load}: a block needs a rate; highest_rate looks for one")
    script = Script(questions, order)
    due = arrivals(load.rate, len(script), load.seconds, seed).tolist() if len(script) else []
    taken = turns(range(len(due)), None)

    def ask(client: Engine, began_ns: int, stop: Any) -> Pad:
        ring_on_time()
        return ask_when_due(client, script, taken, due, began_ns, stop)

    with _quick_switches():
        records, began = ask_by_threads(engine, clients_of(engine, load), ask, _LEAD_NS)
    return assemble(script, records, began)


@contextmanager
def _quick_switches() -> Iterator[None]:
    usual = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_SECONDS)
    try:
        yield
    finally:
        sys.setswitchinterval(usual)
