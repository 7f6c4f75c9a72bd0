"""Truth of a hybrid path: the fusion of the exact lists of all legs, and why fused answers miss neighbors."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from recallatk.analysis.compared import Compared, shares
from recallatk.analysis.distribution import mean_of, mean_of_values
from recallatk.analysis.loss import missed
from recallatk.analysis.measures import Recall
from recallatk.core import Metric, Truth
from recallatk.errors import MismatchError, UsageError
from recallatk.ids import RowIds
from recallatk.pipeline.ranking import Ranked, require_rows

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from recallatk.analysis.loss import Misses
    from recallatk.core import Corpus, Mean
    from recallatk.pipeline.fusion import Fuse

FUSION_DEPTH = "fusion depth"
"""Cause of a neighbor that is missed even if all legs are exact at the depth in use."""
SEVERAL_LEGS = "several legs"
"""Cause of a neighbor that is found only if more than one leg is exact."""


@dataclass(frozen=True, eq=False)
class FusionLoss:
    """Recall that fused answers lost, and the one cause of each missed neighbor."""

    measure: str
    """The recall that is explained, such as `recall@10`."""
    recall: Mean
    causes: Mapping[str, Mean]
    """Recall lost to fusion depth, each leg and several legs, over queries; together 1 - recall."""
    query: NDArray[np.int64]
    """Query of each missed neighbor."""
    row: NDArray[np.int64]
    """Its corpus row."""
    share: NDArray[np.float64]
    """What the query's recall lost with it."""
    cause: NDArray[np.int64]
    """Its cause, as a place in `causes`."""


def exact_list(truth: Truth, depth: int, stage: str) -> Ranked:
    """The exact list of a dense leg: the first rows of its truth, with scores of which higher is better.

    Args:
        truth: the truth of the leg.
        depth: number of rows per query; l2 distances are negated.
        stage: name of the leg, for messages.
    """
    _require_depth(truth.rows, depth, stage, truth.eligible, hint="recallatk truth CORPUS QUERIES --depth")
    scores = truth.scores
    if scores is not None and truth.metric is Metric.L2:
        scores = -scores
    return Ranked(truth.rows, scores).cut(depth)


def hybrid_truth(
    exact: Mapping[str, Ranked],
    fuse: Fuse,
    depth: int,
    *,
    dense: Truth | None = None,
    corpus: Corpus | None = None,
) -> Truth:
    """The truth of a fusion: the fused exact lists of its legs, with float64 scores and ties.

    Rows that no leg lists are no neighbors, so that a query may have fewer neighbors than eligible rows.

    Args:
        exact: exact list of each leg, by name, in the order of the path.
        fuse: the fusion of the path.
        depth: number of neighbors per query.
        dense: truth of a dense leg, for what it knows of queries, ids and filters.
        corpus: the corpus, for the ids of rows that the truth of the dense leg does not list.
    """
    _require_queries(exact, dense)
    known = corpus.rows if corpus is not None else None if dense is None else dense.corpus_rows
    if known is not None:
        for name, lists in exact.items():
            require_rows(lists, name, known)
    legs = list(exact.values())
    # All rows of all lists, so that every tie at the last rank has a name.
    rows, scores = fuse(legs, max(depth, sum(each.depth for each in legs)))
    if scores is None:
        raise UsageError("fuse: the truth of a fusion needs its scores. Return them beside the rows")
    beyond = (rows[:, depth:] >= 0) & (scores[:, depth:] == scores[:, depth - 1 : depth])
    offsets = np.concatenate([[0], np.cumsum(beyond.sum(axis=1))]).astype(np.int64)
    truth = Truth(
        rows[:, :depth],
        scores[:, :depth],
        None,
        None,
        overflow=(offsets, rows[:, depth:][beyond]),
        corpus_rows=known,
    )
    return truth if dense is None else _described(truth, dense, corpus, rows)


