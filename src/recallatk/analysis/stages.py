"""Stages of a retrieval path: the recall of each stage's list, and the stage that lost each true neighbor."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from recallatk.analysis.compared import Compared, shares
from recallatk.analysis.comparison import difference_interval
from recallatk.analysis.distribution import Estimate, mean_of, mean_of_values, scored_values, weighted_mean
from recallatk.analysis.matching import find_places, first_distinct
from recallatk.analysis.measures import Recall, RecallWithin
from recallatk.errors import MismatchError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from recallatk.core import Mean, Truth, Weights

# Rows that a stage added are named up to this number.
MOST_NAMED = 5


@dataclass(frozen=True)
class ListDepth:
    """Number of distinct known rows that a stage returned per query."""

    median: float
    least: int
    most: int


@dataclass(frozen=True)
class AddedRows:
    """Rows that a stage returned although the stage before did not pass them on."""

    count: int
    queries: int
    """Number of queries with at least one such row."""
    some: tuple[tuple[int, int], ...]
    """The first of them, as query number and corpus row."""


@dataclass(frozen=True, eq=False)
class StageResult:
    """One stage of a path at one k."""

    name: str
    candidates: ListDepth
    within: str
    """Name of the measure `contained`, such as `recall10@100`."""
    contained: Mean
    """The share of the true top k anywhere in the stage's list."""
    recall: Mean
    """recall@k by the stage's own order."""
    lost: Mean
    """The share of the true top k that the last stage lacks and that this stage dropped first."""
    dropped: Estimate | None
    """`contained` of the stage before minus that of this stage, paired by query; None for the first stage."""
    gained: Estimate | None
    """recall@k of this stage minus that of the stage before, paired by query; None for the first stage."""
    added: AddedRows | None
    """Rows that the stage before did not pass on; None for the first stage."""


@dataclass(frozen=True, eq=False)
class StagedRecall:
    """All stages of a path at one k; the shares `lost` add up to 1 - recall@k of the last stage."""

    k: int
    stages: tuple[StageResult, ...]
    lost: Mapping[str, NDArray[np.float64]] = field(repr=False)
    """By stage and query: the share of the query's true top k; NaN for queries without an eligible row."""

    @property
    def last(self) -> StageResult:
        """The stage whose answers the user sees."""
        return self.stages[-1]


def staged_recall(
    names: Sequence[str],
    lists: Sequence[NDArray[np.int64]],
    truth: Truth,
    k: int,
    weights: Weights | None = None,
) -> StagedRecall:
    """Recall of every stage, and the stage that lost each neighbor that the last one lacks.

    Args:
        names: distinct names of the stages, first stage first.
        lists: per stage (queries, depth) corpus rows, best first; below 0 for padding and unknown ids.
        truth: the right answers to the same queries.
        k: the cutoff, within the truth's depth.
        weights: how much each query counts; equally by default.
    """
    return StageLists(names, lists, truth).at(k, weights)


class StageLists:
    """The lists of all stages beside the truth, matched once for every k; arguments as in `staged_recall`."""

    def __init__(self, names: Sequence[str], lists: Sequence[NDArray[np.int64]], truth: Truth) -> None:
        require_stages(names)
        for name, rows in zip(names, lists, strict=True):
            if len(rows) != len(truth):
                raise MismatchError(
                    f"query mismatch: stage {name} has {len(rows):,} lists, the truth {len(truth):,} queries"
                )
        self.names, self.lists, self.truth = tuple(names), list(lists), truth
        self.compared = [Compared(truth, rows) for rows in lists]
        self.added = [None, *map(_added, self.lists, self.lists[1:])]
        self._passed = list(_passed(self.compared[0], self.lists[1:-1]))

    def at(self, k: int, weights: Weights | None = None) -> StagedRecall:
        """The stages at one k."""
        counts = None if weights is None else weights.values
        lost = dict(zip(self.names, self._lost(k), strict=True))
        order = Recall(k)
        recalls = [order.per_query(each) for each in self.compared]
        within = [RecallWithin(max(k, rows.shape[1]), k) for rows in self.lists]
        contained = [each.per_query(found) for each, found in zip(within, self.compared, strict=True)]
        # The first stage has nothing to be compared with.
        dropped = [None, *(_paired(now, before, counts) for before, now in pairwise(contained))]
        gained = [None, *(_paired(before, now, counts) for before, now in pairwise(recalls))]
        stages = tuple(
            StageResult(
                name,
                _candidates(self.compared[at].places.distinct),
                str(within[at]),
                mean_of(contained[at], within[at], within[at].by_ids(self.compared[at]), counts),
                mean_of(recalls[at], order, order.by_ids(self.compared[at]), counts),
                mean_of_values(lost[name], weights=counts),
                dropped[at],
                gained[at],
                self.added[at],
            )
            for at, name in enumerate(self.names)
        )
        return StagedRecall(k, stages, lost)

    def _lost(self, k: int) -> Iterable[NDArray[np.float64]]:
        """Per stage the share of each query's true top k that it dropped first and the last stage lacks.

        Counted as the fall of the tie-aware hits among the rows that are in the final answer or that no stage
        so far has dropped: of rows that tie at rank k, any one that is still there will do.
        """
        final = np.where(first_distinct(self.lists[-1], k), self.lists[-1], -1)
        cut = self.compared[-1].hits(k).cut
        before = cut
        for passed in [*self._passed, None]:
            rows = final if passed is None else np.concatenate([final, passed], axis=1)
            hits = Compared(self.truth, rows).hits(k, within=rows.shape[1]).tie_aware
            yield shares(before - hits, cut)
            before = hits


