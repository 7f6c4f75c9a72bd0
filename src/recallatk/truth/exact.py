"""The exact top rows of every query: a float32 pass for candidates, float64 for the verdict."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.core import BLOCK_BYTES, Dataset, Metric, Truth, blocks
from recallatk.errors import BadValueError, UsageError
from recallatk.fingerprint import fingerprints
from recallatk.ids import RowIds
from recallatk.truth.scan import Candidates, Float32Scanner, Float64Scanner, Scanner
from recallatk.truth.scores import pair_scores, tolerance
from recallatk.truth.ties import canonical

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Found = tuple[NDArray[np.int64], NDArray[np.float64]]
    Progress = Callable[[int, int], None]

_DEEPEST = 100_000
# Candidates beyond depth, so that float32's errors and the ties at the end rarely need a second look.
_SPARE = 28
# Pairs are gathered and scored in portions of about this size.
_PAIR_BYTES = 16 << 20
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
    _require_depth(depth)
    search = _Search(dataset, depth, block_bytes)
    search.run(progress)
    return search.truth()


def _require_depth(depth: object) -> None:
    if isinstance(depth, bool) or not isinstance(depth, int) or not 1 <= depth <= _DEEPEST:
        raise UsageError(f"a depth of {depth}. Accepted: whole numbers from 1 to {_DEEPEST:,}")


class _Search:
    """One computation of truth: ever more precise passes, each over the queries still without proof."""

    def __init__(self, dataset: Dataset, depth: int, block_bytes: int) -> None:
        self.dataset, self.depth, self.block_bytes = dataset, depth, block_bytes
        self.metric = dataset.metric
        self.corpus = dataset.corpus.vectors
        self.eligibility = dataset.eligibility
        self.queries = dataset.queries.vectors.read(0, dataset.queries.rows)
        _require_range(self.queries, self.metric, dataset.queries.name)
        self.query_norms = _norms(self.queries)
        self.pairs_at_once = max(1, _PAIR_BYTES // (8 * self.queries.shape[1]))
        self.largest_norm = 0.0
        self.found: dict[int, Found] = {}

    def run(self, progress: Progress | None) -> None:
        """Find and prove the best rows of every query."""
        left = np.arange(len(self.queries))
        for scanner in (Float32Scanner, Float64Scanner):
            if len(left):
                left = self._pass(scanner(self.metric, self.queries[left]), left, progress)
        if len(left):
            self._scan_all(left, progress)

    def _pass(
        self, scanner: Scanner, which: NDArray[np.int64], progress: Progress | None
    ) -> NDArray[np.int64]:
        """Scan for some queries; return those for which a row outside the candidates might belong."""
        candidates = self._candidates(scanner, which, progress)
        self._rescore(candidates, which)
        self.largest_norm = scanner.largest_norm
        excluded = scanner.best_excluded(candidates)
        scales = scanner.query_norms * scanner.largest_norm
        proven = [
            len(self.found[number][0]) == self.eligibility.counts[number]
            or (scanner.safe and self._is_proven(self.found[number][1], excluded[place], scales[place]))
            for place, number in enumerate(which.tolist())
        ]
        return np.asarray(which[~np.asarray(proven)])

    def _candidates(
        self, scanner: Scanner, which: NDArray[np.int64], progress: Progress | None
    ) -> Candidates:
        """Every block against every group of queries with one filter."""
        spare = _SPARE + (self.eligibility.own_rows is not None)
        count = min(self.depth + spare, self.corpus.shape[0])
        candidates = Candidates.empty(len(which), count, scanner.dtype)
        groups = [
            (mask, np.flatnonzero(self.eligibility.group[which] == number))
            for number, mask in enumerate(self.eligibility.masks)
        ]
        for start, block in blocks(self.corpus, self.block_bytes):
            _require_range(block, self.metric, self.dataset.corpus.name, start)
            prepared = scanner.prepare(block)
            for mask, places in groups:
                passing = None if mask is None else np.flatnonzero(mask[start : start + len(block)])
                part = prepared if passing is None else prepared[passing]
                if len(places) and len(part):
                    rows, scores = scanner.nearest(places, part, count)
                    numbers = rows if passing is None else passing[rows]
                    candidates.merge(places, np.where(rows < 0, -1, numbers + start), scores)
            if progress is not None:
                progress(start + len(block), self.corpus.shape[0])
        return candidates

    def _rescore(self, candidates: Candidates, which: NDArray[np.int64]) -> None:
        """Score every candidate in float64, pair by pair, reading the corpus once more."""
        place, column = np.nonzero(candidates.rows >= 0)
        row = candidates.rows[place, column]
        allowed = self.eligibility.allowed(which[place], row)
        place, row = place[allowed], row[allowed]
        scores, scales = self._score_pairs(which[place], row)
        bounds = np.searchsorted(place, np.arange(len(which) + 1))
        for number, (first, last) in zip(which.tolist(), pairwise(bounds), strict=True):
            part = slice(first, last)
            self.found[number] = self._ordered(row[part], scores[part], scales[part])

    def _score_pairs(
        self, query: NDArray[np.int64], row: NDArray[np.int64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Scores and products of norms of (query, row) pairs in any order."""
        scores, scales = np.empty(len(row)), np.empty(len(row))
        order = np.argsort(row, kind="stable")
        by_row = row[order]
        for start, block in blocks(self.corpus, self.block_bytes):
            first, last = np.searchsorted(by_row, [start, start + len(block)])
            for part in range(first, last, self.pairs_at_once):
                pairs = order[part : min(part + self.pairs_at_once, last)]
                vectors = block[row[pairs] - start]
                scores[pairs] = pair_scores(self.metric, self.queries[query[pairs]], vectors)
                scales[pairs] = self.query_norms[query[pairs]] * _norms(vectors)
        return scores, scales

    def _ordered(
        self, rows: NDArray[np.int64], scores: NDArray[np.float64], scales: NDArray[np.float64]
    ) -> Found:
        return canonical(self.metric, rows, scores, self._tolerance(scores, scales))

    def _tolerance(self, scores: NDArray[np.float64], scales: NDArray[np.float64]) -> NDArray[np.float64]:
        return tolerance(self.metric, scores, scales, self.queries.shape[1])

    def _is_proven(self, scores: NDArray[np.float64], excluded: float, largest: float) -> bool:
        """Whether the last neighbour and all that may tie with it beat every row outside the candidates."""
        if len(scores) < self.depth:
            return False
        last = scores[self.depth - 1 : self.depth]
        # Both ends of a chain of ties may be off by their tolerance.
        margin = 4 * self._tolerance(last, np.asarray([largest]))[0] * len(scores)
        worst = last[0] - margin if self.metric.higher_is_better else last[0] + margin
        return bool(worst > excluded if self.metric.higher_is_better else worst < excluded)

    def _scan_all(self, numbers: NDArray[np.int64], progress: Progress | None) -> None:
        """Score every eligible row for some queries, keeping only what can still be among the best."""
        kept = {number: (np.empty(0, np.int64), np.empty(0), np.empty(0)) for number in numbers.tolist()}
        for start, block in blocks(self.corpus, self.block_bytes):
            rows = np.arange(start, start + len(block))
            norms = _norms(block)
            for number, before in kept.items():
                allowed = self.eligibility.allowed(np.full(len(rows), number), rows)
                asked = np.broadcast_to(self.queries[number], (int(allowed.sum()), block.shape[1]))
                scores = pair_scores(self.metric, asked, block[allowed])
                scales = self.query_norms[number] * norms[allowed]
                fresh = (rows[allowed], scores, scales)
                joined = [np.concatenate(pair) for pair in zip(before, fresh, strict=True)]
                kept[number] = self._trimmed(self.query_norms[number] * self.largest_norm, *joined)
            if progress is not None:
                progress(start + len(block), self.corpus.shape[0])
        for number, found in kept.items():
            self.found[number] = self._ordered(*found)

    def _trimmed(
        self, scale: float, rows: NDArray[np.int64], scores: NDArray[np.float64], scales: NDArray[np.float64]
    ) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
        """The rows that are among the best `depth`, or that may tie with the last of these.

        Ties form chains, which may pass through every row; `scale` bounds each link of them.
        """
        if len(rows) <= self.depth:
            return rows, scores, scales
        badness = -scores if self.metric.higher_is_better else scores
        last = np.partition(badness, self.depth - 1)[self.depth - 1 : self.depth]
        slack = 4 * self._tolerance(np.abs(last), np.asarray([scale])) * self.corpus.shape[0]
        near = badness <= last + slack
        return rows[near], scores[near], scales[near]

    def truth(self) -> Truth:
        """The first `depth` of each query, and what ties with the last of them."""
        shape = (len(self.found), self.depth)
        rows, scores = np.full(shape, -1, np.int64), np.full(shape, np.nan)
        beyond: list[NDArray[np.int64]] = []
        for number, (found, values) in sorted(self.found.items()):
            kept = min(self.depth, len(found))
            rows[number, :kept], scores[number, :kept] = found[:kept], values[:kept]
            tied = values[kept:] == values[kept - 1] if kept else np.empty(0, bool)
            beyond.append(found[kept:][tied])
        offsets = np.cumsum([0, *(len(each) for each in beyond)])
        tied_rows = np.concatenate(beyond)
        corpus, queries = self.dataset.corpus, self.dataset.queries
        return Truth(
            rows=rows,
            scores=scores,
            eligible=self.eligibility.counts,
            metric=self.metric,
            overflow=(offsets, tied_rows),
            query_ids=queries.ids,
            row_ids=RowIds.some(np.concatenate([rows.reshape(-1), tied_rows]), corpus.ids),
            corpus_rows=corpus.rows,
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
