"""The bounded scan of one shard: the same sweeps as a whole search, with candidates as the result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.core import ArrayVectors, Corpus, Dataset, QuerySet
from recallatk.filters.eligibility import Eligibility
from recallatk.filters.lookup import RowSet
from recallatk.truths.candidates import ShardCandidates
from recallatk.truths.decision import Pairs
from recallatk.truths.memory_plan import plan
from recallatk.truths.search import ExactSearch

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recallatk.core import Metric, Vectors
    from recallatk.truths.results import Results
    from recallatk.truths.space import Space
    from recallatk.truths.sweep import Candidates


@dataclass(frozen=True, eq=False)
class SlicedVectors:
    """Consecutive rows of a matrix."""

    vectors: Vectors
    start: int
    stop: int

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and dimension."""
        return self.stop - self.start, self.vectors.shape[1]

    @property
    def dtype(self) -> np.dtype[Any]:
        """Stored type."""
        return self.vectors.dtype

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Some of the rows."""
        return self.vectors.read(self.start + start, self.start + stop)


def sliced(eligibility: Eligibility, start: int, stop: int) -> Eligibility:
    """The eligibility of the same queries on the rows from `start` to `stop`, numbered from 0."""
    sets = tuple(
        None if each is None else RowSet.of_rows(each.between(start, stop), stop - start)
        for each in eligibility.sets
    )
    own = None
    if eligibility.own_rows is not None:
        inside = (eligibility.own_rows >= start) & (eligibility.own_rows < stop)
        own = np.where(inside, eligibility.own_rows - start, -1)
    return Eligibility(sets, eligibility.group, own, stop - start)


@dataclass(frozen=True, eq=False)
class ShardWork:
    """What a shard is scanned for."""

    queries: NDArray[Any]
    metric: Metric
    depth: int
    kernel: tuple[str, str | None] = ("auto", None)
    """The backend and the device."""
    memory: int | None = None
    threads: int = 1


def scan_shard(
    work: ShardWork,
    corpus: Corpus,
    first_row: int,
    eligibility: Eligibility,
    floors: NDArray[np.float64] | None = None,
) -> ShardCandidates:
    """Every row of a shard that may be among the best of a query, with float64 scores.

    Args:
        work: the queries, and how they are compared.
        corpus: the rows of the shard.
        first_row: the number of its first row in the whole corpus.
        eligibility: which of its rows each query may return.
        floors: per query, what enough rows of other shards surely reach (`known_floors`).
    """
    # Nobody reads columns here; queries in memory have none.
    queries = QuerySet("queries", ArrayVectors(work.queries), corpus.columns)
    dataset = Dataset(corpus, queries, work.metric)
    scan = _ShardScan(dataset, work, first_row, eligibility, floors)
    scan.run()
    return ShardCandidates.of(scan.found, len(work.queries))


class CandidateSearch(ExactSearch):
    """The stages of a search, without the decision: scored candidates, by row of the whole corpus."""

    first_row = 0
    """The number of the first row of this corpus in the whole one."""

    def run(self, which: NDArray[np.int64] | None = None) -> Results:
        """Find the candidates of all queries, or of some."""
        self.found: list[Pairs] = []
        return super().run(which)

    def prove(self, group: NDArray[np.int64], candidates: Candidates, proven: NDArray[np.bool_]) -> None:
        """Keep the candidates of a group with their scores."""
        pairs = self.scored(self.queries[group], candidates.queries, candidates.rows)
        self.found.append(
            Pairs(group[pairs.queries], pairs.rows + self.first_row, pairs.scores, pairs.tolerances)
        )


class _ShardScan(CandidateSearch):
    """The candidates of a shard, given what others are known to reach."""

    def __init__(
        self,
        dataset: Dataset,
        work: ShardWork,
        first_row: int,
        eligibility: Eligibility,
        floors: NDArray[np.float64] | None,
    ) -> None:
        super().__init__(
            dataset,
            work.depth,
            plan(dataset, work.depth, work.memory, work.threads),
            threads=work.threads,
            backend=work.kernel[0],
            device=work.kernel[1],
            eligibility=eligibility,
            first_row=first_row,
        )
        self.first_row, self.known = first_row, floors

    def _floors(self, space: Space, group: NDArray[np.int64]) -> NDArray[np.float64] | None:
        if self.known is None:
            return None
        reached = self.known[group]
        # What is known of a query is a score; -inf stands for nothing.
        better = reached if self.metric.higher_is_better else -reached
        scores = np.where(np.isneginf(reached), np.nan, better)
        return space.floors(self.queries[group], scores, np.zeros(len(group)))
