"""The modes of a load: closed loops, open loops at a rate, and the search for the highest rate."""

from __future__ import annotations

import math
import os
import sys
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.analysis.latency import percentile
from recallatk.bench.child_process import ring_on_time
from recallatk.bench.load.calls import Block, Script, assemble
from recallatk.bench.load.clients import ask_by_processes, ask_by_threads
from recallatk.bench.load.timed_loops import NEVER_NS, ask_on, ask_when_due, turns
from recallatk.core import Load, Mode, Via
from recallatk.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from recallatk.adapters.base import Engine
    from recallatk.bench.load.calls import ClientLog, Questions
    from recallatk.core import Calls

USUAL_CLIENTS = 16
LONGEST_SECONDS = 60.0
# Without this lead, the first call would be late, because its thread is still waking up.
_LEAD_NS = 2_000_000
# A waking thread waits this long for the GIL instead of Python's 5 ms.
_SWITCH_SECONDS = 0.0005
_STEPS = 7
_LOWEST_SHARE, _HIGHEST_SHARE = 1 / 64, 1.2
_LEAST_SECONDS = 2.0
# The confidence interval of a p99 has an upper end only from 368 calls on.
_LEAST_CALLS = 400
# Above capacity, the backlog grows by the excess: an excess of 2 % exceeds the limit after 50 limits.
_LIMITS = 50
_OWN_SHARE, _OWN_LEAST_MS = 0.1, 1.0


def require_supported(engine: Engine, load: Load) -> None:
    """Refuse a load that the engine or the system does not support."""
    if load.via is Via.PROCESSES and not hasattr(os, "fork"):
        raise engine.unable("run clients as processes: this system cannot fork. Accepted: via threads")
    if load.via is Via.PROCESSES and not engine.abilities.forks:
        raise engine.unable("be searched from forked processes")
    if load.clients_or(1) > 1 and not engine.abilities.clients:
        raise engine.unable("serve several clients at once")
    if load.batch > 1 and not engine.abilities.batch:
        raise engine.unable("take several queries in one call")


def run_block(
    engine: Engine, load: Load, questions: Questions, order: NDArray[np.int64], *, seed: int = 0
) -> Block:
    """Send the queries in this order under this load; the seed is for the arrivals of an open loop."""
    if load.mode is Mode.RATE:
        return _at_rate(engine, load, questions, order, seed)
    return _closed(engine, load, questions, order)


def _closed(engine: Engine, load: Load, questions: Questions, order: NDArray[np.int64]) -> Block:
    """A closed loop: each query once, or repeatedly until the time is up."""
    script = Script(questions, order, load.batch)
    if load.via is Via.PROCESSES:
        return _closed_by_processes(engine, load, script)
    # All clients take from one queue, so that a slow client does not delay the end.
    taken = turns(range(len(script)), load.seconds)

    def ask(client: Engine, began_ns: int, stop: Any) -> ClientLog:
        return ask_on(client, script, taken, _end(load, began_ns), stop)

    logs, began = ask_by_threads(engine, load.clients_or(1), ask)
    return assemble(script, logs, began)


def _closed_by_processes(engine: Engine, load: Load, script: Script) -> Block:
    clients = load.clients_or(1)

    def ask(client: Engine, number: int, began_ns: int) -> ClientLog:
        share = range(number, len(script), clients)
        return ask_on(client, script, turns(share, load.seconds), _end(load, began_ns))

    logs, began = ask_by_processes(engine, clients, ask)
    return assemble(script, logs, began)


def _end(load: Load, began_ns: int) -> int:
    return NEVER_NS if load.seconds is None else began_ns + round(load.seconds * 1e9)


def clients_of(engine: Engine, load: Load) -> int:
    """Clients of an open loop: the number given, else 16 if the engine serves several at once, else 1.

    Calls to an engine that serves one at a time queue up, and the time in the queue counts as latency.
    """
    return load.clients_or(USUAL_CLIENTS if engine.abilities.clients else 1)


