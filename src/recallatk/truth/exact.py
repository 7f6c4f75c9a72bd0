"""The exact top rows of every query: a float32 pass for candidates, float64 for the verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.core import BLOCK_BYTES, Dataset, Metric, Truth, blocks
from recallatk.errors import BadValueError, UsageError
from recallatk.fingerprint import fingerprints
from recallatk.truth.scan import Candidates, Scanner
from recallatk.truth.scores import pair_scores, tolerance
from recallatk.truth.ties import canonical

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

# Candidates beyond depth, so that float32's errors and the ties at the end rarely need a second look.
_SPARE = 28
# Squares of larger float64 numbers, added up, would leave its range.
_LARGEST = 1e150


def ground_truth(
    dataset: Dataset,
    *,
    depth: int = 100,
    block_bytes: int = BLOCK_BYTES,
    progress: Callable[[int, int], None] | None = None,
) -> Truth:
    """The best `depth` eligible rows of every query, with float64 scores and complete ties.

    Args:
        dataset: the corpus, the queries with their filters, and the metric.
        depth: how many rows to keep for each query.
        block_bytes: how much of the corpus to hold at a time; the result does not depend on it.
        progress: called with the corpus rows done and the rows there are.
    """
    if depth < 1:
        raise UsageError(f"a depth of {depth}. Accepted: 1 or more")
    search = _Search(dataset, depth, block_bytes)
    search.find_candidates(progress)
    search.rescore()
    search.rescan_unproven()
    return search.truth()


class _Search:
    """One computation of truth, step by step."""

    def __init__(self, dataset: Dataset, depth: int, block_bytes: int) -> None:
        self.dataset, self.depth, self.block_bytes = dataset, depth, block_bytes
        self.metric = dataset.metric
        self.corpus = dataset.corpus.vectors
        self.eligibility = dataset.eligibility
        self.queries = dataset.queries.vectors.read(0, dataset.queries.rows)
        _require_range(self.queries, self.metric, dataset.queries.name)
        self.query_norms = _norms(self.queries)
        self.scanner = Scanner(self.metric, self.queries)
        spare = _SPARE + (self.eligibility.own_rows is not None)
        count = min(depth + spare, dataset.corpus.rows)
        self.candidates = Candidates.empty(len(self.queries), count)
        self.found: list[tuple[NDArray[np.int64], NDArray[np.float64]]] = []

    def find_candidates(self, progress: Callable[[int, int], None] | None) -> None:
        """Every block against every group of queries with one filter."""
        groups = [
            (mask, np.flatnonzero(self.eligibility.group == number))
            for number, mask in enumerate(self.eligibility.masks)
        ]
        for start, block in blocks(self.corpus, self.block_bytes):
            _require_range(block, self.metric, self.dataset.corpus.name, start)
            prepared = self.scanner.prepare(block)
            for mask, which in groups:
                passing = None if mask is None else np.flatnonzero(mask[start : start + len(block)])
                self._scan(which, prepared, passing, start)
            if progress is not None:
                progress(start + len(block), self.corpus.shape[0])

    def _scan(
        self,
        which: NDArray[np.int64],
        block: NDArray[np.float32],
        passing: NDArray[np.int64] | None,
        start: int,
    ) -> None:
        part = block if passing is None else block[passing]
        if not len(part):
            return
        rows, scores = self.scanner.nearest(which, part, self.candidates.rows.shape[1])
        numbers = rows if passing is None else passing[rows]
        self.candidates.merge(which, np.where(rows < 0, -1, numbers + start), scores)

    def rescore(self) -> None:
        """Score every candidate in float64, reading the corpus once more."""
        query, column = np.nonzero(self.candidates.rows >= 0)
        row = self.candidates.rows[query, column]
        allowed = self.eligibility.allowed(query, row)
        query, row = query[allowed], row[allowed]
        scores, scales = self._score_pairs(query, row)
        bounds = np.searchsorted(query, np.arange(len(self.queries) + 1))
        for number in range(len(self.queries)):
            part = slice(bounds[number], bounds[number + 1])
            self.found.append(self._ordered(row[part], scores[part], scales[part]))

    def _score_pairs(
        self, query: NDArray[np.int64], row: NDArray[np.int64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Scores and products of norms of (query, row) pairs in any order."""
        scores, scales = np.empty(len(row)), np.empty(len(row))
        order = np.argsort(row, kind="stable")
        by_row = row[order]
        for start, block in blocks(self.corpus, self.block_bytes):
            first, last = np.searchsorted(by_row, [start, start + len(block)])
            pairs = order[first:last]
            vectors = block[row[pairs] - start]
            scores[pairs] = pair_scores(self.metric, self.queries[query[pairs]], vectors)
            scales[pairs] = self.query_norms[query[pairs]] * _norms(block)[row[pairs] - start]
        return scores, scales

    def _ordered(
        self, rows: NDArray[np.int64], scores: NDArray[np.float64], scales: NDArray[np.float64]
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        tolerances = tolerance(self.metric, scores, scales, self.queries.shape[1])
        return canonical(self.metric, rows, scores, tolerances)

    def rescan_unproven(self) -> None:
        """Queries for which a row outside the candidates might belong get every row in float64."""
        excluded = self.scanner.best_excluded(self.candidates)
        eligible, safe = self.eligibility.counts, self.scanner.safe
        for number, (rows, scores) in enumerate(self.found):
            if len(rows) == eligible[number]:
                continue
            proven = len(rows) >= self.depth and safe
            if not (proven and self._is_better(scores[self.depth - 1], excluded[number])):
                self.found[number] = self._scan_all(number)

    def _is_better(self, score: float, other: float) -> bool:
        return score > other if self.metric.higher_is_better else score < other

    def _scan_all(self, number: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        rows = np.arange(self.corpus.shape[0])
        query = np.full(len(rows), number)
        allowed = self.eligibility.allowed(query, rows)
        scores, scales = self._score_pairs(query[allowed], rows[allowed])
        return self._ordered(rows[allowed], scores, scales)

    def truth(self) -> Truth:
        """The first `depth` of each query, and what ties with the last of them."""
        shape = (len(self.found), self.depth)
        rows, scores = np.full(shape, -1), np.full(shape, np.nan)
        beyond: list[NDArray[np.int64]] = []
        for number, (found, values) in enumerate(self.found):
            kept = min(self.depth, len(found))
            rows[number, :kept], scores[number, :kept] = found[:kept], values[:kept]
            tied = values[kept:] == values[kept - 1] if kept else np.empty(0, bool)
            beyond.append(found[kept:][tied])
        offsets = np.cumsum([0, *(len(each) for each in beyond)])
        return Truth(
            rows=rows,
            scores=scores,
            eligible=self.eligibility.counts,
            metric=self.metric,
            overflow=(offsets, np.concatenate(beyond)),
            fingerprints=fingerprints(self.dataset),
        )


def _require_range(block: NDArray[Any], metric: Metric, where: str, start: int = 0) -> None:
    """Refuse vectors whose squares float64 cannot hold: their scores would be infinite or nothing."""
    if block.dtype != np.float64:
        return
    largest = np.abs(block).max(axis=1)
    beyond = largest > _LARGEST
    if metric is Metric.COSINE:
        beyond |= largest < 1 / _LARGEST
    if beyond.any():
        row = int(np.argmax(beyond))
        raise BadValueError(
            where,
            f"the largest number of the vector is {largest[row]:g}, whose square float64 cannot hold",
            f"sizes from {1 / _LARGEST:g} to {_LARGEST:g}",
            row=start + row,
        )


def _norms(block: NDArray[Any]) -> NDArray[np.float64]:
    norms: NDArray[np.float64] = np.sqrt(np.square(block.astype(np.float64)).sum(axis=1))
    return norms
