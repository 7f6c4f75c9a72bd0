"""The timed loops of one client, with minimal overhead per call: warm-up, closed loop, open loop."""

from __future__ import annotations

import time
from itertools import cycle, islice
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.bench.load.calls import ClientLog
from recallatk.core import WarmUp

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from recallatk.adapters.base import Engine
    from recallatk.bench.load.calls import Questions, Script

NEVER_NS = 1 << 62
# Answers are kept as returned and packed in batches of this size; most blocks end before the first batch.
_ANSWERS_AT_ONCE = 16_384
# Interval at which a sleeping client checks whether another has failed.
_LONGEST_SLEEP_NS = 100_000_000
_WARM_UP_CALLS, _TOLERANCE = 32, 0.05
_MOST_WARM_UP_BLOCKS, _MOST_WARM_UP_NS = 20, 2_000_000_000

clock = time.perf_counter_ns


def turns(numbers: range, seconds: float | None) -> Iterator[int]:
    """Iterator over the calls, once or repeated; several threads may share it."""
    # `next` on it is atomic under the GIL.
    return iter(numbers) if seconds is None else cycle(numbers)


def ask_on(
    engine: Engine, script: Script, taken: Iterator[int], end_ns: int = NEVER_NS, stop: Any = ()
) -> ClientLog:
    """Closed loop: send each call once the last is answered, until none is left or time is up."""
    search, arguments, array, log = engine.search, script.arguments, np.ndarray, ClientLog(script)
    size = max(1, _ANSWERS_AT_ONCE // script.batch)
    while True:
        number: list[int] = []
        sent: list[int] = []
        ended: list[int] = []
        found: list[Any] = []
        for each in islice(taken, size):
            asked = arguments[each]
            began = clock()
            rows: Any = search(*asked)
            done = clock()
            number.append(each)
            sent.append(began)
            ended.append(done)
            # Copy: an engine may reuse the memory of an answer for the next.
            found.append(rows.copy() if isinstance(rows, array) else rows)
            if done >= end_ns or stop:
                break
        log.note(number, sent, [], ended, found)
        if len(number) < size or ended[-1] >= end_ns or stop:
            return log


def ask_when_due(
    engine: Engine, script: Script, taken: Iterator[int], due_ns: list[int], began_ns: int, stop: Any = ()
) -> ClientLog:
    """Open loop: send each call when it is due and the client is free; latency counts from the due time."""
    search, arguments, array, log = engine.search, script.arguments, np.ndarray, ClientLog(script)
    calls, sleep = len(script), time.sleep
    while True:
        number: list[int] = []
        late: list[int] = []
        due_times: list[int] = []
        ended: list[int] = []
        found: list[Any] = []
        for arrival in islice(taken, _ANSWERS_AT_ONCE):
            each, due = arrival % calls, began_ns + due_ns[arrival]
            asked = arguments[each]
            now = clock()
            while now < due and not stop:
                sleep(min(due - now, _LONGEST_SLEEP_NS) / 1e9)
                now = clock()
            if stop:
                break
            rows: Any = search(*asked)
            done = clock()
            number.append(each)
            due_times.append(due)
            late.append(now - due)
            ended.append(done)
            found.append(rows.copy() if isinstance(rows, array) else rows)
        log.note(number, due_times, late, ended, found)
        if len(number) < _ANSWERS_AT_ONCE:
            return log


def warm_up(engine: Engine, questions: Questions, order: NDArray[np.int64], *, first: bool) -> WarmUp:
    """Send small blocks of single queries until two successive medians differ by less than 5 %.

    It stops after twenty blocks or two seconds; the order is repeated as needed.

    Args:
        engine: built and configured.
        questions: the queries.
        order: numbers of the queries to send.
        first: whether there was no call since the build, so that the first call is cold.
    """
    if not len(order):
        return WarmUp(0, settled=False)
    clock, search, single = time.perf_counter_ns, engine.search, questions.single
    latencies: list[int] = []
    settled, end = False, clock() + _MOST_WARM_UP_NS
    for query in cycle(order.tolist()):
        began = clock()
        search(*single[query])
        done = clock()
        latencies.append(done - began)
        settled = len(latencies) % _WARM_UP_CALLS == 0 and _settled(latencies)
        if settled or done >= end or len(latencies) == _WARM_UP_CALLS * _MOST_WARM_UP_BLOCKS:
            break
    return WarmUp(len(latencies), settled, latencies[0] if first else None)


def _settled(latencies: list[int]) -> bool:
    if len(latencies) < 2 * _WARM_UP_CALLS:
        return False
    last = median(latencies[-_WARM_UP_CALLS:])
    before = median(latencies[-2 * _WARM_UP_CALLS : -_WARM_UP_CALLS])
    return abs(last - before) < _TOLERANCE * before
