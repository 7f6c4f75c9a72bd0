"""Ranked lists of rows: order by score and row, with scores that float64 cannot tell apart made equal."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from recallatk.errors import EngineError, MismatchError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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


def settled(
    rows: list[int], scores: list[float], errors: list[float], k: int
) -> tuple[list[int], list[float]]:
    """The best k rows, where scores tie if their errors overlap: ties get one score and the order of rows.

    Args:
        rows: rows by falling score; rows of equal score ascend.
        scores: their scores.
        errors: maximum error of each score.
        k: number of rows to return.
    """
    end, differ = len(rows), False
    for place in range(1, len(rows)):
        gap = scores[place - 1] - scores[place]
        if gap <= errors[place - 1] + errors[place]:
            differ = differ or gap > 0
        elif place >= k:
            end = place
            break
    if not differ:
        return rows[:k], scores[:k]
    ordered: list[int] = []
    equal: list[float] = []
    for place in range(1, end + 1):
        first = len(ordered)
        if place < end and scores[place - 1] - scores[place] <= errors[place - 1] + errors[place]:
            continue
        ordered += sorted(rows[first:place])
        equal += [scores[first]] * (place - first)
    return ordered[:k], equal[:k]


def best(
    rows: NDArray[np.int64], scores: NDArray[np.float64], errors: NDArray[np.float64], k: int
) -> tuple[list[int], list[float]]:
    """The best k of many rows, in ascending order, with ties settled as in `settled`."""
    if len(rows) > k:
        lowest = np.partition(scores, len(rows) - k)[len(rows) - k]
        slack = 2 * float(errors.max())
        # Ties beyond rank k decide which rows are returned, so they stay until they are settled.
        while len(near := scores[(scores < lowest) & (scores >= lowest - slack)]):
            lowest = near.min()
        kept = np.flatnonzero(scores >= lowest)
        rows, scores, errors = rows[kept], scores[kept], errors[kept]
    order = np.argsort(-scores, kind="stable")
    return settled(rows[order].tolist(), scores[order].tolist(), errors[order].tolist(), k)


def lists_of(found: Sequence[tuple[Sequence[int], Sequence[float]]], k: int) -> Ranked:
    """Rows and scores of each query as two matrices with k columns, padded with -1 and NaN."""
    rows, scores = np.empty((len(found), k), np.int64), np.empty((len(found), k))
    rows.fill(-1)
    scores.fill(np.nan)
    for query, (listed, values) in enumerate(found):
        rows[query, : len(listed)] = listed
        scores[query, : len(listed)] = values
    return Ranked(rows, scores)


def require_rows(lists: Ranked, stage: str, corpus_rows: int) -> None:
    """Refuse rows that the corpus does not have."""
    wrong = (lists.rows < -1) | (lists.rows >= corpus_rows)
    if wrong.any():
        query, place = (int(each) for each in np.argwhere(wrong)[0])
        raise MismatchError(
            f"{stage}: query {query}: the answer at rank {place} is row {lists.rows[query, place]}, but the "
            f"corpus has {corpus_rows:,} rows. Build the index of the stage from this corpus"
        )


def unusable_score(stage: str, leg: str, query: int, scores: Mapping[int, float]) -> EngineError:
    """The error for scores, by row, that cannot be fused."""
    wrong = [row for row, score in scores.items() if not math.isfinite(score)]
    said = f"gave row {wrong[0]} the score {scores[wrong[0]]}" if wrong else "gave scores too far apart"
    return EngineError(
        f"{stage}: query {query}: {leg} {said}. Accepted: finite numbers. "
        'Repair the scores of that stage, or fuse by rank: fuse = "rrf"'
    )
