"""faiss's fused exact search as a scanner: the k best of a tile, and more where these end too soon."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.truths.scanner import Asked, ScanHits, below

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recallatk.truths.space import Space

# faiss selects the best rows in every call, so large calls are cheaper.
_TILE_BYTES = 32 << 20
_SPARE = 16


class FaissScanner:
    """`faiss.knn` by inner product; faiss brings its own threads."""

    gathers = True
    extra = 0

    def __init__(self, space: Space, queries: int) -> None:
        self.tile_rows = max(16, _TILE_BYTES // (space.width * space.precision.dtype.itemsize))

    def enter(self, rows: NDArray[Any]) -> None:
        """Nothing is kept of any rows."""

    def hits(self, asked: Asked, rows: NDArray[Any]) -> ScanHits:
        """Search, then search again with a larger k for queries whose last result still is a hit."""
        found: list[ScanHits] = []
        thresholds = below(asked.floors, asked.errors, asked.queries.dtype)
        which = np.arange(len(asked.queries))
        count = asked.k + _SPARE
        while len(which):
            count = min(count, len(rows))
            scores, columns = self._nearest(asked.queries[which], rows, count)
            thresholds[which] = limits = self._limits(asked, which, scores, thresholds[which])
            done = scores[:, -1] < limits if count < len(rows) else np.ones(len(which), bool)
            found.append(self._taken(asked, which[done], columns[done], scores[done], limits[done]))
            which = which[~done]
            count *= 4
        floors = np.where(asked.fresh, thresholds.astype(np.float64) + asked.errors, asked.floors)
        return _joined(found, floors)

    def _nearest(self, queries: NDArray[Any], rows: NDArray[Any], count: int) -> tuple[Any, Any]:
        import faiss

        found: tuple[Any, Any] = faiss.knn(
            queries, np.ascontiguousarray(rows), count, faiss.METRIC_INNER_PRODUCT
        )
        return found

    @staticmethod
    def _limits(
        asked: Asked, which: NDArray[np.int64], scores: NDArray[Any], limits: NDArray[Any]
    ) -> NDArray[Any]:
        fresh = asked.fresh[which]
        # A query's own row may be among the first k, and is none of them.
        k = asked.k + (asked.eligible is not None)
        if scores.shape[1] >= k:
            slack = asked.slack(asked.errors[which[fresh]])
            limits[fresh] = below(scores[fresh, k - 1], slack, scores.dtype)
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
        return ScanHits(queries, columns, values, asked.errors, asked.floors)


def _joined(found: list[ScanHits], floors: NDArray[np.float64]) -> ScanHits:
    queries, columns, scores = (np.concatenate(part) for part in list(zip(*found, strict=True))[:3])
    order = np.argsort(queries, kind="stable")
    return ScanHits(queries[order], columns[order], scores[order], found[0].errors, floors)
