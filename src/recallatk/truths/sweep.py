"""One sweep of some queries over the corpus: tiles, threads, and thresholds that rise as it goes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from recallatk.truths.memory_plan import Batch, batches
from recallatk.truths.scanner import Asked, Eligible, MakeScanner, Scanner
from recallatk.truths.scanner_blas import BATCH_QUERIES
from recallatk.truths.thresholds import Survivors, guessed_rank

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from recallatk.filters.eligibility import Eligibility
    from recallatk.filters.lookup import RowSet
    from recallatk.truths.space import Space

_SMALL_TILE = 256
_SMALL_PRIMES = (2, 3, 5, 7, 11, 13)
# How many times the error of a score a guess stays below it: rows that tie must not make it too high.
_GUESS_ERRORS = 4


class OutOfRange(Exception):  # noqa: N818 - it is no error, only a reason to try another precision
    """Numbers that the space's floating-point type cannot hold."""


@dataclass(eq=False)
class _Worker:
    """What one thread works with."""

    scanner: Scanner
    tile: NDArray[Any]
    queries: dict[int, NDArray[Any]] = field(default_factory=dict)
    """Its own copy of each batch's."""


class Candidates(NamedTuple):
    """Every pair that may be among the best, and what became of each query."""

    queries: NDArray[np.int64]
    rows: NDArray[np.int64]
    abandoned: NDArray[np.bool_]
    """Queries with too many candidates, all of which were dropped."""
    missed: NDArray[np.bool_]
    """Queries whose guessed threshold was too high; their candidates were dropped too."""


