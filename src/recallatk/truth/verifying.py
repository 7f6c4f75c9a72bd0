"""Any truth, ours or somebody else's, proved anew on the data that it is said to belong to."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recallatk.core import Metric, Origin, Truth
from recallatk.errors import MismatchError, UsageError
from recallatk.fingerprint import fingerprints
from recallatk.truth.arithmetic import exact_ranks
from recallatk.truth.budget import plan
from recallatk.truth.exact import count_threads
from recallatk.truth.search import Search

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from recallatk.core import Dataset
    from recallatk.truth.results import Results


class Fault(StrEnum):
    """What can be wrong with a neighbour."""

    NOT_AMONG_BEST = "not among the best"
    OUT_OF_ORDER = "better than the one before it"
    REPEATED = "named before"
    UNKNOWN = "no row of the corpus"
    INELIGIBLE = "barred by the filter or the query itself"
    MISSING = "missing"
    """Nothing stands where an eligible row belongs."""
    SCORE = "another score than the real one"
    TIES = "other ties than the real ones"
    ELIGIBLE = "another count of eligible rows"


@dataclass(frozen=True)
class Wrong:
    """One wrong neighbour."""

    query: Any
    """The query's id."""
    rank: int
    """From 1."""
    neighbor: Any
    """Its id, or None where there is none."""
    fault: Fault
    score: float | None
    """The real score of that row."""
    gap: float | None
    """How much worse that is than the worst score among the real neighbours."""


@dataclass(frozen=True, eq=False)
class Verification:
    """What was looked at, and what was wrong."""

    queries: int
    checked: int
    depth: int
    wrong: tuple[Wrong, ...]
    other_data: tuple[str, ...]
    """Parts of the data whose fingerprint is not the one in the file; empty where the file has none."""

    @property
    def right(self) -> bool:
        """Whether nothing was wrong."""
        return not self.wrong and not self.other_data


