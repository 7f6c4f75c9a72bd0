"""Missed neighbors that mattered: relevant ones, and ones that no returned row stands in for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from recallatk.analysis.answer_scores import cosine_distances
from recallatk.analysis.compared import Compared, shares
from recallatk.analysis.distribution import mean_of_values
from recallatk.analysis.loss import Misses, missed, tie_ends
from recallatk.analysis.matching import find_places, first_distinct
from recallatk.core import Metric, blocks
from recallatk.pair_scores import norms, pair_scores

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa
    from numpy.typing import NDArray

    from recallatk.core import Corpus, Dataset, Mean, Truth, Weights

# More queries change little, and their vectors would have to be held in memory.
MOST_QUERIES = 1_000
_SEED = 0
# Distances that are equal in exact arithmetic may differ by rounding.
_SLACK = 1e-12


@dataclass(frozen=True, eq=False)
class MissedNeighbors:
    """The true neighbors that answers lack at one k: shares of the true top k with intervals over queries."""

    k: int
    queries: int
    """Queries looked at: all, or a random sample of `MOST_QUERIES`."""
    sampled_from: int | None
    """Number of queries, if only a sample was looked at."""
    count: int
    """Number of missed neighbors of these queries."""
    lost: Mean
    """1 - recall@k."""
    stood_in: Mean | None
    """Missed, but a returned row stands in; None without vectors, or if the metric is no distance."""
    without: Mean | None
    """Missed, and no returned row stands in; adds up to `lost` with `stood_in`."""
    relevant: Mean | None
    """Missed and judged relevant, over queries with judgments; None without judgments."""
    relevant_count: int | None
    """Number of missed neighbors that were judged relevant."""


def missed_neighbors(
    truth: Truth,
    rows: NDArray[np.int64],
    k: int,
    *,
    dataset: Dataset | None = None,
    relevant: Mapping[int, frozenset[int]] | None = None,
    weights: Weights | None = None,
    among: NDArray[np.int64] | None = None,
) -> MissedNeighbors:
    """Tell the missed neighbors that mattered from the others.

    Args:
        truth: the right answers.
        rows: (queries, width) corpus rows as they were answered; below 0 where there is none.
        k: the cutoff.
        dataset: the vectors, to find rows that stand in for others.
        relevant: by number of the judged queries, the rows that are relevant.
        weights: how much each query counts; equally by default.
        among: numbers of the queries that were asked; all by default.
    """
    asked = np.arange(len(truth)) if among is None else among
    which = _sampled(asked)
    part, answers = (truth, rows) if len(which) == len(truth) else (truth.take(which), rows[which])
    counts = None if weights is None else weights.values[which]
    misses = missed(part, answers, k)
    cut = Compared(part, answers).hits(k).cut
    none = shares(np.zeros(len(cut)), cut)

    def share(chosen: NDArray[np.bool_], inside: NDArray[np.bool_] | None = None) -> Mean:
        """Mean over queries of the missed share of the chosen neighbors."""
        lost = np.bincount(misses.query[chosen], misses.share[chosen], len(part)) + none
        # Rounding must not carry a sum of shares beyond 1.
        lost = np.minimum(lost, 1.0)
        return mean_of_values(lost if inside is None else np.where(inside, lost, np.nan), weights=counts)

    covered = None
    if dataset is not None and dataset.metric is not Metric.IP:
        covered = stand_ins(part, answers, k, misses, dataset, which) >= 0
    judged = marked = None
    if relevant is not None:
        judged = np.array([number in relevant for number in which.tolist()], bool)
        pairs = zip(which[misses.query].tolist(), misses.row.tolist(), strict=True)
        marked = np.array([row in relevant.get(query, ()) for query, row in pairs], bool)
    return MissedNeighbors(
        k,
        len(part),
        len(asked) if len(part) < len(asked) else None,
        len(misses.row),
        share(np.ones(len(misses.row), bool)),
        None if covered is None else share(covered),
        None if covered is None else share(~covered),
        None if marked is None else share(marked, judged),
        None if marked is None else int(marked.sum()),
    )


def _sampled(asked: NDArray[np.int64]) -> NDArray[np.int64]:
    """All queries, or a random sample of them, in their order."""
    if len(asked) <= MOST_QUERIES:
        return asked
    chosen = np.random.default_rng(_SEED).permutation(len(asked))[:MOST_QUERIES]
    return np.sort(asked[chosen])


def stand_ins(
    truth: Truth,
    rows: NDArray[np.int64],
    k: int,
    misses: Misses,
    dataset: Dataset,
    which: NDArray[np.int64],
) -> NDArray[np.int64]:
    """For each missed neighbor the returned row that stands in for it; -1 where none does.

    An eligible row among the first k answers that is no true neighbor stands in for a missed one if it is
    at least as near to it as the query is, and at least as near as every other true neighbor of the query.
    A row stands in for one neighbor only: the nearest pairs are matched first.

    Args:
        truth: the right answers to the queries.
        rows: their answers, as corpus rows.
        k: the cutoff.
        misses: of `loss.missed`.
        dataset: the vectors, under cosine or l2.
        which: numbers of these queries in the dataset.
    """
    wrong = _wrong(Compared(truth, rows), k)
    query, place = np.nonzero(wrong >= 0)
    barred = ~dataset.eligibility.allowed(which[query], wrong[query, place])
    wrong[query[barred], place[barred]] = -1
    others = truth.rows[:, :k]
    distances = _RowDistances(dataset, [misses.row, wrong[misses.query], others[misses.query]])
    limit = distances.to_queries(misses.row, which[misses.query])
    beside = distances.between(misses.row, others[misses.query])
    beside[others[misses.query] == misses.row[:, None]] = np.inf
    limit = np.minimum(limit, beside.min(axis=1, initial=np.inf))
    found = distances.between(misses.row, wrong[misses.query])
    return _matched(misses.query, wrong, found, found <= limit[:, None] + _SLACK)


def _wrong(compared: Compared, k: int) -> NDArray[np.int64]:
    """The first k distinct answers that are no true neighbors, ties at rank k included; -1 for the others."""
    truth, rows = compared.truth, compared.answers
    counts = first_distinct(rows, k)
    given = np.where(counts, rows, -1)
    ends = np.maximum(tie_ends(compared, np.maximum(compared.hits(k).cut - 1, 0)), k)
    places = find_places(given, np.where(np.arange(truth.depth) < ends[:, None], truth.rows, -1))
    wrong = np.where(places.of_rows == places.never, given, -1)
    # Rows that tie beyond the depth are known by their rank among the answers.
    query, rank = compared.beyond
    tied = np.zeros((len(truth), k + 1), bool)
    inside = (rank < k) & (ends[query] > truth.depth)
    tied[query[inside], rank[inside]] = True
    ranks = np.minimum(np.cumsum(counts, axis=1) - 1, k)
    return np.where(np.take_along_axis(tied, np.maximum(ranks, 0), axis=1) & counts, -1, wrong)


def _matched(
    query: NDArray[np.int64],
    wrong: NDArray[np.int64],
    distances: NDArray[np.float64],
    near: NDArray[np.bool_],
) -> NDArray[np.int64]:
    """Each missed neighbor with one near row, the nearest pairs first, and each row used once."""
    chosen = np.full(len(query), -1, np.int64)
    miss, place = np.nonzero(near)
    taken: set[tuple[int, int]] = set()
    for at in np.argsort(distances[miss, place], kind="stable").tolist():
        number, column = int(miss[at]), int(place[at])
        seat = (int(query[number]), column)
        if chosen[number] < 0 and seat not in taken:
            chosen[number] = wrong[seat]
            taken.add(seat)
    return chosen


class _RowDistances:
    """Distances between corpus rows that are held in memory; infinite for what is no row."""

    def __init__(self, dataset: Dataset, wanted: list[NDArray[np.int64]]) -> None:
        self.dataset, self.metric = dataset, dataset.metric
        self.rows = np.unique(np.concatenate([each.reshape(-1) for each in wanted]))
        self.rows = self.rows[self.rows >= 0]
        vectors = dataset.corpus.vectors
        self.vectors = np.empty((len(self.rows), vectors.shape[1]), vectors.dtype)
        if not len(self.rows):
            return
        for start, block in blocks(vectors):
            first, last = np.searchsorted(self.rows, [start, start + len(block)])
            self.vectors[first:last] = block[self.rows[first:last] - start]

    def between(self, rows: NDArray[np.int64], others: NDArray[np.int64]) -> NDArray[np.float64]:
        """From each row to every row of the same line."""
        found = np.full(others.shape, np.inf)
        line, column = np.nonzero(others >= 0)
        first, second = (np.searchsorted(self.rows, each) for each in (rows[line], others[line, column]))
        found[line, column] = self._distances(self.vectors, first, second)
        return found

    def to_queries(self, rows: NDArray[np.int64], queries: NDArray[np.int64]) -> NDArray[np.float64]:
        """From each row to a query, by its number in the dataset."""
        asked = np.array(self.dataset.queries.vectors.read(0, self.dataset.queries.rows))
        return self._distances(asked, queries, np.searchsorted(self.rows, rows))

    def _distances(
        self, firsts: NDArray[np.float32], first: NDArray[np.int64], second: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        scores = pair_scores(self.metric, firsts, first, self.vectors, second)
        if self.metric is Metric.L2:
            return scores
        return cosine_distances(scores / (norms(firsts)[first] * norms(self.vectors)[second]))


def relevant_rows(
    truth: Truth, corpus: Corpus | None, names: pa.Array, qrels: Mapping[str, Mapping[str, int]]
) -> dict[int, frozenset[int]]:
    """By number of each judged query, the rows of the truth that were judged relevant.

    Args:
        truth: the right answers.
        corpus: supplies the ids, unless the truth has them.
        names: ids of the truth's queries.
        qrels: grades by query id and corpus id.
    """
    import pyarrow as pa

    rows = np.unique(truth.rows[truth.rows >= 0])
    ids = truth.ids_of(rows) if corpus is None else corpus.ids.take(pa.array(rows))
    row_of = {str(name): row for name, row in zip(ids.to_pylist(), rows.tolist(), strict=True)}
    found = {}
    for number, name in enumerate(names.to_pylist()):
        grades = qrels.get(str(name))
        if grades:
            found[number] = frozenset(
                row_of[each] for each, grade in grades.items() if grade > 0 and each in row_of
            )
    return found