class Sweep:
    """Candidates for the best k of some queries, such that no row outside them can be among these."""

    def __init__(
        self,
        space: Space,
        queries: NDArray[Any],
        eligibility: Eligibility,
        k: int,
        make_scanner: MakeScanner,
        *,
        threads: int = 1,
        most: int | None = None,
        floors: NDArray[np.float64] | None = None,
        guesses: bool = False,
    ) -> None:
        self.space, self.k, self.most = space, k, most
        self.eligibility = eligibility
        prepared, self.query_norms = space.queries(queries)
        if not space.is_safe(float(self.query_norms.max(initial=0.0))):
            raise OutOfRange
        # Scan scores that k rows are known to reach; usually nothing is known at first.
        self.proven = np.full(len(queries), -np.inf)
        if floors is not None:
            # Below what safe norms can reach, a floor rules nothing out, and the scan's type may not hold it.
            lowest = -2 * space.precision.largest_norm**2
            self.proven = np.where(floors < lowest, -np.inf, floors)
        # Those that rows are measured by: the same, or guesses.
        self.floors = self.proven.copy()
        self.guesses = guesses
        # The widest bound that a scanner stated for the scores of each query.
        self.errors = np.zeros(len(queries))
        self.abandoned = np.zeros(len(queries), bool)
        largest = min(BATCH_QUERIES, max(1, len(queries)))
        self.workers = [self._worker(make_scanner(space, largest)) for _ in range(threads)]
        self.batches = batches(eligibility, always_gather=self.workers[0].scanner.gathers)
        self.prepared = [prepared[batch.places] for batch in self.batches]
        # One table for all threads, because thresholds rise with what all of them have seen.
        self.held: dict[int, Survivors] = {}
        self.seen = np.zeros(len(self.batches), np.int64)
        self.next_guess = np.zeros(len(self.batches))
        self.locks = [Lock() for _ in self.batches]

    def _worker(self, scanner: Scanner) -> _Worker:
        shape = (scanner.tile_rows, self.space.width + scanner.extra)
        return _Worker(scanner, np.ones(shape, self.space.precision.dtype))

    def take(self, start: int, block: NDArray[Any]) -> None:
        """Scan a block of the corpus whose first row has this number."""
        tasks = iter([*self._tile_tasks(start, block), *self._gather_tasks(start, block)])
        if len(self.workers) == 1:
            self._work(self.workers[0], tasks)
            return
        with ThreadPoolExecutor(len(self.workers)) as pool:
            # Taking the next task from a list iterator is atomic.
            jobs = [pool.submit(self._work, worker, tasks) for worker in self.workers]
            try:
                for job in jobs:
                    job.result()
            except BaseException:
                # Nobody will use this block: the other threads need not finish it either.
                for _ in tasks:
                    pass
                raise

    def _tile_tasks(self, start: int, block: NDArray[Any]) -> Iterable[_Task]:
        every = [number for number, batch in enumerate(self.batches) if batch.members is None]
        if not every:
            return
        # As many tiles as there are threads, unless they would be too small to be worth a thread.
        fewest = min(len(self.workers), -(-len(block) // _SMALL_TILE))
        count = max(fewest, -(-len(block) // self.workers[0].scanner.tile_rows))
        if count > _SMALL_PRIMES[-1]:
            # What comes round in a file, every tenth row say, should not come in a few tiles only.
            while any(count % prime == 0 for prime in _SMALL_PRIMES):
                count += 1
        for first in range(count):
            # Neighbors in a file are often alike; a tile with rows from all over the block sets better
            # thresholds, and allows better guesses, than one from its beginning.
            yield _Task(every, block, start, slice(first, None, count))

    def _gather_tasks(self, start: int, block: NDArray[Any]) -> Iterable[_Task]:
        for number, batch in enumerate(self.batches):
            if batch.members is not None:
                yield _Task([number], block, start, batch.members)

    def _work(self, worker: _Worker, tasks: Iterable[_Task]) -> None:
        for task in tasks:
            for vectors, rows in task.parts(worker.scanner.tile_rows):
                prepared = worker.tile[: len(vectors)]
                norm = self.space.rows(vectors, prepared[:, : self.space.width])
                if not self.space.is_safe(norm):
                    raise OutOfRange
                worker.scanner.enter(prepared)
                for number in task.batches:
                    self._scan(worker, number, prepared, rows, norm)

    def _scan(
        self, worker: _Worker, number: int, prepared: NDArray[Any], rows: NDArray[np.int64], norm: float
    ) -> None:
        batch = self.batches[number]
        which = batch.queries
        rank = self._rank(number, len(rows))
        asked = Asked(
            self._queries(worker, number),
            self.space.error(self.query_norms[which], norm),
            self.floors[which],
            rank,
            _GUESS_ERRORS if rank < self.k else 0,
            self._eligible(batch, rows),
        )
        hits = worker.scanner.hits(asked, prepared)
        with self.locks[number]:
            self.errors[which] = np.maximum(self.errors[which], hits.errors)
            fresh = asked.fresh
            if fresh.any():
                self._raise_floors(which[fresh], hits.floors[fresh], proven=rank == self.k)
            if number not in self.held:
                self.held[number] = self._survivors(len(which))
            held = self.held[number]
            held.add(hits.queries, rows[hits.columns], hits.scores)
            self.seen[number] += len(rows)
            if held.full:
                self._thin(number)
            elif self.guesses and self.seen[number] >= self.next_guess[number]:
                self._guess(number)

    def _rank(self, number: int, seen: int) -> int:
        """The rank among so many rows that stands for the k-th best of all."""
        guesses = self.guesses and self.batches[number].members is None
        return guessed_rank(self.k, seen / self.eligibility.corpus_rows) if guesses else self.k

    def _guess(self, number: int) -> None:
        """Raise the floors by what has been seen of the rows, whenever that is a quarter more."""
        self.next_guess[number] = 1.25 * self.seen[number]
        rank = self._rank(number, int(self.seen[number]))
        which = self.batches[number].queries
        errors = (1 + _GUESS_ERRORS) * self.errors[which]
        self._raise_floors(which, self.held[number].best(rank) - errors, proven=rank == self.k)

    def _survivors(self, queries: int) -> Survivors:
        row_dtype = np.dtype(np.int32 if self.eligibility.corpus_rows < 2**31 else np.int64)
        return Survivors(queries, self.k, self.space.precision.dtype, row_dtype)

    def _queries(self, worker: _Worker, number: int) -> NDArray[Any]:
        if number not in worker.queries:
            prepared = self.prepared[number]
            copy = np.empty((len(prepared), prepared.shape[1] + worker.scanner.extra), prepared.dtype)
            copy[:, : prepared.shape[1]] = prepared
            worker.queries[number] = copy
        return worker.queries[number]

    def _raise_floors(
        self, which: NDArray[np.int64], floors: NDArray[np.float64], *, proven: bool = True
    ) -> NDArray[np.float64]:
        if proven:
            self.proven[which] = np.maximum(self.proven[which], floors)
        floors = np.maximum(self.floors[which], floors)
        self.floors[which] = floors
        return floors

    def _eligible(self, batch: Batch, rows: NDArray[np.int64]) -> Eligible | None:
        barred = self.eligibility.own_rows is not None or (
            batch.members is None and any(each is not None for each in self.eligibility.sets)
        )
        return Eligible(self.eligibility, batch.queries, rows) if barred else None

    def _thin(self, number: int) -> None:
        """Raise the thresholds and drop candidates below them; give up queries with too many left."""
        held, which = self.held[number], self.batches[number].queries
        held.forget(self.abandoned[which])
        errors = self.errors[which]
        floors = self._raise_floors(which, held.best(self.k) - errors)
        held.thin(floors, errors)
        if self.most is not None:
            # A query is given up at a multiple of what the end allows, for thresholds still rise.
            over = held.counts > max(held.limit, 4 * self.most)
            if over.any():
                self.abandoned[which] |= over
                self.floors[which[over]] = np.inf
                held.forget(over)

    def _settle(self) -> None:
        """Thin everything once more, by all that is known now."""
        with ThreadPoolExecutor(len(self.workers)) as pool:
            list(pool.map(self._thin, self.held))

    def candidates(self) -> Candidates:
        """The end of the sweep."""
        self._settle()
        queries, rows, _ = self._entries()
        if self.most is not None:
            self.abandoned |= np.bincount(queries, minlength=len(self.floors)) > self.most
        missed = (self.floors > self.proven) & ~self.abandoned
        kept = ~(self.abandoned | missed)[queries]
        return Candidates(queries[kept], rows[kept], self.abandoned, missed)

    def _entries(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[Any]]:
        found = [(number, held.entries()) for number, held in sorted(self.held.items())]
        parts = [(self.batches[number].queries[entries[0]], *entries[1:]) for number, entries in found]
        none = (np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, self.space.precision.dtype))
        queries, rows, scores = (np.concatenate(part) for part in zip(none, *parts, strict=True))
        return queries, rows, scores

    def state(self) -> dict[str, NDArray[Any]]:
        """Everything that `restore` needs to go on from here."""
        self._settle()
        queries, rows, scores = self._entries()
        return {
            "queries": queries,
            "rows": rows,
            "scores": scores,
            "floors": self.floors,
            "proven": self.proven,
            "abandoned": self.abandoned,
            "errors": self.errors,
        }

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        """Go on from a state."""
        self.floors, self.abandoned = state["floors"].copy(), state["abandoned"].copy()
        # The scores that come with it may be from another space or scanner: their errors come too.
        self.proven, self.errors = state["proven"].copy(), state["errors"].copy()
        queries = state["queries"]
        batch_of, place_of = np.empty(len(self.floors), np.int64), np.empty(len(self.floors), np.int64)
        for number, batch in enumerate(self.batches):
            batch_of[batch.queries] = number
            place_of[batch.queries] = np.arange(len(batch.queries))
        for number, batch in enumerate(self.batches):
            mine = np.flatnonzero(batch_of[queries] == number)
            mine = mine[np.argsort(place_of[queries[mine]], kind="stable")]
            self.held[number] = self._survivors(len(batch.queries))
            self.held[number].add(place_of[queries[mine]], state["rows"][mine], state["scores"][mine])


class _Task(NamedTuple):
    """Some rows of a block for some batches."""

    batches: list[int]
    block: NDArray[Any]
    start: int
    """The number of its first row."""
    chosen: slice | RowSet

    def parts(self, most: int) -> Iterator[tuple[NDArray[Any], NDArray[np.int64]]]:
        """Vectors and their row numbers, in portions."""
        stop = self.start + len(self.block)
        if isinstance(self.chosen, slice):
            vectors = self.block[self.chosen]
            rows = self.start + np.arange(*self.chosen.indices(len(self.block)))
            for first in range(0, len(rows), most):
                yield vectors[first : first + most], rows[first : first + most]
            return
        places = self.chosen.between(self.start, stop)
        for first in range(0, len(places), most):
            part = places[first : first + most]
            yield self.block[part], part + self.start
