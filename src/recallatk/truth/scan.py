"""The fast pass: a kernel of limited precision names candidates, and says what it cannot have missed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from recallatk.core import Metric

if TYPE_CHECKING:
    from numpy.typing import NDArray

# A matrix of scores is at most about this large.
_SCORE_BYTES = 32 << 20


@dataclass(eq=False)
class Candidates:
    """The best rows so far of every query, by the kernel's score, larger being better."""

    rows: NDArray[np.int64]
    scores: NDArray[Any]

    @classmethod
    def empty(cls, queries: int, count: int, dtype: np.dtype[Any]) -> Candidates:
        """No candidates yet."""
        shape = (queries, count)
        return cls(np.full(shape, -1, np.int64), np.full(shape, -np.inf, dtype))

    def merge(self, which: NDArray[np.int64], rows: NDArray[np.int64], scores: NDArray[Any]) -> None:
        """Take in what a block found for some of the queries."""
        all_rows = np.concatenate([self.rows[which], rows], axis=1)
        all_scores = np.concatenate([self.scores[which], scores], axis=1)
        kept = np.argsort(-all_scores, axis=1, kind="stable")[:, : self.rows.shape[1]]
        self.rows[which] = np.take_along_axis(all_rows, kept, axis=1)
        self.scores[which] = np.take_along_axis(all_scores, kept, axis=1)


class Scanner:
    """Queries prepared for a kernel, and the bound on what the kernel says.

    Subclasses have a precision and a kernel; the bound holds for any order of summation.
    """

    dtype: ClassVar[np.dtype[Any]]
    unit: ClassVar[float]
    """Half the distance from 1 to the next number."""
    tiny: ClassVar[float]
    """The smallest number that keeps its precision."""
    largest: ClassVar[float]
    """Beyond this norm, squares and products leave the range, and the pass proves nothing."""

    def __init__(self, metric: Metric, queries: NDArray[Any]) -> None:
        self.metric = metric
        self.queries, self.query_norms = self._prepared(queries)
        self.largest_norm = 0.0

    @property
    def safe(self) -> bool:
        """Whether nothing so far can have left the kernel's range."""
        return max(float(self.query_norms.max(initial=0.0)), self.largest_norm) < self.largest

    def _prepared(self, block: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.float64]]:
        """The block as the kernel takes it, of unit length under cosine, with its norms for the bound."""
        wide = block.astype(np.float64)
        norms = np.sqrt(np.square(wide).sum(axis=1))
        if self.metric is Metric.COSINE:
            wide /= norms[:, None]
            norms = np.ones_like(norms)
        with np.errstate(over="ignore"):
            return np.ascontiguousarray(wide, dtype=self.dtype), norms

    def prepare(self, block: NDArray[Any]) -> NDArray[Any]:
        """A corpus block for the kernel; its norms widen the bound."""
        prepared, norms = self._prepared(block)
        self.largest_norm = max(self.largest_norm, float(norms.max(initial=0.0)))
        return prepared

    def nearest(
        self, which: NDArray[np.int64], block: NDArray[Any], count: int
    ) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """The best rows of a prepared block for some queries; -1 where the block has no more."""
        raise NotImplementedError

    def best_excluded(self, candidates: Candidates) -> NDArray[np.float64]:
        """For each query, a score that no row outside its candidates can beat, as scores are stored."""
        dimension = self.queries.shape[1]
        worst = candidates.scores[:, -1].astype(np.float64)
        rounding = (dimension + 8) * self.unit / (1 - (dimension + 8) * self.unit)
        if self.metric is Metric.L2:
            error = rounding * (self.query_norms + self.largest_norm) ** 2 + dimension * self.tiny
            nearest = np.sqrt(np.maximum(-worst - error, 0.0))
            return np.asarray(np.where(np.isneginf(worst), np.inf, nearest))
        error = rounding * self.query_norms * self.largest_norm
        error += dimension * self.tiny * (1 + self.query_norms + self.largest_norm)
        return np.asarray(worst + error)


class Float32Scanner(Scanner):
    """faiss's exact kernel."""

    dtype = np.dtype(np.float32)
    unit, tiny, largest = 2.0**-24, 2.0**-126, 1e18

    def nearest(
        self, which: NDArray[np.int64], block: NDArray[Any], count: int
    ) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """The best rows by one fused search."""
        import faiss

        kind = faiss.METRIC_L2 if self.metric is Metric.L2 else faiss.METRIC_INNER_PRODUCT
        found, rows = faiss.knn(self.queries[which], block, min(count, len(block)), kind)
        scores = -found if self.metric is Metric.L2 else found
        return rows, np.where(rows < 0, np.float32(-np.inf), scores)


class Float64Scanner(Scanner):
    """BLAS in double precision, for data on which float32 proves nothing: far off, or of uneven norms."""

    dtype = np.dtype(np.float64)
    unit, tiny, largest = 2.0**-53, 2.0**-1022, 1e150

    def nearest(
        self, which: NDArray[np.int64], block: NDArray[Any], count: int
    ) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """The best rows by a matrix product and a selection."""
        count = min(count, len(block))
        rows = np.empty((len(which), count), np.int64)
        scores = np.empty((len(which), count))
        step = max(1, _SCORE_BYTES // (8 * len(block)))
        for start in range(0, len(which), step):
            part = slice(start, start + step)
            found = self._scores(self.queries[which[part]], block)
            rows[part] = np.argpartition(-found, count - 1, axis=1)[:, :count]
            scores[part] = np.take_along_axis(found, rows[part], axis=1)
        return rows, scores

    def _scores(self, queries: NDArray[Any], block: NDArray[Any]) -> NDArray[Any]:
        products: NDArray[Any] = queries @ block.T
        if self.metric is not Metric.L2:
            return products
        squares = np.square(queries).sum(axis=1)[:, None] + np.square(block).sum(axis=1)
        distances: NDArray[Any] = 2.0 * products - squares
        return distances
