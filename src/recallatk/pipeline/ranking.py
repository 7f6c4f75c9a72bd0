"""Ranked lists of rows: order by score and row, with scores that float64 cannot tell apart made equal."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from recallatk.errors import EngineError, MismatchError

if TYPE_CHECKING:
    from numpy.typing import NDArray

EPSILON = float(np.finfo(np.float64).eps)
"""Distance from 1 to the next float64: a rounded result is off by at most half of it, relatively."""


class Scores(NamedTuple):
    """Scores of some rows for one query."""

    rows: NDArray[np.int64]
    """Ascending."""
    scores: NDArray[np.float64]
    errors: NDArray[np.float64]
    """Maximum rounding error of each score."""


class Ranked(NamedTuple):
    """One list of rows per query, best first."""

    rows: NDArray[np.int64]
    """(queries, depth) corpus rows; -1 after the last one."""
    scores: NDArray[np.float64] | None
    """Score of each row, higher is better; NaN for -1. None if the stage gives no scores."""

    @property
    def depth(self) -> int:
        """Maximum number of rows per query."""
        return int(self.rows.shape[1])

    def cut(self, depth: int) -> Ranked:
        """The first `depth` rows of each query."""
        return Ranked(self.rows[:, :depth], None if self.scores is None else self.scores[:, :depth])


def contenders(found: Scores, k: int) -> Scores:
    """The rows that can be among the best k: those that reach the k-th best score or tie with it."""
    rows, scores, errors = found
    if len(rows) <= k:
        return found
    lowest = np.partition(scores, len(rows) - k)[len(rows) - k]
    slack = 2 * float(errors.max())
    # Ties beyond rank k decide which rows are returned.
    while len(near := scores[(scores < lowest) & (scores >= lowest - slack)]):
        lowest = near.min()
    kept = np.flatnonzero(scores >= lowest)
    return Scores(rows[kept], scores[kept], errors[kept])


def ranked(query: NDArray[np.int64], found: Scores, queries: int, k: int) -> Ranked:
    """The best k rows of every query: by score, and by row where scores tie.

    Scores tie if their errors overlap, also from one to the next. They all get the best score among them.

    Args:
        query: query of each row, ascending; ignored if there is one query.
        found: rows, ascending for each query, with scores and their errors.
        queries: number of queries.
        k: maximum number of rows per query.
    """
    one = queries == 1
    order = (-found.scores).argsort(kind="stable") if one else np.lexsort((-found.scores, query))
    rows, scores, errors = found.rows[order], found.scores[order], found.errors[order]
    gap = scores[:-1] - scores[1:]
    tied = gap <= errors[:-1] + errors[1:]
    if not one:
        tied &= query[:-1] == query[1:]
    if (tied & (gap > 0)).any():
        fresh = np.concatenate([[True], ~tied])
        block = np.cumsum(fresh) - 1
        rows, scores = rows[np.lexsort((rows, block))], scores[fresh][block]
    if one and len(rows) >= k:
        return Ranked(rows[None, :k], scores[None, :k])
    lists = np.full((queries, k), -1, np.int64), np.full((queries, k), np.nan)
    if one:
        lists[0][0, : len(rows)], lists[1][0, : len(rows)] = rows, scores
        return Ranked(*lists)
    counts = np.bincount(query, minlength=queries)
    rank = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    kept = rank < k
    lists[0][query[kept], rank[kept]], lists[1][query[kept], rank[kept]] = rows[kept], scores[kept]
    return Ranked(*lists)


def require_rows(lists: Ranked, stage: str, corpus_rows: int) -> None:
    """Refuse rows that the corpus does not have."""
    wrong = (lists.rows < -1) | (lists.rows >= corpus_rows)
    if wrong.any():
        query, place = (int(each) for each in np.argwhere(wrong)[0])
        raise MismatchError(
            f"{stage}: query {query}: the answer at rank {place} is row {lists.rows[query, place]}, but the "
            f"corpus has {corpus_rows:,} rows. Build the index of the stage from this corpus"
        )


def unusable_score(stage: str, leg: str, query: int, said: str) -> EngineError:
    """The error for scores that cannot be fused."""
    return EngineError(
        f"{stage}: query {query}: {leg} gave {said}. Accepted: finite numbers. "
        'Repair the scores of that stage, or fuse by rank: fuse = "rrf"'
    )
