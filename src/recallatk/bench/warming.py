"""Calls before the clock counts, until the index answers as fast as it is going to."""

from __future__ import annotations

import time
from itertools import cycle
from statistics import median
from typing import TYPE_CHECKING

from recallatk.core import WarmUp

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from recallatk.bench.load.questions import Questions
    from recallatk.engines.base import Engine

_CALLS, _TOLERANCE = 32, 0.05
_MOST_BLOCKS, _MOST_NS = 20, 2_000_000_000


def warm_up(engine: Engine, questions: Questions, order: NDArray[np.int64], *, first: bool) -> WarmUp:
    """Ask small blocks of single queries until two successive medians differ by less than 5 %.

    Twenty blocks or two seconds are the most; the queries are taken in this order, again and again.

    Args:
        engine: built and configured.
        questions: what can be asked.
        order: which queries to take.
        first: whether nothing was asked since the build, so that the first call is a cold one.
    """
    if not len(order):
        return WarmUp(0, settled=False)
    clock, search, single = time.perf_counter_ns, engine.search, questions.single
    latencies: list[int] = []
    settled, end = False, clock() + _MOST_NS
    for query in cycle(order.tolist()):
        began = clock()
        search(*single[query])
        done = clock()
        latencies.append(done - began)
        settled = len(latencies) % _CALLS == 0 and _settled(latencies)
        if settled or done >= end or len(latencies) == _CALLS * _MOST_BLOCKS:
            break
    return WarmUp(len(latencies), settled, latencies[0] if first else None)


def _settled(latencies: list[int]) -> bool:
    if len(latencies) < 2 * _CALLS:
        return False
    before, last = median(latencies[-2 * _CALLS : -_CALLS]), median(latencies[-_CALLS:])
    return abs(last - before) < _TOLERANCE * before