def require_stages(names: Sequence[object]) -> None:
    """Refuse fewer than two stages, and names that are empty or repeated."""
    if len(names) < 2:
        found = f"one stage, {names[0]}" if names else "no stages"
        raise UsageError(
            f"{found}. Accepted: two or more, first stage first. A single list is scored as ANSWERS: "
            "recallatk score TRUTH ANSWERS, or recallatk.assess(truth, answers)"
        )
    if not all(isinstance(name, str) and name.strip() for name in names):
        raise UsageError("a stage has no name. Accepted: a text of its own for every stage")
    again = next((name for at, name in enumerate(names) if name in names[:at]), None)
    if again is not None:
        raise UsageError(f"two stages are named {again}. Accepted: distinct names")


def _passed(first: Compared, later: Sequence[NDArray[np.int64]]) -> Iterable[NDArray[np.int64]]:
    """For each stage, the true rows that all lists up to it contain; -1 for the others."""
    passed = _true_rows(first)
    yield passed
    for rows in later:
        passed = np.where(_inside(passed, rows), passed, -1)
        yield passed


def _true_rows(compared: Compared) -> NDArray[np.int64]:
    """The rows of the truth, ties beyond its depth included, that a list contains; -1 for the others."""
    held = np.where(compared.places.of_rows != compared.places.never, compared.truth.rows, -1)
    some, lists, places = compared.overflow_places
    inside = places.of_rows != places.never
    counts = inside.sum(axis=1)
    beyond = np.full((len(held), counts.max(initial=0)), -1, np.int64)
    line, column = np.nonzero(inside)
    place = np.arange(len(line)) - np.repeat(np.cumsum(counts) - counts, counts)
    beyond[some[line], place] = lists[line, column]
    return np.concatenate([held, beyond], axis=1)


def _inside(rows: NDArray[np.int64], others: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which rows (distinct in each line, below 0 for none) are also in the same line of the others."""
    places = find_places(rows, others)
    return np.asarray((places.of_rows != places.never) & (rows >= 0))


def _added(before: NDArray[np.int64], rows: NDArray[np.int64]) -> AddedRows:
    known = np.where(first_distinct(rows, rows.shape[1]), rows, -1)
    query, place = np.nonzero((known >= 0) & ~_inside(known, before))
    some = zip(query[:MOST_NAMED].tolist(), known[query, place][:MOST_NAMED].tolist(), strict=True)
    return AddedRows(len(query), len(np.unique(query)), tuple(some))


def _candidates(distinct: NDArray[np.int64]) -> ListDepth:
    return ListDepth(float(np.median(distinct)), int(distinct.min()), int(distinct.max()))


def _paired(
    first: NDArray[np.float64], second: NDArray[np.float64], weights: NDArray[np.float64] | None
) -> Estimate | None:
    """The mean of second - first over the queries that have both; None if none has."""
    found, counts = scored_values(second - first, weights)
    if not len(found):
        return None
    low, high = difference_interval(found, weights=counts) or (None, None)
    return Estimate(weighted_mean(found, counts), low, high)