def verify_truth(
    truth: Truth,
    dataset: Dataset,
    *,
    sample: int | None = None,
    seed: int = 0,
    memory: int | str | None = None,
    threads: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Verification:
    """Compute the truth of some queries, or of all, and hold the other one against it.

    Args:
        truth: what to check.
        dataset: the data that it is about.
        sample: how many queries to check; all by default.
        seed: which ones.
        memory: how much to use, as bytes or text such as `1GiB`.
        threads: how many cores to use; all by default.
        progress: called with the pairs of query and row that are done, and how many there are.
    """
    if truth.metric is not None and truth.metric is not dataset.metric:
        raise MismatchError(f"the truth is of {truth.metric}, and the data was opened with {dataset.metric}")
    places = _query_places(truth, dataset)
    chosen = _chosen(len(places), sample, seed)
    threads = count_threads(threads)
    search = Search(
        dataset,
        truth.depth,
        plan(dataset, truth.depth, memory, threads),
        threads=threads,
        backend="blas",
        progress=progress,
    )
    real = search.run(places[chosen])
    check = _Check(truth, dataset, search, real)
    wrong = [each for number in chosen.tolist() for each in check.query(number, int(places[number]))]
    return Verification(len(truth), len(chosen), truth.depth, tuple(wrong), _other_data(truth, dataset))


def _other_data(truth: Truth, dataset: Dataset) -> tuple[str, ...]:
    if not truth.fingerprints:
        return ()
    found = fingerprints(dataset)
    return tuple(sorted(name for name, text in truth.fingerprints.items() if found.get(name) != text))


def _query_places(truth: Truth, dataset: Dataset) -> NDArray[np.int64]:
    """For each query of the truth, its number in the data: by id where it has one, else by position."""
    if truth.query_ids is None or truth.origin is Origin.IMPORTED:
        if len(truth) != dataset.queries.rows:
            raise MismatchError(
                f"a truth of {len(truth):,} queries without ids, and {dataset.queries.rows:,} queries "
                f"in {dataset.queries.name}"
            )
        return np.arange(len(truth))
    places = _places(truth.query_ids, dataset.queries.ids)
    if (places < 0).any():
        missing = truth.query_ids[int(np.argmax(places < 0))]
        raise MismatchError(f"the truth has a query {missing}, and {dataset.queries.name} has none")
    return places


def _places(ids: pa.Array, among: pa.Array) -> NDArray[np.int64]:
    """Where each id is among others; -1 for those that are not."""
    if ids.type != among.type:
        ids, among = ids.cast(pa.string()), among.cast(pa.string())
    found: NDArray[np.int64] = pc.index_in(ids, value_set=among).cast(pa.int64()).fill_null(-1).to_numpy()
    return found


def _chosen(count: int, sample: int | None, seed: int) -> NDArray[np.int64]:
    if sample is None:
        return np.arange(count)
    if not 1 <= sample <= count:
        raise UsageError(f"a sample of {sample} queries. Accepted: 1 to {count}")
    return np.sort(np.random.default_rng(seed).permutation(count)[:sample])


class _Check:
    """One truth against another, query by query."""

    def __init__(self, truth: Truth, dataset: Dataset, search: Search, real: Results) -> None:
        self.truth, self.dataset, self.search, self.real = truth, dataset, search, real
        self.offsets, self.beyond = real.overflow()
        self.rows = self._rows_by_id()
        self.ids = dataset.corpus.ids

    def _rows_by_id(self) -> NDArray[np.int64]:
        """The rows that the truth names, as rows of this corpus; -1 for padding, -2 for unknown ids."""
        rows = self.truth.rows
        if self.truth.row_ids is None:
            return np.where(rows >= self.dataset.corpus.rows, -2, rows)
        named = self.truth.ids_of(rows[rows >= 0])
        found = np.full(rows.shape, -1, np.int64)
        places = _places(named, self.dataset.corpus.ids)
        found[rows >= 0] = np.where(places < 0, -2, places)
        return found

    def query(self, number: int, place: int) -> Iterator[Wrong]:
        """Everything wrong with one query of the truth, which is the query `place` of the data."""
        blocks = self._tie_blocks(place)
        seen: set[int] = set()
        before = -1
        kept = min(self.truth.depth, int(self.dataset.eligibility.counts[place]))
        for rank, row in enumerate(self.rows[number].tolist()):
            fault = self._fault(place, row, rank, kept, blocks, seen)
            if fault is None and row >= 0:
                if blocks[row] < before:
                    fault = Fault.OUT_OF_ORDER
                before = blocks[row]
            if fault is None and row >= 0:
                fault = self._differs(number, place, rank, row)
            if row >= 0:
                seen.add(row)
            if fault is not None:
                yield self._wrong(number, place, rank, row, fault)
        for fault in self._faults_beyond(number, place):
            yield self._wrong(number, place, self.truth.depth, -1, fault)

    def _faults_beyond(self, number: int, place: int) -> Iterator[Fault]:
        """What our own file says otherwise than is so of the query as a whole."""
        truth = self.truth
        if truth.origin is not Origin.COMPUTED:
            return
        if truth.eligible is not None and truth.eligible[number] != self.dataset.eligibility.counts[place]:
            yield Fault.ELIGIBLE
        said = [] if truth.overflow is None else self._overflow_rows[number]
        real = self.beyond[self.offsets[place] : self.offsets[place + 1]].tolist()
        count = len(said) if truth.tie_counts is None else int(truth.tie_counts[number])
        if said != real or count != int(self.real.tie_counts[place]):
            yield Fault.TIES

    @cached_property
    def _overflow_rows(self) -> list[list[int]]:
        """For each query of the truth, the rows of this corpus that it names beyond its depth."""
        none = np.zeros(len(self.truth) + 1, np.int64), np.empty(0, np.int64)
        offsets, rows = self.truth.overflow or none
        now = rows
        if self.truth.row_ids is not None:
            now = _places(self.truth.ids_of(rows), self.dataset.corpus.ids)
        return [part.tolist() for part in np.split(now, offsets[1:-1])]

    def _tie_blocks(self, place: int) -> dict[int, int]:
        """For each row among the best, the number of its tie block."""
        rows = self.real.rows[place]
        rows = rows[rows >= 0]
        numbers = np.cumsum(~self.real.tied[place][: len(rows)])
        blocks = dict(zip(rows.tolist(), numbers.tolist(), strict=True))
        for row in self.beyond[self.offsets[place] : self.offsets[place + 1]].tolist():
            blocks[row] = int(numbers[-1])
        return blocks

    def _fault(
        self, place: int, row: int, rank: int, kept: int, blocks: dict[int, int], seen: set[int]
    ) -> Fault | None:
        if row == -1:
            return Fault.MISSING if rank < kept else None
        if row < 0:
            return Fault.UNKNOWN
        if row in seen:
            return Fault.REPEATED
        if not self.dataset.eligibility.allowed(np.asarray([place]), np.asarray([row]))[0]:
            return Fault.INELIGIBLE
        if row not in blocks and not self._ties_unlisted(place, row, blocks):
            return Fault.NOT_AMONG_BEST
        return None

    def _ties_unlisted(self, place: int, row: int, blocks: dict[int, int]) -> bool:
        """Whether the row is one of more ties than are listed."""
        listed = self.offsets[place + 1] - self.offsets[place]
        if self.real.tie_counts[place] <= listed:
            return False
        last = int(self.real.rows[place, -1])
        pair = self.search.reader.rows(np.asarray(sorted([row, last])))
        ranks = exact_ranks(self.dataset.metric, self.search.queries[place], pair)
        if ranks[0] != ranks[1]:
            return False
        blocks[row] = blocks[last]
        return True

    def _differs(self, number: int, place: int, rank: int, row: int) -> Fault | None:
        """Whether our own file says anything else of this neighbour than is so."""
        if self.truth.origin is not Origin.COMPUTED or self.truth.scores is None:
            return None
        if self.real.rows[place, rank] != row:
            # A tie in another order: its score is the same only in exact arithmetic.
            return Fault.OUT_OF_ORDER
        if self.truth.scores[number, rank] != self.real.scores[place, rank]:
            return Fault.SCORE
        if self.truth.tied is not None and self.truth.tied[number, rank] != self.real.tied[place, rank]:
            return Fault.TIES
        return None

    def _wrong(self, number: int, place: int, rank: int, row: int, fault: Fault) -> Wrong:
        ids = self.truth.query_ids
        query = number if ids is None else ids[number].as_py()
        if row < 0:
            return Wrong(query, rank + 1, None, fault, None, None)
        vectors = self.search.queries[place : place + 1]
        pair = self.search.scored(vectors, np.zeros(1, np.int64), np.asarray([row]))
        score = float(pair.scores[0])
        scores = self.real.scores[place]
        worst = scores[~np.isnan(scores)]
        sign = 1.0 if self.dataset.metric is Metric.L2 else -1.0
        gap = max(0.0, float(sign * (score - worst[-1]))) if len(worst) else None
        return Wrong(query, rank + 1, self.ids[row].as_py(), fault, score, gap)
