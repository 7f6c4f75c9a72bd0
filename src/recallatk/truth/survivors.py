"""Pairs that no bound has ruled out yet: a log that is thinned whenever it grows long."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.truth.scanner import below

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recallatk.truth.scanner import Hits


class Survivors:
    """What one thread holds of one batch of queries, by scan score."""

    def __init__(self, queries: int, k: int, dtype: np.dtype[Any]) -> None:
        self.k = k
        # Rarely thinned is cheaply thinned; but what is not thinned also sets no threshold.
        self.limit = 3 * k + 64
        self.counts = np.zeros(queries, np.int64)
        self._log = [(np.empty(0, np.int32), np.empty(0, np.int64), np.empty(0, dtype))]

    def add(self, hits: Hits, rows: NDArray[np.int64]) -> None:
        """Take in some hits; `rows` are the corpus rows of their columns."""
        self._log.append((hits.queries.astype(np.int32), rows[hits.columns], hits.scores))
        self.counts += np.bincount(hits.queries, minlength=len(self.counts))

    @property
    def full(self) -> bool:
        """Whether it is time to thin: on the whole, or because a query holds much more than the others."""
        return bool(self.counts.mean() > self.limit or self.counts.max() > 8 * self.limit)

    def entries(self) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[Any]]:
        """Queries, rows and scan scores, by query."""
        if len(self._log) > 1:
            queries, rows, scores = (np.concatenate(part) for part in zip(*self._log, strict=True))
            # NumPy sorts numbers of 16 bits ten times as fast as larger ones; a batch has fewer queries.
            order = np.argsort(queries.astype(np.uint16), kind="stable")
            self._log = [(queries[order], rows[order], scores[order])]
        return self._log[0]

    def absorb(self, other: Survivors) -> None:
        """Take over everything that another thread holds."""
        self._log.append(other.entries())
        self.counts += other.counts

    def best(self) -> NDArray[Any]:
        """The k-th best scan score of each query; -inf where there are fewer."""
        queries, _, scores = self.entries()
        starts = np.cumsum(self.counts) - self.counts
        best = np.full(len(self.counts), -np.inf, scores.dtype)
        # One query with very many entries must not make the table of all of them as wide.
        long = np.flatnonzero(self.counts > 4 * self.limit)
        for query in long.tolist():
            part = scores[starts[query] : starts[query] + self.counts[query]]
            best[query] = np.partition(part, len(part) - self.k)[len(part) - self.k]
        short = self.counts <= 4 * self.limit
        width = int(self.counts[short].max(initial=0))
        if width >= self.k:
            table = np.full((len(self.counts), width), -np.inf, scores.dtype)
            inside = short[queries] if len(long) else slice(None)
            places = (np.arange(len(queries)) - starts[queries])[inside]
            table[queries[inside], places] = scores[inside]
            best[short] = np.partition(table, width - self.k, axis=1)[short, width - self.k]
        return best

    def thin(self, floors: NDArray[np.float64], errors: NDArray[np.float64]) -> None:
        """Drop what cannot reach `floors`, scores that k rows are known to have or to exceed."""
        queries, rows, scores = self.entries()
        kept = scores >= below(floors, errors, scores.dtype)[queries]
        self._log = [(queries[kept], rows[kept], scores[kept])]
        self.counts = np.bincount(queries[kept], minlength=len(self.counts))

    def forget(self, which: NDArray[np.bool_]) -> None:
        """Drop all entries of some queries."""
        if not which.any():
            return
        queries, rows, scores = self.entries()
        kept = ~which[queries]
        self._log = [(queries[kept], rows[kept], scores[kept])]
        self.counts = np.where(which, 0, self.counts)

    def restore(self, queries: NDArray[np.int32], rows: NDArray[np.int64], scores: NDArray[Any]) -> None:
        """Become what `entries` said before."""
        self._log = [(queries, rows, scores)]
        self.counts = np.bincount(queries, minlength=len(self.counts))