def arrivals(rate: float, calls: int, seconds: float | None, seed: int) -> NDArray[np.int64]:
    """Times in ns at which calls are due: a Poisson process of this rate.

    Without seconds, this many calls are drawn, cut off at 60 s; with seconds, all calls within that time.
    At least one arrival is always drawn.
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


def _at_rate(engine: Engine, load: Load, questions: Questions, order: NDArray[np.int64], seed: int) -> Block:
    """An open loop: Poisson arrivals, with latency measured from when a call was due."""
    if load.rate is None:
        raise UsageError(f"load {load}: a block needs a rate; highest_rate finds one")
    script = Script(questions, order)
    due = arrivals(load.rate, len(script), load.seconds, seed).tolist() if len(script) else []
    taken = turns(range(len(due)), None)

    def ask(client: Engine, began_ns: int, stop: Any) -> ClientLog:
        ring_on_time()
        return ask_when_due(client, script, taken, due, began_ns, stop)

    with _quick_switches():
        logs, began = ask_by_threads(engine, clients_of(engine, load), ask, _LEAD_NS)
    return assemble(script, logs, began)


@contextmanager
def _quick_switches() -> Iterator[None]:
    usual = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_SECONDS)
    try:
        yield
    finally:
        sys.setswitchinterval(usual)


def highest_rate(
    engine: Engine, load: Load, questions: Questions, order: NDArray[np.int64], *, seed: int
) -> tuple[float | None, list[tuple[float, float | None]]]:
    """The highest arrival rate whose p99 stays within the limit, and all rates tried with their p99 in ms.

    A closed loop of the same clients gives the capacity. Seven bisections of the logarithm of the rate
    follow, between 1/64 and 6/5 of it, so that the result is within 3.5 %. It is None if no rate was
    sustained. A rate is sustained if the observed p99 is within the limit and the clients kept up; otherwise
    the engine never received that rate. A single client is always late while it waits for an answer; this is
    the engine's own queue, which its latencies already include.
    """
    if load.p99_ms is None:
        raise UsageError(f"load {load}: the highest rate needs a limit: p99_ms")
    clients = clients_of(engine, load)
    capacity = _capacity(
        engine, Load(Mode.THROUGHPUT, clients, seconds=_closed_seconds(load)), questions, order
    )
    low, high = capacity * _LOWEST_SHARE, capacity * _HIGHEST_SHARE
    best: float | None = None
    tried: list[tuple[float, float | None]] = []
    for step in range(_STEPS):
        rate = math.sqrt(low * high)
        at = replace(load, rate=rate, p99_ms=None, clients=clients, seconds=_seconds(load, load.p99_ms, rate))
        calls = _at_rate(engine, at, questions, order, seed + step).calls
        p99 = percentile(calls.latency_ns, 0.99)
        tried.append((rate, p99))
        if p99 is not None and p99 <= load.p99_ms and (clients == 1 or kept_up(calls, load.p99_ms)):
            best = low = rate
        else:
            high = rate
    return best, tried


def _capacity(engine: Engine, load: Load, questions: Questions, order: NDArray[np.int64]) -> float:
    block = _closed(engine, load, questions, order)
    if not len(block):
        raise UsageError("cannot measure a rate: the query set is empty")
    return len(block) / (block.wall_ns / 1e9)


def _closed_seconds(load: Load) -> float:
    return min(max(load.seconds or 0.0, _LEAST_SECONDS), LONGEST_SECONDS)


def _seconds(load: Load, p99_ms: float, rate: float) -> float:
    wanted = max(load.seconds or 0.0, _LEAST_SECONDS, _LIMITS * p99_ms / 1e3, _LEAST_CALLS / rate)
    return min(wanted, LONGEST_SECONDS)


def kept_up(calls: Calls, p99_ms: float) -> bool:
    """Whether at most 1 % of the calls were sent late by more than a tenth of the limit, or 1 ms."""
    late_ms = float(np.quantile(calls.late_ns, 0.99)) / 1e6
    return late_ms <= max(_OWN_LEAST_MS, _OWN_SHARE * p99_ms)
