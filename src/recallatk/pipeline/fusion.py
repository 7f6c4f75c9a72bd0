"""Fusion of ranked lists: reciprocal ranks, or weighted scores after min-max normalization."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from recallatk.errors import MismatchError, UsageError
from recallatk.pipeline.ranking import EPSILON, Ranked, Scores, ranked, unusable_score

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Lists: TypeAlias = Sequence[NDArray[np.int64]]

Fuse: TypeAlias = Callable[[Sequence[Ranked], int], Ranked]
"""Fuses the lists of all legs into one list of at most k rows per query."""


def by_rank(constant: float = 60) -> Fuse:
    """Reciprocal rank fusion with this constant."""
    _require_constant(constant)
    return lambda legs, k: rrf([each.rows for each in legs], constant, k)


def by_score(weights: float | Sequence[float], names: Sequence[str] | None = None) -> Fuse:
    """Weighted fusion of scores; `names` are those of the legs, for messages."""

    def fuse(legs: Sequence[Ranked], k: int) -> Ranked:
        scores = [each.scores for each in legs]
        given = [each for each in scores if each is not None]
        if len(given) < len(scores):
            leg = _name(names, next(place for place, each in enumerate(scores) if each is None))
            raise UsageError(
                f'fuse weighted: {leg} returns rows without scores. Fuse by rank instead: fuse = "rrf"'
            )
        return weighted([each.rows for each in legs], given, weights, k, names=names)

    return fuse


def rrf(lists: Lists, constant: float, k: int) -> Ranked:
    """Reciprocal rank fusion: a row scores the sum of 1 / (constant + rank) over the lists that have it.

    Ranks count from 1. A row that a list repeats counts at its first rank. Rows that tie are in row order.

    Args:
        lists: one (queries, depth) matrix of rows per leg; -1 is padding.
        constant: 60 in the original method; larger values weaken the first ranks.
        k: maximum number of rows per query.
    """
    _require_constant(constant)
    table = _Entries(lists, "rrf")
    # Each share is rounded twice and each sum once.
    return table.fused(_reciprocals(constant, table.depths), k, len(lists) + 2)


def weighted(
    lists: Lists,
    scores: Sequence[NDArray[np.float64]],
    weights: float | Sequence[float],
    k: int,
    *,
    names: Sequence[str] | None = None,
) -> Ranked:
    """Weighted fusion: the weighted sum of scores that are scaled to 0 to 1 in each list of each query.

    The best score of a list becomes 1, the worst 0, and equal scores 1. A row that a list does not have gets
    0 from it. Rows that tie are in row order.

    Args:
        lists: one (queries, depth) matrix of rows per leg; -1 is padding.
        scores: the scores of each matrix, higher is better.
        weights: the share of the first of two legs, from 0 to 1; or one weight per leg.
        k: maximum number of rows per query.
        names: names of the legs, for messages.
    """
    factors = leg_weights(weights, len(lists))
    if [each.shape for each in lists] != [each.shape for each in scores]:
        raise MismatchError("fuse weighted: rows and scores of a leg differ in shape. Pass one score per row")
    table = _Entries(lists, "weighted")
    shares = _scaled(np.concatenate(scores, axis=1), table, names)
    shares *= _columns(factors, table.depths)
    # A scaled score is rounded three times, its product and each sum once, and a derived weight once.
    return table.fused(shares, k, len(lists) + 5)


class _Entries:
    """The lists of all legs side by side, and the entries that count: one for each query, row and leg."""

    def __init__(self, lists: Lists, method: str) -> None:
        counts = {len(each) for each in lists}
        if len(counts) != 1:
            found = " and ".join(f"{each:,}" for each in sorted(counts)) or "no"
            raise MismatchError(
                f"fuse: the legs have lists for {found} queries. Accepted: one list per query from each leg"
            )
        self.rows = rows = np.concatenate(lists, axis=1)
        self.queries, self.depths = len(rows), tuple(each.shape[1] for each in lists)
        lowest, highest = (int(rows.min()), int(rows.max())) if rows.size else (0, 0)
        if lowest < -1:
            query = int(np.argmax(rows.min(axis=1) < -1))
            raise MismatchError(
                f"fuse {method}: query {query}: a leg returned row {rows[query].min()}. Accepted: row "
                "numbers from 0 on, and -1 as padding"
            )
        self.span = highest + 1
        keys = rows * len(lists) + _legs(self.depths)
        if self.queries > 1:
            keys += (np.arange(self.queries) * (self.span * len(lists)))[:, None]
        keys = keys.reshape(-1)
        # Entries by query, row and leg; a stable order keeps the first rank of a repeated row.
        order = keys.argsort(kind="stable")
        if lowest < 0:
            order = order[rows.reshape(-1)[order] >= 0]
        keys = keys[order]
        again = keys[1:] == keys[:-1]
        self.repeats = lowest < 0 or bool(again.any())
        if self.repeats:
            order, keys = np.delete(order, again.nonzero()[0] + 1), np.delete(keys, again.nonzero()[0] + 1)
        self.entries, groups = order, keys // len(lists)
        fresh = np.ones(len(groups), bool)
        np.not_equal(groups[1:], groups[:-1], out=fresh[1:])
        self.starts = fresh.nonzero()[0]
        self.groups = groups[self.starts]

    def counting(self) -> NDArray[np.bool_] | None:
        """Mask of the entries that count; None if all do."""
        if not self.repeats:
            return None
        mask = np.zeros(self.rows.size, bool)
        mask[self.entries] = True
        return mask.reshape(self.rows.shape)

    def fused(self, shares: NDArray[np.float64], k: int, roundings: int) -> Ranked:
        """The best k rows by the sums of their shares.

        Args:
            shares: share of each entry, or of each rank if it is the same for every query.
            k: maximum number of rows per query.
            roundings: how often a sum was rounded on its way.
        """
        if not len(self.starts):
            return ranked(self.groups, Scores(self.groups, np.zeros(0), np.zeros(0)), self.queries, k)
        places = self.entries if shares.size == self.rows.size else self.entries % len(shares)
        sums = np.add.reduceat(shares.reshape(-1)[places], self.starts)
        query = rows = self.groups
        if self.queries > 1:
            query, rows = np.divmod(self.groups, self.span)
        return ranked(query, Scores(rows, sums, sums * (roundings * EPSILON / 2)), self.queries, k)


def leg_weights(weights: float | Sequence[float], legs: int) -> tuple[float, ...]:
    """One weight per leg; a single number is the share of the first of two legs."""
    return _leg_weights(weights if isinstance(weights, int | float) else tuple(weights), legs)


@lru_cache(maxsize=64)
def _leg_weights(weights: float | tuple[float, ...], legs: int) -> tuple[float, ...]:
    accepted = f"{legs} numbers from 0 on, one per leg, not all 0"
    if legs == 2:
        accepted = f"the share of the first leg from 0 to 1, or {accepted}"
    found: tuple[float, ...] = ()
    if isinstance(weights, tuple):
        found = tuple(float(each) for each in weights)
    elif legs == 2:
        found = (float(weights), 1 - float(weights))
    valid = all(math.isfinite(each) and each >= 0 for each in found) and any(found)
    if len(found) != legs or not valid:
        raise UsageError(f"fuse weighted: weight = {weights!r}. Accepted: {accepted}")
    return found


def _require_constant(constant: float) -> None:
    number: object = constant
    whole_or_not = isinstance(number, int | float) and not isinstance(number, bool)
    if not whole_or_not or not 0 <= constant < math.inf:
        raise UsageError(f"fuse rrf: constant = {constant!r}. Accepted: a number from 0 on; 60 is usual")


@lru_cache(maxsize=64)
def _reciprocals(constant: float, depths: tuple[int, ...]) -> NDArray[np.float64]:
    """The share of each rank of each leg."""
    return np.concatenate([1.0 / (constant + np.arange(1, depth + 1)) for depth in depths])


@lru_cache(maxsize=64)
def _columns(factors: tuple[float, ...], depths: tuple[int, ...]) -> NDArray[np.float64]:
    """The weight of each column."""
    return np.repeat(factors, depths)


@lru_cache(maxsize=64)
def _starts(depths: tuple[int, ...]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The first column of each leg that has one, and for each column the number of its leg among these."""
    used = tuple(depth for depth in depths if depth)
    return np.cumsum((0, *used[:-1])), _legs(used)


