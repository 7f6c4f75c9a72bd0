"""Attribution of lost recall: every missed neighbor, and the one cause that the evidence gives for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from recallatk.analysis.answers import bounded
from recallatk.analysis.compared import Compared
from recallatk.analysis.distribution import mean_of_values
from recallatk.core.losses import ABSENT, NOT_ASKED, Cause

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from recallatk.core import Mean, Measurement, Truth
    from recallatk.core.losses import LossEvidence

CAUSES = tuple(Cause)


class Misses(NamedTuple):
    """Missed neighbors: the shares of a query's misses add up to 1 - recall."""

    query: NDArray[np.int64]
    row: NDArray[np.int64]
    share: NDArray[np.float64]
    limit: NDArray[np.int64]
    """Ranks below this one count as found: k, or the end of the block of ties at k."""


def missed(truth: Truth, answers: NDArray[np.int64], k: int) -> Misses:
    """The neighbors that answers miss.

    Rows that tie at rank k stand in for each other. Where too few of them were returned, the first in the
    order of the truth count as missed, as many as recall lacks.

    Args:
        truth: the right answers.
        answers: (queries, width) corpus rows.
        k: the cutoff.
    """
    compared = Compared(truth, answers)
    hits = compared.hits(k)
    ranks = np.arange(k)
    candidates = (compared.places.up_to(k)[:, :k] >= k) & (ranks < hits.cut[:, None])
    last = np.maximum(hits.cut - 1, 0)
    first = compared.block_starts[np.arange(len(truth)), last]
    tied = ranks >= first[:, None]
    lacking = hits.cut - hits.tie_aware - (candidates & ~tied).sum(axis=1)
    replaceable = candidates & tied
    candidates &= ~tied | (np.cumsum(replaceable, axis=1) <= lacking[:, None])
    query, rank = np.nonzero(candidates)
    ends = np.where(tied[query, rank], tie_ends(compared, last)[query], k)
    return Misses(query, truth.rows[query, rank], 1 / hits.cut[query], np.maximum(ends, k))


def tie_ends(compared: Compared, last: NDArray[np.int64]) -> NDArray[np.int64]:
    """Number of rows that are at least as good as the last one that counts."""
    truth, depth = compared.truth, compared.truth.depth
    tied = compared.ties_with_previous(np.arange(len(truth)))
    columns = np.arange(depth)
    fresh = ~tied & (columns > last[:, None])
    ends = np.where(fresh, columns, depth).min(axis=1, initial=depth)
    beyond = np.zeros(len(truth), np.int64)
    if truth.overflow is not None:
        beyond = np.diff(truth.overflow[0])
    if truth.tie_counts is not None:
        beyond = np.maximum(beyond, truth.tie_counts)
    return np.asarray(np.where(ends == depth, ends + beyond, ends))


def missed_by(measurement: Measurement, truth: Truth, k: int, rows: int) -> Misses:
    """The neighbors that the calls of a trial missed; a call counts as in the mean over the query's calls.

    Args:
        measurement: the trial.
        truth: the right answers to all of its queries.
        k: the cutoff.
        rows: number of corpus rows.
    """
    parts = []
    for answers, weights in _weighted(measurement):
        which = np.flatnonzero(weights)
        found = missed(truth.take(which), bounded(answers[which], rows), k)
        query = which[found.query]
        parts.append(Misses(query, found.row, found.share * weights[query], found.limit))
    query, row, share, limit = map(np.concatenate, zip(*parts, strict=True))
    _, first, number = np.unique(query * rows + row, return_index=True, return_inverse=True)
    total = np.zeros(len(first))
    np.add.at(total, number, share)
    return Misses(query[first], row[first], total, limit[first])


