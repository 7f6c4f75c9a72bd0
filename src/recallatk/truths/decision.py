"""Exact order and complete ties from candidates with float64 scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.core.truth import Decision
from recallatk.truths.arithmetic import exact_ranks

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from recallatk.core import Metric

# So many rows beyond the depth are named for a query; all that tie are counted.
TIE_LIMIT = 1000
# Vectors of near ties are fetched in portions of about this size.
_PORTION_BYTES = 64 << 20
# A bound in float32 is as many times as wide as the same bound in float64.
_FLOAT32_LOSS = 2.0**29


@dataclass(eq=False)
class Pairs:
    """Queries with candidate rows: by query, best first, once `decide` has ordered them."""

    queries: NDArray[np.int64]
    rows: NDArray[np.int64]
    scores: NDArray[np.float64]
    tolerances: NDArray[np.float64]
    """How far each score can be from the real one."""

    def of(self, first: int, last: int) -> Pairs:
        """Those of some queries, counted from the first of them."""
        mine = (self.queries >= first) & (self.queries < last)
        parts = (part[mine] for part in _parts(self))
        return Pairs(next(parts) - first, *parts)


@dataclass(frozen=True, eq=False)
class DecidedRows:
    """What a truth says of some queries."""

    rows: NDArray[np.int64]
    scores: NDArray[np.float64]
    tied: NDArray[np.bool_]
    """Whether a row ties with the one before it."""
    tie_counts: NDArray[np.int64]
    """How many rows beyond the depth tie with the last one."""
    overflow: tuple[NDArray[np.int64], NDArray[np.int64]]
    """(offsets, rows) of these, up to the limit."""
    bounds: NDArray[np.float64]
    """How far the scores at the boundary can be from the real numbers."""
    next_rows: NDArray[np.int64]
    """The best row beyond the depth, or -1."""
    next_scores: NDArray[np.float64]
    exact: NDArray[np.bool_]
    """Queries in which float64 could not order the neighbors and the next row."""

    @property
    def decided(self) -> NDArray[np.uint8]:
        """The `Decision` of every query."""
        return decisions(self.scores[:, -1], self.next_scores, self.bounds, self.exact)


def decisions(
    last: NDArray[np.float64],
    following: NDArray[np.float64],
    bounds: NDArray[np.float64],
    exact: NDArray[np.bool_],
) -> NDArray[np.uint8]:
    """The least precise arithmetic that decides each query, from what its certificate says.

    Args:
        last: score of the last neighbor.
        following: score of the next row; NaN if there is none.
        bounds: how far both can be from the real ones.
        exact: whether float64 cannot order the neighbors and the next row.
    """
    close = np.abs(last - following) <= 2 * _FLOAT32_LOSS * bounds
    decided = np.where(close, int(Decision.FLOAT64), int(Decision.FLOAT32))
    return np.where(exact, int(Decision.EXACT), decided).astype(np.uint8)


def decide(
    metric: Metric,
    vectors: NDArray[Any],
    pairs: Pairs,
    depth: int,
    fetch: Callable[[NDArray[np.int64]], NDArray[Any]],
) -> DecidedRows:
    """The best `depth` of every query in the order of (score, row).

    Args:
        metric: how scores compare.
        vectors: the queries, by the numbers that `pairs` has.
        pairs: all candidates; for each query at least its best `depth` + 1 and whatever ties with these.
        depth: how many to keep.
        fetch: reads corpus rows, given in order.
    """
    sign = -1.0 if metric.higher_is_better else 1.0
    order = grouped(pairs.queries, np.argsort(sign * pairs.scores))
    pairs = Pairs(*(part[order] for part in _parts(pairs)))
    counts = np.bincount(pairs.queries, minlength=len(vectors))
    starts = np.cumsum(counts) - counts
    places = np.arange(len(pairs.rows)) - starts[pairs.queries]
    runs = _near_runs(pairs, places, depth)
    tied = np.zeros(len(pairs.rows), bool)
    for portion in _portions(runs, vectors):
        _settle(metric, vectors, pairs, tied, portion, fetch)
    exact = np.zeros(len(vectors), bool)
    exact[pairs.queries[1:][_too_close(pairs, places, depth)]] = True
    return _decided_rows(pairs, tied, counts, starts, places, depth, exact)


def _too_close(pairs: Pairs, places: NDArray[np.int64], depth: int) -> NDArray[np.bool_]:
    """Beside each pair but the first, whether float64 cannot order it and the one before, both up to `depth`.

    Only the rows that a truth names count, each by its own bound, so that this can be checked later: which
    other candidates a scan kept depends on how it was run.
    """
    bounds = pairs.tolerances
    close = np.abs(np.diff(pairs.scores)) <= bounds[1:] + bounds[:-1]
    return np.asarray(close & (places[1:] > 0) & (places[1:] <= depth))


def grouped(queries: NDArray[np.int64], order: NDArray[np.int64]) -> NDArray[np.int64]:
    """The same order within each query, the queries one after the other."""
    small = queries.astype(np.uint16) if queries.max(initial=0) < 2**16 else queries
    # NumPy sorts numbers of 16 bits ten times as fast as larger ones.
    return order[np.argsort(small[order], kind="stable")]


def _parts(pairs: Pairs) -> tuple[NDArray[Any], ...]:
    return pairs.queries, pairs.rows, pairs.scores, pairs.tolerances


def _near_runs(pairs: Pairs, places: NDArray[np.int64], depth: int) -> list[tuple[int, int]]:
    """Stretches in which float64 cannot tell each from the next, and that begin no later than `depth`."""
    if not len(pairs.rows):
        return []
    near = np.zeros(len(pairs.rows), bool)
    # The largest bound of a query counts for all its rows: one that is wide may reach past many others.
    widest = np.maximum.reduceat(pairs.tolerances, np.flatnonzero(places == 0))
    slack = 2 * np.repeat(widest, np.diff(np.append(np.flatnonzero(places == 0), len(near))))[1:]
    near[1:] = (np.abs(np.diff(pairs.scores)) <= slack) & (pairs.queries[1:] == pairs.queries[:-1])
    firsts = np.flatnonzero(~near)
    lasts = np.append(firsts[1:], len(near))
    wanted = (lasts - firsts > 1) & (places[firsts] <= depth)
    return list(zip(firsts[wanted].tolist(), lasts[wanted].tolist(), strict=True))


def _portions(runs: list[tuple[int, int]], vectors: NDArray[Any]) -> list[list[tuple[int, int]]]:
    most = max(1, _PORTION_BYTES // max(1, vectors.shape[1] * vectors.itemsize))
    portions: list[list[tuple[int, int]]] = []
    size = most
    for first, last in runs:
        if size + last - first > most:
            portions.append([])
            size = 0
        portions[-1].append((first, last))
        size += last - first
    return portions


def _settle(
    metric: Metric,
    vectors: NDArray[Any],
    pairs: Pairs,
    tied: NDArray[np.bool_],
    runs: list[tuple[int, int]],
    fetch: Callable[[NDArray[np.int64]], NDArray[Any]],
) -> None:
    """Put each run into its exact order, in place, and mark its ties."""
    members = np.concatenate([np.arange(first, last) for first, last in runs])
    distinct, where = np.unique(pairs.rows[members], return_inverse=True)
    found = fetch(distinct)
    same = _equal_to_previous(found, where)
    offset = 0
    for first, last in runs:
        inside = slice(offset, offset + last - first)
        offset = inside.stop
        if same[inside][1:].all():
            # Copies of one vector: their scores and bounds are the same bits.
            pairs.rows[first:last].sort()
            tied[first + 1 : last] = True
            continue
        ranks = exact_ranks(metric, vectors[pairs.queries[first]], found[where[inside]])
        _order_run(metric, pairs, tied, slice(first, last), ranks)


def _equal_to_previous(found: NDArray[Any], where: NDArray[np.int64]) -> NDArray[np.bool_]:
    same = np.zeros(len(where), bool)
    step = max(1, (4 << 20) // max(1, found.shape[1] * found.itemsize))
    for start in range(1, len(where), step):
        part = slice(start, min(start + step, len(where)))
        before = slice(part.start - 1, part.stop - 1)
        same[part] = (found[where[part]] == found[where[before]]).all(axis=1)
    return same


def _order_run(
    metric: Metric, pairs: Pairs, tied: NDArray[np.bool_], run: slice, ranks: NDArray[np.int64]
) -> None:
    """One run by (exact rank, row); a tie shares the score of its first row, and no score steps back."""
    order = np.lexsort((pairs.rows[run], ranks))
    ranks = ranks[order]
    for part in (pairs.rows, pairs.scores, pairs.tolerances):
        part[run] = part[run][order]
    again = np.zeros(len(ranks), bool)
    again[1:] = ranks[1:] == ranks[:-1]
    tied[run] = again
    own, bounds = pairs.scores[run].copy(), pairs.tolerances[run].copy()
    firsts = np.flatnonzero(~again)[ranks]
    worse = np.minimum if metric.higher_is_better else np.maximum
    scores = worse.accumulate(own[firsts])
    # Whose score each row has now: it is as far off as that row's may be.
    givers = np.maximum.accumulate(np.where(scores == own[firsts], firsts, 0))
    pairs.scores[run] = scores
    pairs.tolerances[run] = np.where(scores == own, bounds, np.maximum(bounds, bounds[givers]))


def _decided_rows(
    pairs: Pairs,
    tied: NDArray[np.bool_],
    counts: NDArray[np.int64],
    starts: NDArray[np.int64],
    places: NDArray[np.int64],
    depth: int,
    exact: NDArray[np.bool_],
) -> DecidedRows:
    shape = (len(counts), depth)
    rows, scores, ties = np.full(shape, -1, np.int64), np.full(shape, np.nan), np.zeros(shape, bool)
    kept = places < depth
    where = pairs.queries[kept], places[kept]
    rows[where], scores[where], ties[where] = pairs.rows[kept], pairs.scores[kept], tied[kept]
    some, more = np.flatnonzero(counts), np.flatnonzero(counts > depth)
    bounds, next_scores = np.full(len(counts), np.nan), np.full(len(counts), np.nan)
    next_rows = np.full(len(counts), -1, np.int64)
    bounds[some] = pairs.tolerances[starts[some] + np.minimum(counts[some], depth) - 1]
    after = starts[more] + depth
    bounds[more] = np.maximum(bounds[more], pairs.tolerances[after])
    next_rows[more], next_scores[more] = pairs.rows[after], pairs.scores[after]
    tie_counts, overflow = _overflow(pairs, tied, starts, places, more, depth)
    return DecidedRows(rows, scores, ties, tie_counts, overflow, bounds, next_rows, next_scores, exact)


def _overflow(
    pairs: Pairs,
    tied: NDArray[np.bool_],
    starts: NDArray[np.int64],
    places: NDArray[np.int64],
    more: NDArray[np.int64],
    depth: int,
) -> tuple[NDArray[np.int64], tuple[NDArray[np.int64], NDArray[np.int64]]]:
    block = np.cumsum(~tied)
    last_block = np.full(len(starts), -1, np.int64)
    last_block[more] = block[starts[more] + depth - 1]
    beyond = np.flatnonzero((places >= depth) & (block == last_block[pairs.queries]))
    counts = np.bincount(pairs.queries[beyond], minlength=len(starts))
    named = beyond[places[beyond] < depth + TIE_LIMIT]
    offsets = np.concatenate([[0], np.cumsum(np.minimum(counts, TIE_LIMIT))])
    return counts, (offsets, pairs.rows[named])
