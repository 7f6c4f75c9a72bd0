"""Machine drift: the time of a fixed piece of work that involves no engine."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

from recallatk.analysis.intervals import quantile

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

# 4 MB in float32 exceed the fast caches, so that contention for memory bandwidth shows.
_SIDE = 1024
_PASSES = 8
_REPETITIONS = 5
_FEWEST_PACES = 3


class Sentinel:
    """Matrix-vector products in this thread, without BLAS: about 2 ms of work."""

    def __init__(self, seed: int) -> None:
        drawn = np.random.default_rng(seed)
        self._matrix = drawn.standard_normal((_SIDE, _SIDE), np.float32)
        self._vector = drawn.standard_normal(_SIDE, np.float32)
        self._product = np.empty(_SIDE, np.float32)

    def pace_ns(self) -> int:
        """Current time of the work: the second slowest of five.

        A competing process gets time slices longer than the work, so most of the five may miss it. The
        slowest may be an outlier.
        """
        return sorted(self._once() for _ in range(_REPETITIONS))[-2]

    def _once(self) -> int:
        began = time.perf_counter_ns()
        for _ in range(_PASSES):
            # Unlike `@`, this is numpy's own loop, single-threaded whatever BLAS is set to.
            np.einsum("ij,j->i", self._matrix, self._vector, out=self._product, optimize=False)
        return time.perf_counter_ns() - began


def drift(paces: Sequence[int] | NDArray[np.int64]) -> float | None:
    """Drift of the machine: distance of paces from their median, as a share of it.

    The 5th or the 95th percentile counts, whichever is farther from the median. A disturbance in fewer than
    one of twenty rounds does not show; a longer one does. None for fewer than three paces.
    """
    values = np.asarray(paces, np.float64).ravel()
    if len(values) < _FEWEST_PACES:
        return None
    middle = float(np.median(values))
    return max(quantile(values, 0.95) - middle, middle - quantile(values, 0.05)) / middle
