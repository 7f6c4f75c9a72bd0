"""faiss's fused exact search as a scanner: the k best of a tile, and more where these end too soon."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.truths.scanner import Asked, ScanHits, below

if TYPE_CHECKING:
    from numpy.typing import NDArray

# faiss selects the best rows in every call, so large calls are cheaper.
_TILE_BYTES = 32 << 20
_SPARE = 16


class FaissScanner:
    """`faiss.knn` by inner product; faiss brings its own threads."""

    gathers = True
    extra = 0

    def __init__(self, width: int, dtype: np.dtype[Any], queries: int) -> None:
        self.tile_rows = max(16, _TILE_BYTES // (width * dtype.itemsize))

    def hits(self, asked: Asked, rows: NDArray[Any]) -> ScanHits:
        """Search, then search again with a larger k for queries whose last result still is a hit."""
        found: list[ScanHits] = []
        thresholds = asked.thresholds.copy()
        which = np.arange(len(asked.queries))
        count = asked.k + _SPARE
        while len(which):
            count = min(count, len(rows))
            scores, columns = self._nearest(asked.queries[which], rows, count)
            thresholds[which] = limits = self._limits(asked, which, scores)
            done = scores[:, -1] < limits if count < len(rows) else np.ones(len(which), bool)
            found.append(self._taken(asked, which[done], columns[done], scores[done], limits[done]))
            which = which[~done]
            count *= 4
        return _joined(found, thresholds)

    @staticmethod
    def _nearest(queries: NDArray[Any], rows: NDArray[Any], count: int) -> tuple[Any, Any]:
        import faiss

        found: tuple[Any, Any] = faiss.knn(
            queries, np.ascontiguousarray(rows), count, faiss.METRIC_INNER_PRODUCT
        )
        return found

    @staticmethod
    def _limits(asked: Asked, which: NDArray[np.int64], scores: NDArray[Any]) -> NDArray[Any]:
        limits = asked.thresholds[which].copy()
        fresh = np.isneginf(limits)
        # A query's own row may be among the first k, and is none of them.
        k = asked.k + (asked.eligible is not None)
        if scores.shape[1] >= k:
            limits[fresh] = below(scores[fresh, k - 1], asked.slack[which[fresh]], scores.dtype)
        return limits

    @staticmethod
    def _taken(
        asked: Asked, which: NDArray[np.int64], columns: Any, scores: Any, limits: NDArray[Any]
    ) -> ScanHits:
        place, column = np.nonzero((scores >= limits[:, None]) & (columns >= 0))
        queries, columns, values = which[place], columns[place, column], scores[place, column]
        if asked.eligible is not None:
            counts = asked.eligible.pairs(queries, columns)
            queries, columns, values = queries[counts], columns[counts], values[counts]
        return ScanHits(queries, columns, values, limits)


def _joined(found: list[ScanHits], thresholds: NDArray[Any]) -> ScanHits:
    queries, columns, scores = (np.concatenate(part) for part in list(zip(*found, strict=True))[:3])
    order = np.argsort(queries, kind="stable")
    return ScanHits(queries[order], columns[order], scores[order], thresholds)