def _described(truth: Truth, dense: Truth, corpus: Corpus | None, rows: NDArray[np.int64]) -> Truth:
    """The truth with what the truth of a dense leg knows of the same queries and corpus."""
    ids = dense.corpus_ids
    if ids is None and dense.row_ids is not None:
        if corpus is None:
            raise UsageError("the truth of a fusion names rows by their ids. Pass the corpus: corpus=…")
        ids = corpus.ids
    eligible = dense.eligible
    listed = (truth.rows >= 0).sum(axis=1)
    # Where no leg lists an eligible row, the number of eligible rows is not the number of neighbors.
    if eligible is not None and (listed < np.minimum(eligible, truth.depth)).any():
        eligible = None
    return replace(
        truth,
        eligible=eligible,
        sampled_from=dense.sampled_from,
        query_ids=dense.query_ids,
        query_columns=dense.query_columns,
        row_ids=None if ids is None else RowIds.some(rows, ids),
        corpus_ids=dense.corpus_ids,
        models=dense.models,
    )


def fusion_losses(
    truth: Truth,
    found: Mapping[str, Ranked],
    exact: Mapping[str, Ranked],
    fuse: Fuse,
    k: int,
    *,
    answers: NDArray[np.int64] | None = None,
    weights: NDArray[np.float64] | None = None,
) -> FusionLoss:
    """Why the fused answers miss neighbors of the hybrid truth: one cause for each.

    A leg is the cause if its exact list alone brings the neighbor back; of several such legs, the one that
    ranks it best, and then the first.

    Args:
        truth: the hybrid truth.
        found: list that each leg returned, by name, in the order of the path; its width is the depth in use.
        exact: exact list of each leg, at least as deep.
        fuse: the fusion of the path.
        k: the cutoff.
        answers: what the path returned, if rows that tie may be in another order; by default the fused lists.
        weights: how much each query counts; equally by default.
    """
    _require_queries(found, truth)
    if list(found) != list(exact):
        raise UsageError(
            f"the exact lists are of {', '.join(exact) or 'no leg'}, but the path has {', '.join(found)}. "
            "Pass one exact list per leg, in the same order"
        )
    for name, lists in exact.items():
        _require_depth(lists.rows, found[name].depth, name, truth.eligible)
    exact = {name: lists.cut(found[name].depth) for name, lists in exact.items()}
    if answers is None:
        answers = fuse(list(found.values()), k).rows
    misses = missed(truth, answers, k)
    cause = _causes(truth, misses, found, exact, fuse, k)
    measure, compared = Recall(k), Compared(truth, answers)
    recalls = measure.per_query(compared)
    unscored = np.isnan(recalls)
    means = {}
    for number, name in enumerate((FUSION_DEPTH, *found, SEVERAL_LEGS)):
        chosen = cause == number
        lost = np.bincount(misses.query[chosen], misses.share[chosen], len(truth))
        # Rounding must not carry a sum of shares beyond 1.
        means[name] = mean_of_values(np.where(unscored, np.nan, np.minimum(lost, 1.0)), weights=weights)
    recall = mean_of(recalls, measure, measure.by_ids(compared), weights)
    return FusionLoss(str(measure), recall, means, misses.query, misses.row, misses.share, cause)


def retrieval_losses(
    truth: Truth, found: Mapping[str, Ranked], exact: Mapping[str, Ranked], k: int
) -> dict[str, NDArray[np.float64]]:
    """By leg, the share of each query's true top k that no leg returned.

    A neighbor is lost to the leg whose exact list has it; of several, to the one that ranks it best, and then
    the first. The truth is an order of the exact lists, without ties.

    Args:
        truth: what the path returns if its legs are exact.
        found: list that each leg returned, by name.
        exact: exact list of each leg, as deep.
        k: the cutoff.
    """
    best = truth.rows[:, :k]
    cut = (best >= 0).sum(axis=1)
    returned = _ranks(best, np.concatenate([lists.rows for lists in found.values()], axis=1))
    leg = np.stack([_ranks(best, exact[name].rows) for name in found]).argmin(axis=0)
    lacking = (best >= 0) & (returned == _ABSENT)
    return {name: shares((lacking & (leg == number)).sum(axis=1), cut) for number, name in enumerate(found)}


