"""recall@k by its definition: distinct known answers, complete ties, and min(k, eligible) below the line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from recallatk.errors import UsageError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recallatk.core import Truth


def recall_per_query(
    answers: NDArray[np.int64], truth: Truth, k: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """recall@k of every query, tie-aware and by strict ids; NaN where no row is eligible.

    With k' = min(k, eligible rows), S the rows strictly better than the k'-th best score and B the
    rows that tie with it, tie-aware recall is (|A∩S| + min(k' - |S|, |A∩B|)) / k', where A is the
    first k distinct known ids of the answer. By strict ids it is |A ∩ first k' of the truth| / k'.
    Fewer answers than k' change nothing below the line. Repeats, padding (below 0) and unknown ids
    are never hits and take no place among the first k.
    """
    if not 1 <= k <= truth.depth:
        raise UsageError(f"recall@{k} needs a truth of at least that depth, and this one has {truth.depth}")
    ranks = truth_ranks(answers, truth)
    counted = _first_distinct(answers, k)
    available = (truth.rows >= 0).sum(axis=1)
    cut = np.minimum(k, available)
    better, end = _boundary(truth, cut)
    inside = (ranks >= 0) & counted
    strictly = (inside & (ranks < better[:, None])).sum(axis=1)
    tied = (inside & (ranks >= better[:, None]) & (ranks < end[:, None])).sum(axis=1)
    exact = (inside & (ranks < cut[:, None])).sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        tie_aware = (strictly + np.minimum(cut - better, tied)) / cut
        return tie_aware, exact / cut


def repeated(answers: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which answers name a row that the same query has answered before."""
    order = np.argsort(answers, axis=1, kind="stable")
    in_order = np.take_along_axis(answers, order, axis=1)
    again = np.zeros_like(answers, dtype=bool)
    again[:, 1:] = (in_order[:, 1:] == in_order[:, :-1]) & (in_order[:, 1:] >= 0)
    marks = np.zeros_like(again)
    np.put_along_axis(marks, order, again, axis=1)
    return marks


def _first_distinct(answers: NDArray[np.int64], k: int) -> NDArray[np.bool_]:
    counts = (answers >= 0) & ~repeated(answers)
    return counts & (np.cumsum(counts, axis=1) <= k)


def truth_ranks(answers: NDArray[np.int64], truth: Truth) -> NDArray[np.int64]:
    """The place of every answer in its query's truth, what ties beyond the depth included; else -1."""
    queries, columns = np.nonzero(truth.rows >= 0)
    rows, ranks = truth.rows[queries, columns], columns
    if truth.overflow is not None:
        offsets, beyond = truth.overflow
        lengths = np.diff(offsets)
        places = np.arange(len(beyond)) - np.repeat(offsets[:-1], lengths)
        queries = np.concatenate([queries, np.repeat(np.arange(len(lengths)), lengths)])
        rows = np.concatenate([rows, beyond])
        ranks = np.concatenate([ranks, truth.depth + places])
    if not len(rows):
        return np.full_like(answers, -1)
    width = int(rows.max()) + 1
    keys = queries * width + rows
    order = np.argsort(keys)
    possible = (answers >= 0) & (answers < width)
    asked = np.arange(len(answers))[:, None] * width + np.where(possible, answers, 0)
    position = np.minimum(np.searchsorted(keys, asked, sorter=order), len(keys) - 1)
    found = (keys[order][position] == asked) & possible
    return np.where(found, ranks[order][position], -1)


def cut_ties(truth: Truth, k: int) -> int:
    """How many queries tie at k with more rows than the truth names: their recall may come out too low."""
    if truth.tie_counts is None or truth.overflow is None:
        return 0
    listed = np.diff(truth.overflow[0])
    _, end = _boundary(truth, np.minimum(k, (truth.rows >= 0).sum(axis=1)))
    return int(((truth.tie_counts > listed) & (end == truth.depth + listed)).sum())


def _tie_blocks(truth: Truth) -> NDArray[np.int64]:
    """A number for every neighbour that it shares with those that it ties with."""
    tied = truth.tied
    if tied is None:
        assert truth.scores is not None  # noqa: S101 - asked by the caller
        tied = np.zeros(truth.rows.shape, bool)
        tied[:, 1:] = truth.scores[:, 1:] == truth.scores[:, :-1]
    return np.cumsum(~tied, axis=1)


def _boundary(truth: Truth, cut: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """For each query how many rows are strictly better than the last that counts, and where its ties end."""
    if truth.scores is None:
        # Without scores nothing is known of ties: every row is its own block.
        return np.maximum(cut - 1, 0), cut
    blocks = _tie_blocks(truth)
    last = np.take_along_axis(blocks, np.maximum(cut - 1, 0)[:, None], axis=1)
    tied = (blocks == last) & (truth.rows >= 0)
    better = np.where(cut > 0, np.argmax(tied, axis=1), 0)
    end = better + tied.sum(axis=1)
    if truth.overflow is not None:
        end = end + np.where(end == truth.depth, np.diff(truth.overflow[0]), 0)
    return better, end
