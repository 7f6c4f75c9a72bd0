"""The search for the exact top rows: ever more precise sweeps, each over the queries still without proof."""

from __future__ import annotations

import sys
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from recallatk.core import Dataset, Metric
from recallatk.pair_scores import require_range, smallest_size
from recallatk.truths.backends import (
    BLAS,
    INT8,
    PILOT_QUERIES,
    PILOT_ROWS,
    Backend,
    fixed_backend,
    int8_cost,
    may_pay,
)
from recallatk.truths.corpus_reader import Reader
from recallatk.truths.decision import DecidedRows, Pairs, decide
from recallatk.truths.memory_plan import MemoryPlan, batches, heavy_queries
from recallatk.truths.rescoring import rescored
from recallatk.truths.results import Results
from recallatk.truths.scanner_blas import PrefixScanner
from recallatk.truths.space import (
    FLOAT32,
    FLOAT64,
    SAMPLE,
    Precision,
    RotatedSpace,
    Rotation,
    Space,
    centre_of,
    find_rotation,
    is_worth_looking,
)
from recallatk.truths.sweep import Candidates, OutOfRange, Sweep

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from numpy.typing import NDArray
    from threadpoolctl import ThreadpoolController

    from recallatk.filters.eligibility import Eligibility
    from recallatk.truths.checkpoint import Checkpoint

    Progress = Callable[[int, int], None]

# Pairs worth more than one thread.
_MANY_PAIRS = 50_000
# An 8-bit scan has to promise this share of the time of a float32 scan.
_INT8_PAYS = 0.9
# What a scan of the other components takes, for each part of these, where some are left out at first.
_PREFIX_COST = 1.2
# The middle of the data is taken from its first rows; any point is right, only some are useless.
_CENTRE_ROWS = 4096
_UINT8_MIDDLE = 128


class _Stage(NamedTuple):
    """One way to sweep; a query for which it comes to nothing goes on to another."""

    precision: Precision
    capped: bool
    """Whether a query is given up at too many candidates."""
    guesses: bool = False
    """Whether thresholds are guessed, where that can be done."""


_STAGES = (_Stage(FLOAT32, True, True), _Stage(FLOAT32, True), _Stage(FLOAT64, True), _Stage(FLOAT64, False))


