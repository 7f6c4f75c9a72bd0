"""Compute backends: their names, what each needs, and whether 8 bits pay for the data at hand."""

from __future__ import annotations

import os
from functools import partial
from importlib.util import find_spec
from time import perf_counter, thread_time
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from recallatk.errors import MissingExtraError, UsageError
from recallatk.truths.integer_product import highest_code
from recallatk.truths.scanner import Asked
from recallatk.truths.scanner_blas import BlasScanner
from recallatk.truths.scanner_faiss import FaissScanner
from recallatk.truths.scanner_int8 import Int8Scanner
from recallatk.truths.scanner_jax import JaxScanner, require_device

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recallatk.truths.scanner import MakeScanner
    from recallatk.truths.space import Space

AUTO = "auto"
BACKENDS = (AUTO, "blas", "faiss", "int8", "jax")
DEVICES = ("cpu", "gpu", "tpu")
# Multiplications below which no choice is worth its pilot.
_SMALL_SCAN = 2e10
PILOT_ROWS = 2048
PILOT_QUERIES = 256
_PILOT_ROUNDS = 3
# Thresholds rise only as a scan goes on: on the whole, so many times as many rows reach them as in the end.
_EARLY = 2
# The time of this thread alone, because what else runs on the machine must not decide. On Windows it advances
# in steps that are longer than a call.
_clock = perf_counter if os.name == "nt" else thread_time


class Backend(NamedTuple):
    """A kernel and how it is run."""

    make: MakeScanner
    alone: bool = False
    """Whether it brings its own threads, so that one scanner is enough."""


BLAS = Backend(BlasScanner)
INT8 = Backend(Int8Scanner)


def require_backend(backend: str, device: str | None = None) -> None:
    """Refuse a backend or device that does not exist, is not installed, or does not work here."""
    if backend not in BACKENDS:
        raise UsageError(f"no backend {backend!r}. Accepted: {', '.join(BACKENDS[:-1])} or {BACKENDS[-1]}")
    if device is not None and device not in DEVICES:
        raise UsageError(f"no device {device!r}. Accepted: {', '.join(DEVICES[:-1])} or {DEVICES[-1]}")
    if device in ("gpu", "tpu") and backend not in (AUTO, "jax"):
        raise UsageError(f"backend {backend} runs on the cpu, not on a {device}. Accepted: auto or jax")
    if backend == "int8" and highest_code() is None:
        raise UsageError("backend int8: this processor does not add 8-bit products exactly. Use auto")
    if _on_jax(backend, device):
        require_device(device)


def fixed_backend(backend: str, device: str | None = None) -> Backend | None:
    """The kernel of a name; None for the one that pays."""
    if _on_jax(backend, device):
        return Backend(partial(JaxScanner, platform=device), alone=True)
    known = {"blas": BLAS, "faiss": Backend(FaissScanner, alone=True), "int8": INT8}
    return known.get(backend)


def _on_jax(backend: str, device: str | None) -> bool:
    return backend == "jax" or device in ("gpu", "tpu")


def may_pay(pairs: int, dimension: int) -> bool:
    """Whether a scan is so large that 8 bits may save more than finding out costs, and they can be had."""
    if pairs * dimension < _SMALL_SCAN or find_spec("onnxruntime") is None:
        return False
    try:
        return highest_code() is not None
    except (MissingExtraError, RuntimeError, OSError):
        # An installation that does not work is none.
        return False


def int8_cost(
    space: Space, rows: NDArray[Any], queries: NDArray[Any], k: int, pairs: tuple[int, int]
) -> float:
    """What a scan in 8 bits takes of the time of one in float32, by a short pilot.

    Args:
        space: where rows and queries are compared.
        rows: some rows of the corpus.
        queries: some queries.
        k: how many rows a query is to find.
        pairs: how many queries and rows there are to be scanned.
    """
    pilot = _Pilot(space, rows, queries)
    if not pilot.is_safe:
        return np.inf
    rank = min(len(rows), max(4, -(-_EARLY * k * len(rows) // pairs[1])))
    floors = pilot.floors(rank)
    first, again = pilot.seconds(Int8Scanner(space, len(queries)), floors)
    # Rows are turned into codes once for all queries.
    in_8_bits = again + max(0.0, first - again) * len(queries) / pairs[0]
    return in_8_bits / pilot.seconds(BlasScanner(space, len(queries)), floors)[1]


class _Pilot:
    """Some prepared rows and queries to scan."""

    def __init__(self, space: Space, rows: NDArray[Any], queries: NDArray[Any]) -> None:
        dtype = space.precision.dtype
        self.queries = np.ones((len(queries), space.width + 1), dtype)
        self.queries[:, :-1], norms = space.queries(queries)
        self.rows = np.ones((len(rows), space.width + 1), dtype)
        norm = space.rows(rows, self.rows[:, :-1])
        self.is_safe = space.is_safe(max(norm, float(norms.max(initial=0.0))))
        self.errors = space.error(norms, norm)

    def floors(self, rank: int) -> NDArray[np.float64]:
        """The score of each query that has this rank."""
        self.queries[:, -1] = 0
        scores = self.queries @ self.rows.T
        place = len(self.rows) - rank
        return np.partition(scores, place, axis=1)[:, place].astype(np.float64)

    def seconds(self, scanner: BlasScanner, floors: NDArray[np.float64]) -> tuple[float, float]:
        """The least time of a first call on these rows, and of another one."""
        asked = Asked(self.queries, self.errors, floors, 1, 0, None)
        tile = self.rows[: scanner.tile_rows]
        least = [np.inf, np.inf]
        for _ in range(_PILOT_ROUNDS):
            scanner.enter(tile)
            for call in range(2):
                started = _clock()
                scanner.hits(asked, tile)
                least[call] = min(least[call], _clock() - started)
        return least[0], least[1]
