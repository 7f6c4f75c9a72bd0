"""Comparison of answers with the truth: hits among the first answers, ties included."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from recallatk.analysis.matching import Places, count_marked, find_places
from recallatk.errors import UsageError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recallatk.core import Truth


class Hits(NamedTuple):
    """Hits among the best `cut` rows of each query."""

    tie_aware: NDArray[np.int64]
    """Hits where any row that ties with the last one counts, up to `cut`."""
    strict: NDArray[np.int64]
    """Hits by strict ids: ties are cut by row number."""
    cut: NDArray[np.int64]
    """Number of rows to find: min(k, eligible)."""


class Compared:
    """The answers of every query against its truth.

    Args:
        truth: the best rows of every query.
        answers: (queries, width) rows in answer order; below 0 for padding, unknown ids and no answer.
        answer_scores: score of each answer, computed from the vectors; NaN if it is not a row.
    """

    def __init__(
        self, truth: Truth, answers: NDArray[np.int64], answer_scores: NDArray[np.float64] | None = None
    ) -> None:
        self.truth, self.answers, self.answer_scores = truth, answers, answer_scores
        self.places = find_places(truth.rows, answers)
        self._found: dict[tuple[int, int], Hits] = {}

    def __len__(self) -> int:
        return len(self.truth)

    @cached_property
    def available(self) -> NDArray[np.int64]:
        """Number of neighbors that the truth lists for each query."""
        rows = self.truth.rows
        # Padding is always at the end.
        if rows.shape[1] and rows[:, -1].min(initial=0) >= 0:
            return np.full(len(rows), rows.shape[1])
        return np.asarray((rows >= 0).sum(axis=1))

    @cached_property
    def beyond(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Queries and ranks of answers that tie beyond the depth."""
        some, _, found = self.overflow_places
        line, column = np.nonzero(found.is_found)
        return some[line], found.stands[line, column].astype(np.int64)

    @cached_property
    def overflow_places(self) -> tuple[NDArray[np.int64], NDArray[np.int64], Places]:
        """Queries with ties beyond the depth, the rows of these (-1 after the last), and their places."""
        offsets, rows = self.truth.overflow or (np.zeros(1, np.int64), np.empty(0, np.int64))
        lengths = np.diff(offsets)
        some = np.flatnonzero(lengths)
        inside = np.arange(lengths.max(initial=0)) < lengths[some, None]
        lists = np.full(inside.shape, -1, np.int64)
        lists[inside] = rows
        return some, lists, find_places(lists, self.answers[some])

    def ties_with_previous(self, which: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Mask of neighbors that tie with the previous one, for some queries."""
        truth = self.truth
        if truth.tied is not None:
            return truth.tied[which]
        tied = np.zeros((len(which), truth.depth), bool)
        if truth.scores is not None:
            tied[:, 1:] = truth.scores[which, 1:] == truth.scores[which, :-1]
        return tied

    def _cut_in_a_tie(self, k: int) -> NDArray[np.int64]:
        """Queries in which a row after the first k ties with the k-th."""
        truth = self.truth
        if k == truth.depth:
            if truth.overflow is None:
                return np.empty(0, np.int64)
            return np.flatnonzero(np.diff(truth.overflow[0]))
        if truth.tied is not None:
            return np.flatnonzero(truth.tied[:, k])
        if truth.scores is None:
            return np.empty(0, np.int64)
        return np.flatnonzero(truth.scores[:, k] == truth.scores[:, k - 1])

    def hits(self, k: int, within: int | None = None) -> Hits:
        """Hits of the best k rows among the first `within` answers (default k)."""
        require_within(k, self.truth)
        within = k if within is None else within
        if (k, within) not in self._found:
            self._found[k, within] = self._count_hits(k, within)
        return self._found[k, within]

    def _count_hits(self, k: int, within: int) -> Hits:
        strict = self.places.found(k, within)
        cut = np.minimum(self.available, k)
        tie_aware = strict
        which = self._cut_in_a_tie(k)
        if len(which):
            tie_aware = strict.copy()
            tie_aware[which] = self._hits_with_ties(k, within)
        return Hits(tie_aware, strict, cut)

    def tie_blocks(self, k: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Queries with a tie across rank k, and the ranks from 0 where it begins and where it ends."""
        which = self._cut_in_a_tie(k)
        fresh = ~self.ties_with_previous(which)
        fresh[:, 0] = True
        columns = np.arange(self.truth.depth)
        first = np.where(fresh[:, :k], columns[:k], 0).max(axis=1)
        ends = np.where(fresh[:, k:], columns[k:], self.truth.depth)
        return which, first, ends.min(axis=1, initial=self.truth.depth)

    def _hits_with_ties(self, k: int, within: int) -> NDArray[np.int64]:
        which, first, end = self.tie_blocks(k)
        ranks = self.places.ranks[which]
        found = self.places.stands[which] < min(within, self.places.never)
        better = count_marked(found & (ranks < first[:, None]), most=k)
        tied = count_marked(found & (ranks < end[:, None]), most=self.truth.depth) - better
        queries, places = self.beyond
        more = np.bincount(queries[places < within], minlength=len(self))[which]
        tied = tied + np.where(end == self.truth.depth, more, 0)
        return np.asarray(better + np.minimum(k - first, tied))

    @cached_property
    def block_starts(self) -> NDArray[np.int64]:
        """For each neighbor, the rank of the first one that it ties with."""
        tied = self.ties_with_previous(np.arange(len(self)))
        columns = np.arange(self.truth.depth)
        return np.asarray(np.maximum.accumulate(np.where(tied, 0, columns), axis=1))

    def cut_ties(self, k: int) -> int:
        """Number of queries that tie at k with more rows than the truth lists: recall may be too low."""
        truth = self.truth
        if truth.tie_counts is None or truth.overflow is None:
            return 0
        unnamed = truth.tie_counts > np.diff(truth.overflow[0])
        if not unnamed.any():
            return 0
        last = np.minimum(self.available, k) - 1
        return int((unnamed & (self.block_starts[:, -1] <= last)).sum())


def require_within(k: int, truth: Truth) -> None:
    """Refuse a k beyond the depth of the truth."""
    if not 1 <= k <= truth.depth:
        raise UsageError(
            f"recall@{k} needs a deeper truth: this one has depth {truth.depth}. "
            f"Recompute it: recallatk truth CORPUS QUERIES --depth {k}"
        )


def shares(hits: NDArray[Any], cut: NDArray[np.int64]) -> NDArray[np.float64]:
    """Hits divided by the rows to find; NaN if there are none."""
    if cut.min(initial=1) > 0:
        return np.asarray(hits / cut)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(hits / cut)
