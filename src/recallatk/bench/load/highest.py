"""The highest rate of arrivals whose p99 stays within a limit."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from recallatk.analysis.latency import percentile
from recallatk.bench.load.closed import run_closed
from recallatk.bench.load.rate import LONGEST_SECONDS, clients_of, run_at_rate
from recallatk.core import Load, Mode
from recallatk.errors import UsageError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recallatk.bench.load.block import Block
    from recallatk.bench.load.questions import Questions
    from recallatk.engines.base import Engine

_STEPS = 7
_LOWEST_SHARE, _HIGHEST_SHARE = 1 / 64, 1.2
_LEAST_SECONDS = 2.0
# From 368 calls on the interval of a p99 has an upper end.
_LEAST_CALLS = 400
# Above capacity the backlog grows by the excess: after 50 limits, an excess of 2 % is beyond the limit.
_LIMITS = 50
_OWN_SHARE, _OWN_LEAST_MS = 0.1, 1.0


def highest_rate(
    engine: Engine, load: Load, questions: Questions, order: NDArray[np.int64], *, seed: int
) -> tuple[float | None, list[tuple[float, float | None]]]:
    """The highest rate whose p99 stays within the limit, and what was tried: rates with their p99 in ms.

    A closed loop of the same clients gives the capacity; seven bisections of the logarithm of the rate
    follow, between 1/64 and 6/5 of it, so that the answer is within 3.5 %. It is None where no rate was held.
    A rate is held when the p99 that was observed is within the limit, and the clients kept up, as otherwise
    the engine never saw that rate. One client alone is always late while it waits for an answer; that is the
    engine's own queue, and is in its latencies already.
    """
    if load.p99_ms is None:
        raise UsageError(f"load {load}: without p99_ms there is no highest rate to look for")
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
        block = run_at_rate(engine, at, questions, order, seed + step)
        p99 = percentile(block.latency_ns, 0.99)
        tried.append((rate, p99))
        if p99 is not None and p99 <= load.p99_ms and (clients == 1 or kept_up(block, load.p99_ms)):
            best = low = rate
        else:
            high = rate
    return best, tried


def _capacity(engine: Engine, load: Load, questions: Questions, order: NDArray[np.int64]) -> float:
    block = run_closed(engine, load, questions, order)
    if not len(block):
        raise UsageError("no queries have no rate")
    return len(block) / (block.wall_ns / 1e9)


def _closed_seconds(load: Load) -> float:
    return min(max(load.seconds or 0.0, _LEAST_SECONDS), LONGEST_SECONDS)


def _seconds(load: Load, p99_ms: float, rate: float) -> float:
    wanted = max(load.seconds or 0.0, _LEAST_SECONDS, _LIMITS * p99_ms / 1e3, _LEAST_CALLS / rate)
    return min(wanted, LONGEST_SECONDS)


def kept_up(block: Block, p99_ms: float) -> bool:
    """Whether at most one of 100 calls was sent later than a tenth of the limit, or 1 ms."""
    late_ms = float(np.quantile(block.late_ns, 0.99)) / 1e6
    return late_ms <= max(_OWN_LEAST_MS, _OWN_SHARE * p99_ms)
