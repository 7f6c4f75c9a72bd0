"""The timed loops: what one client does, with as little around each call as there can be."""

from __future__ import annotations

import time
from itertools import cycle, islice
from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.bench.load.block import Pad

if TYPE_CHECKING:
    from collections.abc import Iterator

    from recallatk.bench.load.questions import Script
    from recallatk.engines.base import Engine

NEVER_NS = 1 << 62
# So many answers are held as they came, and are looked at once as many others have come: in most blocks the
# clock has stopped before.
_ANSWERS_AT_ONCE = 16_384
# A client that sleeps looks this often whether another one has failed.
_LONGEST_SLEEP_NS = 100_000_000

clock = time.perf_counter_ns


def turns(numbers: range, seconds: float | None) -> Iterator[int]:
    """The calls to make, once or again and again; several threads may take from it."""
    # Taking one is a single step of the interpreter.
    return iter(numbers) if seconds is None else cycle(numbers)


def ask_on(
    engine: Engine, script: Script, taken: Iterator[int], end_ns: int = NEVER_NS, stop: Any = ()
) -> Pad:
    """The closed loop: each call when the last one is answered, until none is left or time is over."""
    search, arguments, array, pad = engine.search, script.arguments, np.ndarray, Pad(script)
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
            # An engine may write its next answer into the same memory.
            found.append(rows.copy() if isinstance(rows, array) else rows)
            if done >= end_ns or stop:
                break
        pad.note(number, sent, [], ended, found)
        if len(number) < size or ended[-1] >= end_ns or stop:
            return pad


def ask_when_due(
    engine: Engine, script: Script, taken: Iterator[int], due_ns: list[int], began_ns: int, stop: Any = ()
) -> Pad:
    """The open loop: each call when it is due, or once the client is free; timed from when it was due."""
    search, arguments, array, pad = engine.search, script.arguments, np.ndarray, Pad(script)
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
        pad.note(number, due_times, late, ended, found)
        if len(number) < _ANSWERS_AT_ONCE:
            return pad