@lru_cache(maxsize=64)
def _legs(depths: tuple[int, ...]) -> NDArray[np.int64]:
    """The leg of each column."""
    return np.repeat(np.arange(len(depths)), depths)


def _scaled(scores: NDArray[np.float64], table: _Entries, names: Sequence[str] | None) -> NDArray[np.float64]:
    """The scores of all legs, each list scaled to 0 to 1; entries that do not count may be anything."""
    if not scores.size:
        return scores
    starts, legs = _starts(table.depths)
    low, high, counting = scores, scores, table.counting()
    if counting is not None:
        low, high = np.where(counting, scores, np.inf), np.where(counting, scores, -np.inf)
    with np.errstate(all="ignore"):
        lowest = np.minimum.reduceat(low, starts, axis=1)
        spread = np.maximum.reduceat(high, starts, axis=1) - lowest
        # NaN, Inf and overflow show in the spread; that of an empty list is -Inf.
        if not np.isfinite(spread).all():
            _require_finite(scores, counting, spread, table.depths, names)
        if spread.all():
            return np.asarray((scores - lowest[:, legs]) / spread[:, legs])
        return np.where(spread[:, legs] == 0, 1.0, (scores - lowest[:, legs]) / spread[:, legs])


def _require_finite(
    scores: NDArray[np.float64],
    counting: NDArray[np.bool_] | None,
    spread: NDArray[np.float64],
    depths: tuple[int, ...],
    names: Sequence[str] | None,
) -> None:
    """Refuse scores that are not finite, or too far apart."""
    wrong = ~np.isfinite(scores) if counting is None else counting & ~np.isfinite(scores)
    columns = _legs(depths)
    said = "scores too far apart"
    if wrong.any():
        query, column = (int(each) for each in np.argwhere(wrong)[0])
        rank = column - int(np.searchsorted(columns, columns[column])) + 1
        said = f"rank {rank} the score {scores[query, column]}"
    elif np.isposinf(spread).any():
        query, leg = (int(each) for each in np.argwhere(np.isposinf(spread))[0])
        column = int(_starts(depths)[0][leg])
    else:
        return
    raise unusable_score("fuse weighted", _name(names, int(columns[column])), query, said)


def _name(names: Sequence[str] | None, leg: int) -> str:
    return f"leg {leg + 1}" if names is None else names[leg]
