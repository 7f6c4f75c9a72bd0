"""The scanner's contract: a kernel names every pair that may matter and states how far its scores can be off.

How a scanner rules a row out is its own affair: by products in the type of its space, in fewer bits, or on
an accelerator. It states a bound for every block that it scans, and the bound has to hold.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recallatk.filters.eligibility import Eligibility
    from recallatk.truths.space import Space


class ScanHits(NamedTuple):
    """Pairs that may reach their query's floor, in the order of the queries, with their scan scores."""

    queries: NDArray[np.int64]
    columns: NDArray[np.int64]
    scores: NDArray[Any]
    errors: NDArray[np.float64]
    """For each query asked, how far these scores can be from the real ones."""
    floors: NDArray[np.float64]
    """What was asked for; where that was -inf, a real score that k rows of the block reach, or -inf."""

    def of(self, which: NDArray[np.bool_]) -> ScanHits:
        """Some of them."""
        return self._replace(
            queries=self.queries[which], columns=self.columns[which], scores=self.scores[which]
        )


@dataclass(frozen=True)
class Asked:
    """Some queries, and what a row needs to be a hit of theirs."""

    queries: NDArray[Any]
    """With the components that the scanner may write; no other thread uses this copy."""
    errors: NDArray[np.float64]
    """How far a product in the type of the space, added in any order, can be from the real score."""
    floors: NDArray[np.float64]
    """The real score from which on a row is a hit; -inf while nothing is known of the query."""
    k: int
    spare: int
    """Where the floor is -inf: by how many errors more than it must a new floor stays below the k-th best."""
    eligible: Eligible | None
    """Which pairs count at all, where not every pair does."""

    @property
    def fresh(self) -> NDArray[np.bool_]:
        """Queries of which nothing is known."""
        return np.isneginf(self.floors)

    def slack(self, errors: NDArray[np.float64]) -> NDArray[np.float64]:
        """How far below the k-th best scan score of a block a row may be and be a hit, by these errors."""
        return (2 + self.spare) * errors


@dataclass(frozen=True)
class Eligible:
    """What the queries of a call may return among its rows."""

    eligibility: Eligibility
    numbers: NDArray[np.int64]
    """Of the queries."""
    rows: NDArray[np.int64]
    """Of the columns."""

    def pairs(self, queries: NDArray[np.int64], columns: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether each pair counts."""
        return self.eligibility.allowed(self.numbers[queries], self.rows[columns])

    def matrix(self, queries: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether each row counts for each of some queries."""
        numbers = self.numbers[queries]
        counts = np.ones((len(queries), len(self.rows)), bool)
        groups = self.eligibility.group[numbers]
        for group in np.unique(groups):
            members = self.eligibility.sets[group]
            if members is not None:
                counts[groups == group] = members.contains(self.rows)
        if self.eligibility.own_rows is not None:
            counts &= self.rows != self.eligibility.own_rows[numbers][:, None]
        return counts


def below(scores: NDArray[Any], distance: NDArray[np.float64], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Scores less some distance, rounded down so that rounding leaves no row out."""
    with np.errstate(over="ignore"):
        rounded = (scores.astype(np.float64) - distance).astype(dtype)
    return np.asarray(np.nextafter(rounded, dtype.type(-np.inf)))


class Scanner(Protocol):
    """A kernel with its working memory, made from a space and the most queries of a call.

    Every thread has its own.
    """

    tile_rows: int
    """How many rows to hand over at a time."""
    gathers: bool
    """Whether rows that a filter bars must be left out beforehand."""
    extra: int
    """How many components it wants besides: ones in the rows, and in the queries its own to write."""

    def enter(self, rows: NDArray[Any]) -> None:
        """Go on to other rows, which the calls of `hits` that follow are about."""

    def hits(self, asked: Asked, rows: NDArray[Any]) -> ScanHits:
        """Every eligible pair whose real score reaches its floor.

        For a query whose floor is -inf these may be cut to the rows that can reach the floor it returns.
        """


class MakeScanner(Protocol):
    """What makes a scanner: its class."""

    def __call__(self, space: Space, queries: int) -> Scanner:
        """A scanner for calls of at most so many queries."""
