"""Candidate pairs and rising thresholds: what no bound has ruled out yet."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.truths.scanner import below

if TYPE_CHECKING:
    from numpy.typing import NDArray

# How many guesses may be too high: one of ten million, which is a second sweep in a thousand computations.
_TOO_HIGH = 1e-7


def guessed_rank(k: int, share: float) -> int:
    """The rank in a random share of the rows whose score is surely below the k-th best of all; at most k.

    That it is not would need as many of the k best in the part. Their number there is hypergeometric,
    whose tail Chernoff's bound for the Poisson distribution of the same mean covers (Hoeffding, 1963).
    """
    mean = k * share
    ranks = np.arange(1, k + 1)
    exponent = ranks * np.log(ranks / mean) - ranks + mean
    unlikely = (ranks > mean) & (exponent >= -math.log(_TOO_HIGH))
    return int(ranks[unlikely][0]) if unlikely.any() else k


class Survivors:
    """What is held of one batch of queries, by scan score; a line of the table is a query."""

    def __init__(self, queries: int, k: int, dtype: np.dtype[Any], row_dtype: np.dtype[Any]) -> None:
        # Rarely thinned is cheaply thinned; but what is not thinned also sets no threshold.
        self.limit = 2 * k + 32
        self.counts = np.zeros(queries, np.int64)
        self._scores = np.full((queries, 2 * self.limit), -np.inf, dtype)
        self._rows = np.zeros((queries, 2 * self.limit), row_dtype)

    def add(self, queries: NDArray[np.int64], rows: NDArray[np.int64], scores: NDArray[Any]) -> None:
        """Take in some pairs, which must be in the order of their queries."""
        fresh = np.bincount(queries, minlength=len(self.counts))
        together = self.counts + fresh
        self._make_room(int(together.max(initial=0)))
        starts = np.cumsum(fresh) - fresh
        places = np.arange(len(queries)) + np.repeat(self.counts - starts, fresh)
        self._scores[queries, places] = scores
        self._rows[queries, places] = rows
        self.counts = together

    def _make_room(self, width: int) -> None:
        lines, before = self._scores.shape
        if width <= before:
            return
        scores = np.full((lines, width + self.limit), -np.inf, self._scores.dtype)
        rows = np.zeros(scores.shape, self._rows.dtype)
        scores[:, :before], rows[:, :before] = self._scores, self._rows
        self._scores, self._rows = scores, rows

    @property
    def full(self) -> bool:
        """Whether it is time to thin: on the whole, or because a query holds much more than the others."""
        return bool(self.counts.mean() > self.limit or self.counts.max() > 4 * self.limit)

    def best(self, rank: int) -> NDArray[Any]:
        """The scan score of each query that has this rank; -inf where there are fewer."""
        width = int(self.counts.max(initial=0))
        if width < rank:
            return np.full(len(self.counts), -np.inf, self._scores.dtype)
        return np.partition(self._scores[:, :width], width - rank, axis=1)[:, width - rank]

    def thin(self, floors: NDArray[np.float64], errors: NDArray[np.float64]) -> None:
        """Drop what cannot reach `floors`, scores that k rows are known to have or to exceed."""
        limits = below(floors, errors, self._scores.dtype)
        # A line without a floor keeps what it holds, but not the emptiness behind it.
        self._keep(np.maximum(limits, np.finfo(limits.dtype).min))

    def forget(self, which: NDArray[np.bool_]) -> None:
        """Drop all pairs of some queries."""
        if which.any():
            self._keep(np.where(which, np.inf, np.finfo(self._scores.dtype).min).astype(self._scores.dtype))

    def _keep(self, limits: NDArray[Any]) -> None:
        width = int(self.counts.max(initial=0))
        scores, rows = self._scores[:, :width], self._rows[:, :width]
        queries, places = np.nonzero(scores >= limits[:, None])
        kept_scores, kept_rows = scores[queries, places], rows[queries, places]
        scores[:] = -np.inf
        self.counts = np.zeros_like(self.counts)
        self.add(queries, kept_rows, kept_scores)

    def entries(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[Any]]:
        """Queries, rows and scan scores, in the order of the queries."""
        queries = np.repeat(np.arange(len(self.counts)), self.counts)
        inside = np.arange(self._scores.shape[1]) < self.counts[:, None]
        return queries, self._rows[inside].astype(np.int64), self._scores[inside]
