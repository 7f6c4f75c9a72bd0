"""Update of a truth: only new rows are scanned, only queries that lost a neighbor are redone."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from recallatk.core import Metric, Truth
from recallatk.core.truth import Certificate, Decision
from recallatk.digests import match_rows
from recallatk.errors import UsageError
from recallatk.pair_scores import tolerance
from recallatk.truths.contenders import contenders
from recallatk.truths.decision import Pairs, decide, decisions, grouped
from recallatk.truths.insertion import NeighborLists, has_near, insert

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recallatk.truths.results import Results
    from recallatk.truths.search import ExactSearch
    from recallatk.truths.sweep import Candidates

_MOST_INSERTED = 8


@dataclass(frozen=True)
class Change:
    """How a corpus differs from the one of an earlier truth."""

    place: NDArray[np.int64]
    """New number of each earlier row, or -1 if it was removed. Remaining rows keep their order."""
    added: NDArray[np.int64]
    """The rows that are new, in order."""

    @cached_property
    def is_addition(self) -> bool:
        """Whether all that was there is where it was."""
        return bool((self.place == np.arange(len(self.place))).all())

    @classmethod
    def appended(cls, before: int, now: int) -> Change:
        """Rows were added at the end."""
        return cls(np.arange(before), np.arange(before, now))

    @classmethod
    def between(cls, before: NDArray[np.uint64], now: NDArray[np.uint64]) -> Change:
        """What happened between two corpora, by the digests of their rows.

        Rows that changed places count as gone and new, so that ties keep their order.
        """
        place, added = match_rows(before, now)
        stayed = np.flatnonzero(place >= 0)
        moved = np.setdiff1d(stayed, stayed[_longest_rise(place[stayed])], assume_unique=True)
        added = np.union1d(added, place[moved])
        place[moved] = -1
        return cls(place, added)


def _longest_rise(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """The places of a longest increasing subsequence of distinct numbers."""
    if (np.diff(numbers) > 0).all():
        return np.arange(len(numbers))
    tails: list[int] = []
    last: list[int] = []
    previous = [-1] * len(numbers)
    for place, number in enumerate(numbers.tolist()):
        length = bisect_left(tails, number)
        tails[length : length + 1] = [number]
        last[length : length + 1] = [place]
        previous[place] = last[length - 1] if length else -1
    chain = [last[-1]]
    while previous[chain[-1]] >= 0:
        chain.append(previous[chain[-1]])
    return np.asarray(chain[::-1])


def redo(search: ExactSearch, before: Truth, change: Change) -> NDArray[np.int64]:
    """Bring a truth up to date in the results of `search`; returns the queries that were redone in full."""
    update = _Update(search, before, change)
    fresh = update.contenders(np.flatnonzero(~update.touched))
    redone = np.flatnonzero(update.touched)
    if len(redone):
        search.run(redone)
    update.keep(np.flatnonzero(~update.touched))
    update.merge(fresh)
    return redone


class _Known(NamedTuple):
    """The parts of a certified truth, none missing."""

    rows: NDArray[np.int64]
    scores: NDArray[np.float64]
    tied: NDArray[np.bool_]
    tie_counts: NDArray[np.int64]
    overflow: tuple[NDArray[np.int64], NDArray[np.int64]]
    certificate: Certificate

    @classmethod
    def of(cls, truth: Truth) -> _Known:
        parts = (truth.scores, truth.tied, truth.tie_counts, truth.overflow, truth.certificate)
        scores, tied, tie_counts, overflow, certificate = parts
        if scores is None or tied is None or tie_counts is None or overflow is None or certificate is None:
            raise UsageError("only a truth with certificates can be updated")
        return cls(truth.rows, scores, tied, tie_counts, overflow, certificate)


class _Update:
    def __init__(self, search: ExactSearch, before: Truth, change: Change) -> None:
        self.search, self.before, self.change = search, before, change
        self.results: Results = search.results
        self.depth = before.depth
        self.known = _Known.of(before)
        self.certificate, (self.offsets, self.beyond) = self.known.certificate, self.known.overflow
        self.touched = self._touched()

    def _now(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Earlier row numbers mapped to new ones; -1 for padding and removed rows."""
        if self.change.is_addition:
            return rows
        return np.where(rows >= 0, self.change.place[rows], -1)

    def _touched(self) -> NDArray[np.bool_]:
        """Queries that lost a needed row or have unlisted ties."""
        touched: NDArray[np.bool_] = self.known.tie_counts > np.diff(self.offsets)
        if self.before.older_format is not None:
            # Its `exact` has another meaning than that of the truth which is made now.
            touched |= self.certificate.decided == Decision.EXACT
        if not self.change.is_addition:
            rows, following = self.before.rows, self.certificate.next_rows
            touched |= ((rows >= 0) & (self._now(rows) < 0)).any(axis=1)
            touched |= (following >= 0) & (self._now(following) < 0)
            lost = np.flatnonzero(self._now(self.beyond) < 0)
            touched[np.searchsorted(self.offsets, lost, side="right") - 1] = True
        own = self.search.eligibility.own_rows
        if own is not None:
            here = own < len(self.change.place)
            touched |= ~here
            touched[here] |= self.change.place[own[here]] != own[here]
        return touched

    def _vectors(self, which: NDArray[np.int64]) -> NDArray[Any]:
        """Some queries; all of them are not copied."""
        queries = self.search.queries
        return queries if len(which) == len(queries) else queries[which]

    def contenders(self, which: NDArray[np.int64]) -> Candidates:
        """New rows that may be among the best of some queries; queries with too many become touched."""
        scores, bounds = self.certificate.next_scores[which], self.certificate.bounds[which]
        found = contenders(
            self.search, self._vectors(which), self.change.added, self.depth + 1, scores, bounds
        )
        self.touched[which[found.abandoned]] = True
        return found._replace(queries=which[found.queries])

    def keep(self, which: NDArray[np.int64]) -> None:
        """Take over what was known of some queries."""
        results, before = self.results, self.known
        results.rows[which] = self._now(before.rows[which])
        results.scores[which], results.tied[which] = before.scores[which], before.tied[which]
        results.tie_counts[which] = before.tie_counts[which]
        # An older format has another meaning of float32 and float64.
        results.decided[which] = decisions(
            before.scores[which, -1],
            self.certificate.next_scores[which],
            self.certificate.bounds[which],
            self.certificate.decided[which] == Decision.EXACT,
        )
        results.bounds[which] = self.certificate.bounds[which]
        results.next_rows[which] = self._now(self.certificate.next_rows[which])
        results.next_scores[which] = self.certificate.next_scores[which]
        owners = np.repeat(np.arange(len(before.rows)), np.diff(self.offsets))
        mine = np.isin(owners, which)
        results.beyond.append((owners[mine], self._now(self.beyond[mine])))

    def merge(self, fresh: Candidates) -> None:
        """Take in the new contenders of every query, by their scores where these suffice."""
        kept = ~self.touched[fresh.queries]
        queries, rows = fresh.queries[kept], fresh.rows[kept]
        order = np.argsort(queries, kind="stable")
        which, place = np.unique(queries[order], return_inverse=True)
        if len(which):
            new = self.search.scored(self._vectors(which), place, rows[order])
            left = self._insert(which, new)
            mine = left[new.queries]
            again = np.cumsum(left) - 1
            self._decide(
                which[left],
                Pairs(again[new.queries[mine]], new.rows[mine], new.scores[mine], new.tolerances[mine]),
            )

    def _insert(self, which: NDArray[np.int64], new: Pairs) -> NDArray[np.bool_]:
        """The easy ones; returns which of the queries are not."""
        metric, dimension = self.search.metric, self.search.queries.shape[1]
        results = self.results
        if metric is Metric.IP:
            # The bound of an inner product needs the norms of its vectors.
            return np.ones(len(which), bool)
        easy = (results.tie_counts[which] == 0) & (results.next_rows[which] >= 0)
        # Rows are inserted one at a time; the few queries with many would make many rounds of it.
        easy &= np.bincount(new.queries, minlength=len(which)) <= _MOST_INSERTED
        if metric is Metric.L2:
            # The bound of a distance comes with it, and a stored one may be another row's.
            easy &= results.decided[which] != Decision.EXACT
        some, mine = which[easy], easy[new.queries]
        lines = NeighborLists(
            np.column_stack([results.rows[some], results.next_rows[some]]),
            np.column_stack([results.scores[some], results.next_scores[some]]),
            np.column_stack([results.tied[some], np.zeros(len(some), bool)]),
        )
        again = np.cumsum(easy) - 1
        hard = insert(metric, lines, again[new.queries[mine]], new.rows[mine], new.scores[mine], dimension)
        # A tie at the end may go on among rows that have just been dropped.
        hard |= lines.tied[:, -1]
        self._put_lines(some, lines, ~hard)
        left: NDArray[np.bool_] = ~easy
        left[np.flatnonzero(easy)[hard]] = True
        return left

    def _put_lines(self, which: NDArray[np.int64], lines: NeighborLists, good: NDArray[np.bool_]) -> None:
        metric, dimension = self.search.metric, self.search.queries.shape[1]
        results, some = self.results, which[good]
        scores = lines.scores[good]
        results.rows[some], results.next_rows[some] = lines.rows[good, :-1], lines.rows[good, -1]
        results.scores[some], results.next_scores[some] = scores[:, :-1], scores[:, -1]
        results.tied[some] = lines.tied[good, :-1]
        results.bounds[some] = tolerance(metric, scores[:, -2:], np.ones(1), dimension).max(axis=1)
        exact = has_near(metric, scores, dimension)
        results.decided[some] = decisions(scores[:, -2], scores[:, -1], results.bounds[some], exact)

    def _decide(self, which: NDArray[np.int64], new: Pairs) -> None:
        """Decide some queries again from known and new rows."""
        if not len(which):
            return
        vectors = self.search.queries[which]
        old = self._known_pairs(which)
        pairs = Pairs(*(np.concatenate(both) for both in zip(_arrays(old), _arrays(new), strict=True)))
        self._rescore_near(vectors, pairs)
        verdict = decide(self.search.metric, vectors, pairs, self.depth, self.search.reader.rows)
        self.results.forget_ties(which)
        self.results.put(which, np.ones(len(which), bool), verdict)

    def _known_pairs(self, which: NDArray[np.int64]) -> Pairs:
        """The rows that were known of some queries, by the queries' places among these."""
        before = self.known
        place, column = np.nonzero(before.rows[which] >= 0)
        parts = [(place, before.rows[which[place], column], before.scores[which[place], column])]
        following = self.certificate.next_rows[which]
        tied = np.diff(self.offsets)[which] > 0
        alone = np.flatnonzero((following >= 0) & ~tied)
        parts.append((alone, following[alone], self.certificate.next_scores[which[alone]]))
        for each in np.flatnonzero(tied).tolist():
            rows = self.beyond[self.offsets[which[each]] : self.offsets[which[each] + 1]]
            score = before.scores[which[each], -1]
            parts.append((np.full(len(rows), each), rows, np.full(len(rows), score)))
        queries, rows, scores = (np.concatenate(part) for part in zip(*parts, strict=True))
        dimension = self.search.queries.shape[1]
        bounds = tolerance(self.search.metric, scores, np.full(len(scores), np.inf), dimension)
        return Pairs(queries, self._now(rows), scores, bounds)

    def _rescore_near(self, vectors: NDArray[Any], pairs: Pairs) -> None:
        """Score anew whatever float64 may not tell apart: a stored score there may be a neighbor's.

        For inner products the bound needs the norms, so that all pairs are scored anew.
        """
        near = ~np.isfinite(pairs.tolerances)
        if self.search.metric is Metric.IP:
            near[:] = True
        else:
            order = grouped(pairs.queries, np.argsort(pairs.scores))
            slack = 2 * (pairs.tolerances[order][1:] + pairs.tolerances[order][:-1])
            close = np.abs(np.diff(pairs.scores[order])) <= slack
            close &= pairs.queries[order][1:] == pairs.queries[order][:-1]
            near[order[1:][close]] = near[order[:-1][close]] = True
        some = np.flatnonzero(near)
        if len(some):
            again = self.search.scored(vectors, pairs.queries[some], pairs.rows[some])
            pairs.scores[some], pairs.tolerances[some] = again.scores, again.tolerances


def _arrays(pairs: Pairs) -> tuple[NDArray[Any], ...]:
    return pairs.queries, pairs.rows, pairs.scores, pairs.tolerances
