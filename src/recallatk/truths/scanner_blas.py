"""BLAS scanners: one matrix product per tile, and a prefix product in rotated spaces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.truths.scanner import Asked, ScanHits, below

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recallatk.truths.space import Space

# Tiles of this many rows and bytes, against a few hundred queries, ran fastest: the scores of a tile
# should not fall out of the cache before they are compared.
_TILE_ROWS = 2048
_TILE_BYTES = 8 << 20
BATCH_QUERIES = 1024
# Among this many times k groups, hardly two of the k best share one.
_SPARSE = 8


class BlasScanner:
    """sgemm or dgemm, whichever the space asks for; the caller keeps BLAS to one thread.

    The product subtracts the thresholds on the way: they are one more component of the queries, against
    ones in the rows. Comparing with zero is three times as fast as comparing with a column.
    """

    gathers = False
    extra = 1

    def __init__(self, space: Space, queries: int) -> None:
        dtype = space.precision.dtype
        self.rounding = space.rounding
        self.tile_rows = max(16, min(_TILE_ROWS, _TILE_BYTES // (space.width * dtype.itemsize)))
        size = min(BATCH_QUERIES, queries) * self.tile_rows
        self._scores = np.empty(size, dtype)
        self._flags = np.zeros(size + 8, bool)

    def enter(self, rows: NDArray[Any]) -> None:
        """Nothing is kept of any rows."""

    def hits(self, asked: Asked, rows: NDArray[Any]) -> ScanHits:
        """Multiply, seed what has no threshold yet, compare."""
        shape = (len(asked.queries), len(rows))
        fresh, dtype = asked.fresh, self._scores.dtype
        # Thresholds are subtracted, so that their size is among the terms that are rounded.
        reach = np.where(np.isfinite(asked.floors), np.abs(asked.floors), 0.0)
        errors = asked.errors + self.rounding * reach
        thresholds = below(asked.floors, errors, dtype)
        offsets = np.where(fresh, dtype.type(0), thresholds)
        asked.queries[:, -1] = -offsets
        scores = self._scores[: shape[0] * shape[1]].reshape(shape)
        self._multiply(asked, rows, scores)
        floors = asked.floors
        if fresh.any():
            _seed(asked, scores, thresholds, np.flatnonzero(fresh))
            floors = np.where(fresh, thresholds.astype(np.float64) + errors, floors)
        flat = self._reaching(scores, (thresholds - offsets)[:, None] if fresh.any() else 0)
        queries, columns = np.divmod(flat, shape[1])
        hits = ScanHits(queries, columns, self._scores[flat] + offsets[queries], errors, floors)
        return eligible_hits(asked, self._completed(asked, rows, hits, thresholds))

    def _multiply(self, asked: Asked, rows: NDArray[Any], out: NDArray[Any]) -> None:
        """Write the scores less the thresholds, or what these cannot exceed."""
        np.matmul(asked.queries, rows.T, out=out)

    def _completed(
        self, asked: Asked, rows: NDArray[Any], hits: ScanHits, thresholds: NDArray[Any]
    ) -> ScanHits:
        """What is left of the hits once their scores are whole, as they are here from the beginning."""
        return hits

    def _reaching(self, scores: NDArray[Any], limits: NDArray[Any] | int) -> NDArray[np.int64]:
        """The places of scores that reach their limit."""
        flags = self._flags[: scores.size].reshape(scores.shape)
        np.greater_equal(scores, limits, out=flags)
        # Eight flags at a time: hardly any is set.
        padded = self._flags[: -(-scores.size // 8) * 8]
        padded[scores.size :] = False
        words = np.flatnonzero(padded.view(np.uint64).astype(bool))
        inside = np.flatnonzero(padded.reshape(-1, 8)[words])
        return np.asarray((words[inside >> 3] << 3) + (inside & 7))


def eligible_hits(asked: Asked, hits: ScanHits) -> ScanHits:
    """The hits that count, where not every pair does."""
    if asked.eligible is None:
        return hits
    counts = hits.scores > -np.inf
    counts[counts] = asked.eligible.pairs(hits.queries[counts], hits.columns[counts])
    return hits.of(counts)


def _seed(asked: Asked, scores: NDArray[Any], thresholds: NDArray[Any], fresh: NDArray[np.int64]) -> None:
    """Take the thresholds that are still missing from this tile's own k-th best."""
    if asked.eligible is not None:
        scores[fresh] = np.where(asked.eligible.matrix(fresh), scores[fresh], -np.inf)
    if scores.shape[1] >= asked.k:
        best = _reached(scores[fresh], asked.k)
        thresholds[fresh] = below(best, asked.slack(asked.errors[fresh]), scores.dtype)


def reached_groups(count: int, k: int) -> tuple[int, int]:
    """How many groups, of how many scores each, have the k best of all scores mostly in different ones."""
    together = max(1, count // (_SPARSE * k))
    return count // together, together


def _reached(scores: NDArray[Any], k: int) -> NDArray[Any]:
    """A score that k of every line reach: their k-th best, or where that is dear, hardly less."""
    lines, columns = scores.shape
    width, together = reached_groups(columns, k)
    if together > 1:
        scores = scores[:, : together * width].reshape(lines, together, width).max(axis=1)
    place = scores.shape[1] - k
    return np.asarray(np.partition(scores, place, axis=1)[:, place])


_PORTION_PAIRS = 2048


class PrefixScanner(BlasScanner):
    """One product over the components that tell most, with the bound of the others among them."""

    def __init__(self, space: Space, queries: int) -> None:
        super().__init__(space, queries)
        self.lead = space.lead

    def _multiply(self, asked: Asked, rows: NDArray[Any], out: NDArray[Any]) -> None:
        if not _has_fresh(asked):
            np.matmul(asked.queries[:, self.lead :], rows[:, self.lead :].T, out=out)
            return
        # The first threshold has to come from whole scores.
        bounds = asked.queries[:, -2].copy()
        asked.queries[:, -2] = 0
        np.matmul(asked.queries, rows.T, out=out)
        asked.queries[:, -2] = bounds

    def _completed(
        self, asked: Asked, rows: NDArray[Any], hits: ScanHits, thresholds: NDArray[Any]
    ) -> ScanHits:
        if _has_fresh(asked):
            return hits
        whole = np.empty_like(hits.scores)
        sought, found = asked.queries[:, : self.lead], rows[:, : self.lead]
        for start in range(0, len(whole), _PORTION_PAIRS):
            part = slice(start, start + _PORTION_PAIRS)
            query, row = hits.queries[part], hits.columns[part]
            rest = np.einsum("ij,ij->i", sought[query], found[row])
            whole[part] = hits.scores[part] - asked.queries[query, -2] * rows[row, -2] + rest
        return hits._replace(scores=whole).of(whole >= thresholds[hits.queries])


def _has_fresh(asked: Asked) -> bool:
    """Whether any query has no candidates yet."""
    return bool(asked.fresh.any())
