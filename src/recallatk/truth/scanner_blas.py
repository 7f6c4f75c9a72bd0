"""The plain scanner: one matrix product of NumPy's BLAS a tile, and a comparison with the thresholds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.truth.scanner import Asked, Hits, below

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Tiles of this many rows and bytes, against a few hundred queries, ran fastest: the scores of a tile
# should not fall out of the cache before they are compared.
_TILE_ROWS = 2048
_TILE_BYTES = 8 << 20
BATCH_QUERIES = 1024


class BlasScanner:
    """sgemm or dgemm, whichever the space asks for; the caller keeps BLAS to one thread."""

    gathers = False

    def __init__(self, width: int, dtype: np.dtype[Any], queries: int) -> None:
        self.tile_rows = max(16, min(_TILE_ROWS, _TILE_BYTES // (width * dtype.itemsize)))
        batch = min(BATCH_QUERIES, queries)
        self._scores = np.empty(batch * self.tile_rows, dtype)
        self._flags = np.empty(batch * self.tile_rows, bool)

    def hits(self, asked: Asked, rows: NDArray[Any]) -> Hits:
        """Multiply, seed what has no threshold yet, compare."""
        shape = (len(asked.queries), len(rows))
        size = shape[0] * shape[1]
        scores = self._scores[:size].reshape(shape)
        np.matmul(asked.queries, rows.T, out=scores)
        thresholds = self._seeded(asked, scores)
        flags = np.greater_equal(scores, thresholds[:, None], out=self._flags[:size].reshape(shape))
        flat = np.flatnonzero(flags)
        queries, columns = np.divmod(flat, shape[1])
        values = self._scores[flat]
        if asked.eligible is not None:
            counts = values > -np.inf
            counts[counts] = asked.eligible.pairs(queries[counts], columns[counts])
            queries, columns, values = queries[counts], columns[counts], values[counts]
        return Hits(queries, columns, values, thresholds)

    @staticmethod
    def _seeded(asked: Asked, scores: NDArray[Any]) -> NDArray[Any]:
        """The thresholds, with those that are still missing taken from this tile's own k-th best."""
        fresh = np.flatnonzero(np.isneginf(asked.thresholds))
        if not len(fresh):
            return asked.thresholds
        if asked.eligible is not None:
            scores[fresh] = np.where(asked.eligible.matrix(fresh), scores[fresh], -np.inf)
        if scores.shape[1] < asked.k:
            return asked.thresholds
        place = scores.shape[1] - asked.k
        thresholds = asked.thresholds.copy()
        best = np.partition(scores[fresh], place, axis=1)[:, place]
        thresholds[fresh] = below(best, asked.slack[fresh], scores.dtype)
        return thresholds