_ABSENT = np.iinfo(np.int64).max


def _ranks(rows: NDArray[np.int64], lists: NDArray[np.int64]) -> NDArray[np.int64]:
    """The rank of each row in the list of its query, from 0; `_ABSENT` where the list does not have it."""
    ranks = np.full(rows.shape, _ABSENT)
    for place in range(rows.shape[1]):
        same = lists == rows[:, place, None]
        ranks[:, place] = np.where(same.any(axis=1), same.argmax(axis=1), _ABSENT)
    return ranks


def _causes(
    truth: Truth,
    misses: Misses,
    found: Mapping[str, Ranked],
    exact: Mapping[str, Ranked],
    fuse: Fuse,
    k: int,
) -> NDArray[np.int64]:
    """The cause of each missed neighbor: 0 for fusion depth, then the legs, then several legs."""
    which, place = np.unique(misses.query, return_inverse=True)
    if not len(which):
        return np.empty(0, np.int64)
    asked = truth.take(which)
    # Only queries that missed something are fused again.
    used = {name: _taken(lists, which) for name, lists in found.items()}
    right = {name: _taken(lists, which) for name, lists in exact.items()}

    def rank(replaced: tuple[str, ...]) -> NDArray[np.int64]:
        """Rank of each missed neighbor where these legs are exact; k + 1 if it is still missed."""
        legs = [right[name] if name in replaced else used[name] for name in used]
        answers = fuse(legs, k).rows
        still = missed(asked, answers, k)
        base = int(max(misses.row.max(), still.row.max(initial=0))) + 1
        lost = np.isin(place * base + misses.row, still.query * base + still.row)
        same = answers[place] == misses.row[:, None]
        # A row that ties with it may have taken its place.
        ranks = np.where(same.any(axis=1), same.argmax(axis=1), k)
        return np.where(lost, k + 1, ranks)

    alone = np.stack([rank((name,)) for name in used])
    best = alone.argmin(axis=0)
    leg = np.where(alone.min(axis=0) <= k, best + 1, len(used) + 1)
    return np.asarray(np.where(rank(tuple(used)) > k, 0, leg), np.int64)


def _taken(lists: Ranked, which: NDArray[np.int64]) -> Ranked:
    return Ranked(lists.rows[which], None if lists.scores is None else lists.scores[which])


def _require_queries(legs: Mapping[str, Ranked], truth: Truth | None) -> None:
    """Refuse legs and a truth of different queries."""
    counts = {name: len(lists.rows) for name, lists in legs.items()}
    if truth is not None:
        counts = {"the truth": len(truth)} | counts
    if not legs or len(set(counts.values())) != 1:
        said = ", ".join(f"{name} has {count:,}" for name, count in counts.items()) or "there is no leg"
        raise MismatchError(f"query mismatch: {said}. Accepted: one list per query from each leg")


def _require_depth(
    rows: NDArray[np.int64], depth: int, stage: str, eligible: NDArray[np.int64] | None, hint: str = ""
) -> None:
    """Refuse exact lists that end before the depth, although there may be more rows."""
    if rows.shape[1] >= depth or not rows.size:
        return
    more = rows[:, -1] >= 0
    if eligible is not None:
        more &= eligible > rows.shape[1]
    if more.any():
        remedy = f"Recompute them: {hint} {depth}" if hint else f"Compute them at depth {depth}"
        raise UsageError(
            f"{stage}: query {int(np.argmax(more))}: the exact list has {rows.shape[1]} rows, but the depth "
            f"in use is {depth}. {remedy}"
        )
