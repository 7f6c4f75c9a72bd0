"""The machine's own pace: the time of a fixed piece of work that involves no engine."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

from recallatk.analysis.intervals import quantile

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

# 4 MB in float32: more than the fast caches hold, so that other processes' use of memory bandwidth shows.
_SIDE = 1024
_PASSES = 8
_REPETITIONS = 5
_FEWEST_PACES = 3


class Sentinel:
    """Products of one matrix with a vector, in this thread and without BLAS: about 2 ms of work."""

    def __init__(self, seed: int) -> None:
        drawn = np.random.default_rng(seed)
        self._matrix = drawn.standard_normal((_SIDE, _SIDE), np.float32)
        self._vector = drawn.standard_normal(_SIDE, np.float32)
        self._product = np.empty(_SIDE, np.float32)

    def pace_ns(self) -> int:
        """Time that the work takes now: the second slowest of five.

        Time slices of a process that shares the core are longer than the work, so that most of the five may
        miss it. The slowest may be bad luck.
        """
        return sorted(self._once() for _ in range(_REPETITIONS))[-2]

    def _once(self) -> int:
        began = time.perf_counter_ns()
        for _ in range(_PASSES):
            # Unlike a product by `@`, this is numpy's own loop, which has one thread whatever BLAS is set to.
            np.einsum("ij,j->i", self._matrix, self._vector, out=self._product, optimize=False)
        return time.perf_counter_ns() - began


def drift(paces: Sequence[int] | NDArray[np.int64]) -> float | None:
    """Unsteadiness of the machine: distance of paces from their median, as a share of it.

    The 5th or the 95th percentile of paces counts, whichever is farther. A disturbance of fewer than one in
    twenty rounds does not show; a pace that goes up or down for longer does. None for fewer than three paces.
    """
    values = np.asarray(paces, np.float64).ravel()
    if len(values) < _FEWEST_PACES:
        return None
    middle = float(np.median(values))
    return max(quantile(values, 0.95) - middle, middle - quantile(values, 0.05)) / middle