class ExactSearch:
    """One computation of truth, which can be put down and taken up again between two blocks."""

    def __init__(
        self,
        dataset: Dataset,
        depth: int,
        plan: MemoryPlan,
        *,
        threads: int,
        backend: str,
        device: str | None = None,
        progress: Progress | None = None,
        checkpoint: Checkpoint | None = None,
        eligibility: Eligibility | None = None,
        first_row: int = 0,
    ) -> None:
        self.dataset, self.depth, self.plan = dataset, depth, plan
        self.threads = plan.threads or threads
        self.backend = fixed_backend(backend, device)
        self.progress, self.checkpoint = progress, checkpoint
        self.metric = dataset.metric
        self.eligibility = dataset.eligibility if eligibility is None else eligibility
        self.queries = np.array(dataset.queries.vectors.read(0, dataset.queries.rows))
        require_range(self.queries, self.metric, dataset.queries.name)
        self.reader = Reader(
            dataset.corpus,
            dataset.metric,
            plan.block_rows,
            smallest_query=smallest_size(self.queries),
            first_row=first_row,
        )
        self.results = Results(dataset.queries.rows, depth)
        self.asked = np.empty(0, np.int64)
        self.todo: deque[tuple[int, NDArray[np.int64]]] = deque()
        self.done_pairs = self.all_pairs = 0

    def run(self, which: NDArray[np.int64] | None = None) -> Results:
        """Find and prove the best rows of every query, or of some."""
        which = np.arange(len(self.queries)) if which is None else which
        step = self.plan.group_queries
        self._plan_work(0, [which[first : first + step] for first in range(0, len(which), step)])
        self.asked = which
        resumed = self._resume()
        while self.todo:
            stage, group = self.todo.popleft()
            candidates = self._swept(stage, group, resumed)
            resumed = None
            self._conclude(stage, group, candidates)
        return self.results

    def _plan_work(self, stage: int, groups: list[NDArray[np.int64]]) -> None:
        self.todo.extendleft((stage, group) for group in reversed(groups))
        self.all_pairs += sum(len(group) for group in groups) * self.dataset.corpus.rows

    def _swept(
        self, stage: int, group: NDArray[np.int64], resumed: Mapping[str, NDArray[Any]] | None
    ) -> Candidates:
        """One sweep, from where a checkpoint left it."""
        first = 0
        try:
            with self.few_threads(self.threads):
                # Threads of BLAS would wait for the core on which a fingerprint is being taken.
                sweep = self._sweep(stage, group)
            if resumed is not None:
                first = int(resumed["next_row"])
                sweep.restore({key[6:]: part for key, part in resumed.items() if key.startswith("sweep_")})
            with self.few_threads(len(sweep.workers)):
                for start, block in self.reader.blocks(first):
                    sweep.take(start, block)
                    self._report(len(group) * len(block))
                    self._save(stage, group, sweep, start + len(block))
        except OutOfRange:
            # The first stage that can hold the numbers is the one that counts.
            none, every = np.empty(0, np.int64), np.ones(len(group), bool)
            return Candidates(none, none, every, ~every)
        found = sweep.candidates()
        if isinstance(sweep.space, RotatedSpace):
            # Turned scores are further from the real ones: others may need fewer candidates.
            found = found._replace(
                missed=found.missed | found.abandoned, abandoned=np.zeros(len(group), bool)
            )
        return found

    def _sweep(self, stage: int, group: NDArray[np.int64]) -> Sweep:
        precision, capped, guesses = _STAGES[stage]
        space = Space(self.metric, precision, self.queries.shape[1], self.centre)
        # One more than the depth: its score is the gap, and whether it ties is worth knowing.
        k = self.depth + 1
        backend = self._backend(space, group, k) if precision is FLOAT32 else BLAS
        rotation = self._rotation(space, group, k) if guesses and backend is BLAS else None
        if rotation is not None:
            space = RotatedSpace(space, rotation)
            backend = Backend(PrefixScanner)
        return Sweep(
            space,
            self.queries[group],
            self.eligibility.subset(group),
            k,
            backend.make,
            threads=1 if backend.alone else self.threads,
            most=8 * k + 256 if capped else None,
            floors=self._floors(space, group),
            guesses=guesses and self.reader.is_whole,
        )

    def _backend(self, space: Space, group: NDArray[np.int64], k: int) -> Backend:
        """The kernel that was asked for, or the one that pays."""
        if self.backend is None:
            self.backend = INT8 if self._int8_pays(space, group, k) else BLAS
        return self.backend

    def _int8_pays(self, space: Space, group: NDArray[np.int64], k: int) -> bool:
        pairs, rows = self._pairs(group), self.dataset.corpus.rows
        if not may_pay(pairs[0] * pairs[1], space.dimension):
            return False
        random = np.random.default_rng(0)
        asked = np.sort(random.permutation(len(group))[:PILOT_QUERIES])
        # Rows that are not in memory are read in a row.
        some = random.permutation(rows) if self.reader.is_whole else np.arange(rows)
        found = self.reader.rows(np.sort(some[:PILOT_ROWS]))
        cost = int8_cost(space, found, self.queries[group[asked]], k, pairs)
        if cost >= _INT8_PAYS:
            return False
        rotation = self._rotation(space, group, k)
        return rotation is None or cost < _PREFIX_COST * (1 - rotation.lead / space.dimension)

    def _floors(self, space: Space, group: NDArray[np.int64]) -> NDArray[np.float64] | None:
        """Scan scores that enough rows are known to reach before the sweep; None where nothing is known."""
        return None

    def _rotation(self, space: Space, group: NDArray[np.int64], k: int) -> Rotation | None:
        """A cheaper way to multiply, for many queries with all rows of a corpus in memory."""
        queries, rows = self._pairs(group)
        if not self.reader.is_whole or not is_worth_looking(space.dimension, queries, rows):
            return None
        if any(batch.members is not None for batch in batches(self.eligibility.subset(group))):
            return None
        random = np.random.default_rng(0)
        counts = (self.dataset.corpus.rows, len(group))
        some, asked = (np.sort(random.permutation(count)[:SAMPLE]) for count in counts)
        return find_rotation(space, self.reader.rows(some), self.queries[group[asked]], k, (queries, rows))

    def _pairs(self, group: NDArray[np.int64]) -> tuple[int, int]:
        """How many queries and rows a rotation has to pay for."""
        return len(group), self.dataset.corpus.rows

    @cached_property
    def centre(self) -> NDArray[np.float32] | None:
        """A point amid the corpus, where one is of use."""
        if self.metric is not Metric.L2:
            return None
        dtype = self.dataset.corpus.vectors.dtype
        if dtype == self.queries.dtype and dtype.kind in "iu":
            # Whole numbers of 8 bits and a sign are what the 8-bit scan multiplies without a residual.
            middle = np.float32(_UINT8_MIDDLE)
            return np.full(self.queries.shape[1], middle) if dtype == np.uint8 else None
        rows = min(_CENTRE_ROWS, self.dataset.corpus.rows)
        return centre_of(self.reader.rows(np.arange(rows)))

    @contextmanager
    def few_threads(self, workers: int) -> Iterator[None]:
        """Where our own threads share the cores, BLAS must not start more of them."""
        limits = {"blas": max(1, self.threads // workers), "openmp": self.threads}
        with _thread_pools(len(sys.modules)).limit(limits=limits):
            yield

    def _conclude(self, stage: int, group: NDArray[np.int64], candidates: Candidates) -> None:
        proven = ~(candidates.abandoned | candidates.missed)
        if proven.any():
            self.prove(group, candidates, proven)
        self._plan_again(1, group[candidates.missed])
        # Too many candidates with guesses are too many without.
        self._plan_again(max(stage, 1) + 1, group[candidates.abandoned])

    def _plan_again(self, stage: int, left: NDArray[np.int64]) -> None:
        if not len(left):
            return
        step = len(left)
        if not _STAGES[stage].capped:
            step = heavy_queries(self.plan.group_queries, self.dataset.corpus.rows)
        self._plan_work(stage, [left[first : first + step] for first in range(0, len(left), step)])

    def prove(self, group: NDArray[np.int64], candidates: Candidates, proven: NDArray[np.bool_]) -> None:
        """Decide the proven queries of a group from their candidates, and keep the results."""
        pairs = self.scored(self.queries[group], candidates.queries, candidates.rows)

        def settle(part: NDArray[np.int64]) -> tuple[NDArray[np.int64], DecidedRows]:
            vectors, mine = self.queries[group[part]], pairs.of(int(part[0]), int(part[-1]) + 1)
            return part, decide(self.metric, vectors, mine, self.depth, self.reader.rows)

        # Rows that are not in memory are read by one thread at a time, and few need no more.
        several = self.reader.is_whole and len(pairs.rows) >= _MANY_PAIRS
        parts = np.array_split(np.arange(len(group)), min(len(group), self.threads if several else 1))
        with ThreadPoolExecutor(len(parts)) as pool:
            for part, verdict in pool.map(settle, parts) if several else map(settle, parts):
                self.results.put(group[part], proven[part], verdict)

    def scored(self, vectors: NDArray[Any], queries: NDArray[np.int64], rows: NDArray[np.int64]) -> Pairs:
        """Pairs of a query, by its place among `vectors`, and a row, with their float64 scores."""
        scores, tolerances = rescored(self.reader, vectors, queries, rows, threads=self.threads)
        return Pairs(queries, rows, scores, tolerances)

    def _report(self, pairs: int) -> None:
        self.done_pairs += pairs
        if self.progress is not None:
            self.progress(self.done_pairs, self.all_pairs)

    def _save(self, stage: int, group: NDArray[np.int64], sweep: Sweep, next_row: int) -> None:
        if self.checkpoint is not None:
            self.checkpoint.offer(lambda: self._state(stage, group, sweep, next_row))

    def _state(
        self, stage: int, group: NDArray[np.int64], sweep: Sweep, next_row: int
    ) -> dict[str, NDArray[Any]]:
        todo = [(stage, group), *self.todo]
        return {
            "asked": self.asked,
            "next_row": np.asarray(next_row),
            "pairs": np.asarray([self.done_pairs, self.all_pairs]),
            "todo_stages": np.asarray([stage for stage, _ in todo]),
            "todo_lengths": np.asarray([len(group) for _, group in todo]),
            "todo_queries": np.concatenate([group for _, group in todo]),
            **{f"sweep_{key}": part for key, part in sweep.state().items()},
            **{f"result_{key}": part for key, part in self.results.state().items()},
        }

    def forget(self) -> None:
        """The result is kept elsewhere: the checkpoint is of no more use."""
        if self.checkpoint is not None:
            self.checkpoint.clear()

    def _resume(self) -> Mapping[str, NDArray[Any]] | None:
        state = None if self.checkpoint is None else self.checkpoint.load()
        if state is None or not np.array_equal(state["asked"], self.asked):
            return None
        self.done_pairs, self.all_pairs = state["pairs"].tolist()
        groups = np.split(state["todo_queries"], np.cumsum(state["todo_lengths"])[:-1])
        self.todo = deque(zip(state["todo_stages"].tolist(), groups, strict=True))
        self.results.restore({key[7:]: part for key, part in state.items() if key.startswith("result_")})
        return state


@lru_cache(maxsize=1)
def _thread_pools(_modules: int) -> ThreadpoolController:
    """The thread pools of this process, looked for again only once more modules may have brought more."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