def _weighted(measurement: Measurement) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float64]]]:
    """Answers of all calls: a matrix at a time, with the share of each query's calls that got its line."""
    answers, others = measurement.answers, measurement.others
    times = measurement.times
    if times is None:
        times = np.bincount(measurement.calls.query, minlength=len(answers))
    each = 1 / np.maximum(times, 1)
    if others is None:
        yield answers, (times > 0).astype(np.float64)
        return
    changed = np.bincount(others.query, minlength=len(answers))
    yield answers, (times - changed) * each
    order = np.argsort(others.query, kind="stable")
    query = others.query[order]
    turn = np.arange(len(query)) - np.searchsorted(query, query)
    for number in range(int(turn.max(initial=-1)) + 1):
        chosen = order[turn == number]
        lines, weights = answers.copy(), np.zeros(len(answers))
        lines[others.query[chosen]] = others.rows[chosen]
        weights[others.query[chosen]] = each[others.query[chosen]]
        yield lines, weights


def attribute(evidence: LossEvidence) -> NDArray[np.int8]:
    """The cause of each missed neighbor, as its place in `CAUSES`: the first that holds."""
    limit = evidence.limit
    lists = (evidence.deeper, evidence.reranked, evidence.unfiltered, evidence.full)

    def found(ranks: NDArray[np.int64]) -> NDArray[np.bool_]:
        return np.asarray((ranks >= 0) & (ranks < limit))

    seen = np.logical_or.reduce([ranks >= 0 for ranks in lists])
    held = seen | (evidence.held == 1)
    # A longer list and a search without the filter show ranks by the same codes; so does full effort.
    cut = np.logical_or.reduce([ranks >= limit for ranks in (*lists[:1], *lists[2:])])
    # A scan of whole vectors finds whatever the index has, so it does not have to be asked.
    sure = (evidence.held == 1) & evidence.whole & evidence.full_scans & (not evidence.scans)
    scanned = evidence.scans | (evidence.full_scans & (evidence.full != NOT_ASKED))
    without = evidence.filtered & found(evidence.unfiltered)
    # Many engines keep more candidates for a longer list. Only an equally long list with the filter tells the
    # filter from that effort, unless the filter left rows out of the answer.
    compared = (evidence.lacking > 0) | (evidence.deeper != NOT_ASKED)
    blocked = (evidence.lacking > 0) | ~found(evidence.deeper)
    decided = [
        (Cause.MISSING, ~seen & (evidence.held == 0)),
        (Cause.RANKING, cut | found(evidence.reranked)),
        (Cause.UNATTRIBUTED, evidence.filtered & (evidence.unfiltered == NOT_ASKED)),
        (Cause.UNATTRIBUTED, without & ~compared),
        (Cause.FILTER, without & blocked),
        # Graph searches keep at least as many candidates as they return, so a longer list is more effort.
        (Cause.EFFORT, found(evidence.full) | found(evidence.deeper) | sure),
        # Where every row was compared, only its rank can have kept it out.
        (Cause.RANKING, held & scanned),
        (Cause.BUILD, held & (evidence.full == ABSENT)),
    ]
    numbers = [CAUSES.index(cause) for cause, _ in decided]
    chosen = np.select([holds for _, holds in decided], numbers, CAUSES.index(Cause.UNATTRIBUTED))
    return chosen.astype(np.int8)


def loss_by_cause(
    evidence: LossEvidence, recalls: NDArray[np.float64], weights: NDArray[np.float64] | None = None
) -> dict[Cause, Mean]:
    """Recall lost to each cause, with intervals over queries; together 1 - mean recall.

    Args:
        evidence: on every neighbor that the trial missed.
        recalls: recall of each query; NaN for queries without one.
        weights: how much each query counts; equally by default.
    """
    cause, unscored = attribute(evidence), np.isnan(recalls)
    means = {}
    for number, each in enumerate(CAUSES):
        chosen = cause == number
        lost = np.bincount(evidence.query[chosen], evidence.share[chosen], len(recalls))
        # Rounding must not carry a sum of shares beyond 1.
        means[each] = mean_of_values(np.where(unscored, np.nan, np.minimum(lost, 1.0)), weights=weights)
    return means
