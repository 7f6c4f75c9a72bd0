"""Fusion of ranked lists: reciprocal ranks, or weighted scores after min-max normalization."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

from recallatk.errors import MismatchError, UsageError
from recallatk.pipeline.ranking import EPSILON, Ranked, lists_of, settled, unusable_score

if TYPE_CHECKING:
    import numpy as np
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
            leg = _names(names, len(legs))[scores.index(None)]
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
    queries = _queries(lists)
    # Reversed lists, so that the first of repeated rows is the last to be written.
    shares = [_reciprocals(constant, each.shape[1])[::-1] for each in lists]
    lines = [each[:, ::-1].tolist() for each in lists]
    # Each share is rounded twice and each sum once, and two sums are compared.
    error = (len(lists) + 2) * EPSILON / 2
    found = []
    for query in range(queries):
        parts = [dict(zip(leg[query], own, strict=True)) for leg, own in zip(lines, shares, strict=True)]
        found.append(_ranked(parts, k, error, "rrf", query))
    return lists_of(found, k)


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
    queries, factors = _queries(lists), leg_weights(weights, len(lists))
    if [each.shape for each in lists] != [each.shape for each in scores]:
        raise MismatchError("fuse weighted: rows and scores of a leg differ in shape. Pass one score per row")
    lines = [each[:, ::-1].tolist() for each in lists]
    values = [each[:, ::-1].tolist() for each in scores]
    # A scaled score is rounded three times, its product and its sum once, a derived weight once.
    error = (len(lists) + 5) * EPSILON / 2
    found = []
    for query in range(queries):
        parts = []
        for number, factor in enumerate(factors):
            own = dict(zip(lines[number][query], values[number][query], strict=True))
            own.pop(-1, None)
            scaled = _scaled(own, factor)
            if scaled is None:
                raise unusable_score("fuse weighted", _names(names, len(lists))[number], query, own)
            parts.append(scaled)
        found.append(_ranked(parts, k, error, "weighted", query))
    return lists_of(found, k)


def leg_weights(weights: float | Sequence[float], legs: int) -> tuple[float, ...]:
    """One weight per leg; a single number is the share of the first of two legs."""
    accepted = f"{legs} numbers from 0 on, one per leg, not all 0"
    if legs == 2:
        accepted = f"the share of the first leg from 0 to 1, or {accepted}"
    found: tuple[float, ...] = ()
    if not isinstance(weights, int | float):
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


def _queries(lists: Lists) -> int:
    """The number of queries, which must be the same in all lists."""
    counts = {len(each) for each in lists}
    if len(counts) != 1:
        found = " and ".join(f"{each:,}" for each in sorted(counts)) or "no"
        raise MismatchError(
            f"fuse: the legs have lists for {found} queries. Accepted: one list per query from each leg"
        )
    return counts.pop()


@lru_cache(maxsize=64)
def _reciprocals(constant: float, depth: int) -> tuple[float, ...]:
    return tuple(1.0 / (constant + rank) for rank in range(1, depth + 1))


def _scaled(own: dict[int, float], factor: float) -> dict[int, float] | None:
    """The scores of one list scaled to 0 to 1, times a weight; None if the scores are not finite."""
    if not own:
        return own
    low, high = min(own.values()), max(own.values())
    spread = high - low
    # A NaN anywhere makes the sum NaN, whatever min and max made of it.
    if not math.isfinite(spread + sum(own.values())) and not all(map(math.isfinite, (*own.values(), spread))):
        return None
    if spread == 0:
        return dict.fromkeys(own, factor)
    return {row: (score - low) / spread * factor for row, score in own.items()}


def _ranked(
    parts: list[dict[int, float]], k: int, error: float, method: str, query: int
) -> tuple[list[int], list[float]]:
    """The best k rows by the sums of all parts."""
    totals = parts[0]
    get = totals.get
    for part in parts[1:]:
        for row, share in part.items():
            totals[row] = get(row, 0.0) + share
    totals.pop(-1, None)
    rows = sorted(_contenders(totals, k, error))
    if rows and rows[0] < 0:
        raise MismatchError(
            f"fuse {method}: query {query}: a leg returned row {rows[0]}. Accepted: rows or -1"
        )
    rows.sort(key=totals.__getitem__, reverse=True)
    scores = [totals[row] for row in rows]
    return settled(rows, scores, [error * each for each in scores], k)


def _contenders(totals: dict[int, float], k: int, error: float) -> Iterable[int]:
    """Rows that can be among the best k, because their scores reach the k-th or tie with it."""
    if len(totals) <= k:
        return totals
    scores = sorted(totals.values(), reverse=True)
    last = k - 1
    while last + 1 < len(scores) and scores[last] - scores[last + 1] <= 2 * error * scores[last]:
        last += 1
    lowest = scores[last]
    return [row for row, score in totals.items() if score >= lowest]


def _names(names: Sequence[str] | None, legs: int) -> Sequence[str]:
    return [f"leg {number + 1}" for number in range(legs)] if names is None else names
