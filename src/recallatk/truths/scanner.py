"""The scanner's contract: a kernel names every pair that may matter and leaves out none.

A scanner multiplies queries with rows in the floating-point type of its space. It may add in any order
and fuse what it likes; what it must not do is round its inputs or its sums to fewer digits than that
type has. An accelerator joins by one class here and, where its type is another, its own `Precision`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recallatk.filters.eligibility import Eligibility


class ScanHits(NamedTuple):
    """Pairs that reached their query's threshold, in the order of the queries, with their scan scores."""

    queries: NDArray[np.int64]
    columns: NDArray[np.int64]
    scores: NDArray[Any]
    thresholds: NDArray[Any]
    """What was asked for, and where that was -inf, what was found to do: the k-th best less the slack."""

    def of(self, which: NDArray[np.bool_]) -> ScanHits:
        """Some of them."""
        return ScanHits(self.queries[which], self.columns[which], self.scores[which], self.thresholds)


@dataclass(frozen=True)
class Asked:
    """Some queries, and what a row needs to be a hit of theirs."""

    queries: NDArray[Any]
    """With the components that the scanner may write; no other thread uses this copy."""
    thresholds: NDArray[Any]
    """The scan score from which on a row is a hit; -inf while nothing is known of the query."""
    slack: NDArray[np.float64]
    """Where the threshold is -inf: how far below the k-th best of this call a row still is a hit."""
    k: int
    eligible: Eligible | None
    """Which pairs count at all, where not every pair does."""


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
    """A kernel with its working memory; every thread has its own."""

    tile_rows: int
    """How many rows to hand over at a time."""
    gathers: bool
    """Whether rows that a filter bars must be left out beforehand."""
    extra: int
    """How many components it wants besides: ones in the rows, and in the queries its own to write."""

    def hits(self, asked: Asked, rows: NDArray[Any]) -> ScanHits:
        """Every eligible pair that reaches its threshold.

        For a query whose threshold is -inf these may be cut to the rows that lie no further below the
        k-th best of them than its slack.
        """
