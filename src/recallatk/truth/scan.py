"""The fast pass: faiss's exact kernel in float32 names candidates, and says what it cannot have missed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.core import Metric

if TYPE_CHECKING:
    from numpy.typing import NDArray

_UNIT_32 = 2.0**-24
_TINY_32 = 2.0**-126
# Beyond this norm, squares and products leave float32's range, and the pass proves nothing.
_LARGEST = 1e18


@dataclass(eq=False)
class Candidates:
    """The best rows so far of every query, by float32 score, larger being better."""

    rows: NDArray[np.int64]
    scores: NDArray[np.float32]

    @classmethod
    def empty(cls, queries: int, count: int) -> Candidates:
        """No candidates yet."""
        return cls(np.full((queries, count), -1), np.full((queries, count), -np.inf, np.float32))

    def merge(self, which: NDArray[np.int64], rows: NDArray[np.int64], scores: NDArray[np.float32]) -> None:
        """Take in what a block found for some of the queries."""
        all_rows = np.concatenate([self.rows[which], rows], axis=1)
        all_scores = np.concatenate([self.scores[which], scores], axis=1)
        kept = np.argsort(-all_scores, axis=1, kind="stable")[:, : self.rows.shape[1]]
        self.rows[which] = np.take_along_axis(all_rows, kept, axis=1)
        self.scores[which] = np.take_along_axis(all_scores, kept, axis=1)


class Scanner:
    """Queries prepared for the kernel, and the bound on what the kernel says."""

    def __init__(self, metric: Metric, queries: NDArray[Any]) -> None:
        self.metric = metric
        self.queries, self.query_norms = self._prepared(queries)
        self.largest_norm = 0.0

    @property
    def safe(self) -> bool:
        """Whether nothing so far can have left float32's range."""
        return max(float(self.query_norms.max(initial=0.0)), self.largest_norm) < _LARGEST

    def _prepared(self, block: NDArray[Any]) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
        """The block in float32, of unit length under cosine, with its norms as they enter the bound."""
        wide = block.astype(np.float64)
        norms = np.sqrt(np.square(wide).sum(axis=1))
        if self.metric is Metric.COSINE:
            wide /= norms[:, None]
            norms = np.ones_like(norms)
        with np.errstate(over="ignore"):
            return np.ascontiguousarray(wide, dtype=np.float32), norms

    def prepare(self, block: NDArray[Any]) -> NDArray[np.float32]:
        """A corpus block for the kernel; its norms widen the bound."""
        narrow, norms = self._prepared(block)
        self.largest_norm = max(self.largest_norm, float(norms.max(initial=0.0)))
        return narrow

    def nearest(
        self, which: NDArray[np.int64], block: NDArray[np.float32], count: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """The best rows of a prepared block for some queries; -1 where the block has no more."""
        import faiss

        kind = faiss.METRIC_L2 if self.metric is Metric.L2 else faiss.METRIC_INNER_PRODUCT
        found, rows = faiss.knn(self.queries[which], block, min(count, len(block)), kind)
        scores = -found if self.metric is Metric.L2 else found
        return rows, np.where(rows < 0, np.float32(-np.inf), scores)

    def best_excluded(self, candidates: Candidates) -> NDArray[np.float64]:
        """For each query, a score that no row outside its candidates can beat, as scores are stored."""
        dimension = self.queries.shape[1]
        worst = candidates.scores[:, -1].astype(np.float64)
        rounding = (dimension + 8) * _UNIT_32 / (1 - (dimension + 8) * _UNIT_32)
        if self.metric is Metric.L2:
            error = rounding * (self.query_norms + self.largest_norm) ** 2 + dimension * _TINY_32
            nearest = np.sqrt(np.maximum(-worst - error, 0.0))
            return np.asarray(np.where(np.isneginf(worst), np.inf, nearest))
        error = rounding * self.query_norms * self.largest_norm
        error += dimension * _TINY_32 * (1 + self.query_norms + self.largest_norm)
        return np.asarray(worst + error)
