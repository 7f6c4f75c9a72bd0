"""A truth computed on Ray: the driver hands out shards, passes thresholds on and certifies at the end."""

from __future__ import annotations

import statistics
import time
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.errors import RecallError, UsageError
from recallatk.pair_scores import require_range, smallest_size
from recallatk.truths import ray_tasks
from recallatk.truths.candidates import certify
from recallatk.truths.corpus_reader import Reader
from recallatk.truths.ray_cluster import RayCluster, RayConnection, connected, require_ready
from recallatk.truths.ray_tasks import ShardTask, TaskReport
from recallatk.truths.results import Results
from recallatk.truths.shard_scan import ShardWork, sliced
from recallatk.units import mebibytes

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from recallatk.core import Corpus, Dataset
    from recallatk.truths.search import Progress
    from recallatk.truths.shard_checkpoints import ShardCheckpoints
    from recallatk.truths.shard_plan import ShardPlan

# Rows in doubt are few and far apart: what is read around each should be little.
_FETCH_BYTES = 1 << 20
# How often the driver looks for stragglers, and what makes one: so many times the usual duration.
_LOOK_SECONDS, _POLL_SECONDS = 1.0, 0.02
_STRAGGLER_SECONDS, _STRAGGLER_RATIO = 20.0, 3.0
_FAN_IN = 2


@dataclass(eq=False)
class _RayTask:
    """A task under way."""

    group: int
    result: Any
    """Reference to its candidates."""
    report: Any
    shard: int | None = None
    """Number of its shard; None for a merge."""
    level: int = 0
    """Merges that its candidates have behind them."""
    started: float = field(default_factory=time.monotonic)


@dataclass(eq=False)
class _QueryGroup:
    """What is known of one group of queries."""

    which: NDArray[np.int64]
    work: Any
    """Reference to the queries."""
    floors: NDArray[np.float64]
    left: int
    """Shards that are not finished."""
    levels: list[list[Any]] = field(default_factory=list)
    """References to candidates by how many merges they have behind them."""
    merges: int = 0
    """Merges under way."""


@dataclass(eq=False)
class TaskTally:
    """What the tasks of a computation took."""

    scans: list[TaskReport] = field(default_factory=list)
    merges: list[TaskReport] = field(default_factory=list)
    doubled: int = 0
    """Stragglers that were started a second time."""


class RaySearch:
    """One computation of truth on Ray; the same command resumes it where it has checkpoints."""

    def __init__(
        self,
        dataset: Dataset,
        depth: int,
        cuts: ShardPlan,
        cluster: RayCluster,
        *,
        memory: int,
        threads: int,
        kernel: tuple[str, str | None],
        prints: list[str],
        progress: Progress | None = None,
        checkpoints: ShardCheckpoints | None = None,
    ) -> None:
        self.dataset, self.depth, self.cuts, self.cluster = dataset, depth, cuts, cluster
        self.memory, self.threads, self.kernel = memory, threads, kernel
        self.prints, self.progress, self.checkpoints = prints, progress, checkpoints
        self.reopen = require_reopening(dataset.corpus)
        self.queries = np.array(dataset.queries.vectors.read(0, dataset.queries.rows))
        require_range(self.queries, dataset.metric, dataset.queries.name)
        self.results = Results(dataset.queries.rows, depth)
        self.tally = TaskTally()
        self.waiting: deque[tuple[int, int]] = deque()
        self.running: dict[Any, _RayTask] = {}
        self.done: set[tuple[int, int]] = set()
        self.done_pairs = 0
        self.ray: Any = None

    def run(self) -> Results:
        """Find and prove the best rows of every query."""
        with connected(self.cluster, self.threads, self.memory) as connection:
            require_ready(connection, self.reopen, self.dataset.corpus)
            try:
                self._compute(connection)
            except BaseException:
                for task in self.running.values():
                    connection.ray.cancel(task.report, force=True)
                raise
        return self.results

    def forget(self) -> None:
        """The result is kept elsewhere: the checkpoints are of no more use."""
        if self.checkpoints is not None:
            self.checkpoints.clear()

    def _compute(self, connection: RayConnection) -> None:
        ray = self.ray = connection.ray
        self.scan = ray.remote(ray_tasks.scan).options(**ray_tasks.scan_options(self.memory))
        self.merge = ray.remote(ray_tasks.merge).options(**ray_tasks.merge_options(self.memory))
        self.groups = [self._group(first, stop) for first, stop in self.cuts.groups]
        self.waiting = deque(
            (group, shard) for group in range(len(self.groups)) for shard in range(len(self.cuts.shards))
        )
        while self.waiting or self.running:
            while self.waiting and len(self.running) < connection.slots:
                self._start(*self.waiting.popleft())
            for report in self._ready():
                self._finish(self.running.pop(report))
            if not self.waiting:
                self._double_stragglers()
        self._certify()

    def _ready(self) -> list[Any]:
        """Reports of tasks that ended; none if a while passes without."""
        for _ in range(max(1, int(_LOOK_SECONDS / _POLL_SECONDS))):
            ready, _ = self.ray.wait(list(self.running), num_returns=1, timeout=0)
            if ready:
                return list(ready)
            # Not inside Ray, which would turn any signal into exit code 1.
            time.sleep(_POLL_SECONDS)
        return []

    def _group(self, first: int, stop: int) -> _QueryGroup:
        which = np.arange(first, stop)
        work = ShardWork(self.queries[first:stop], self.dataset.metric, self.depth, self.kernel, self.memory)
        return _QueryGroup(which, self.ray.put(work), np.full(len(which), -np.inf), len(self.cuts.shards))

    def _eligible(self, group: int, shard: int) -> Any:
        """A reference to which rows of a shard the queries of a group may return; None if all.

        It is made when the shard is started: those of all shards would not fit into the object store.
        """
        every = self.dataset.eligibility
        if every.own_rows is None and all(each is None for each in every.sets):
            return None
        return self.ray.put(sliced(every.subset(self.groups[group].which), *self.cuts.shards[shard]))

    def _start(self, group: int, number: int) -> None:
        start, stop = self.cuts.shards[number]
        shard = ShardTask(number, group, start, stop, self.reopen, self.prints[number], self.checkpoints)
        asked = self.groups[group]
        result, report = self.scan.remote(shard, asked.work, self._eligible(group, number), asked.floors)
        self.running[report] = _RayTask(group, result, report, number)

    def _finish(self, task: _RayTask) -> None:
        group = self.groups[task.group]
        try:
            finished = self._report(task)
        except UsageError:
            if self._other_attempts(task):
                return
            raise
        if isinstance(finished, RecallError):
            raise finished
        if task.shard is None:
            self.tally.merges.append(finished)
            group.merges -= 1
        elif (task.group, task.shard) in self.done:
            # The other of two attempts was faster.
            return
        else:
            self._count(task, finished)
            group.left -= 1
        group.floors = np.maximum(group.floors, finished.floors)
        self._collect(task.group, task.result, task.level)

    def _report(self, task: _RayTask) -> TaskReport | RecallError:
        errors = self.ray.exceptions
        where = "a merge" if task.shard is None else "rows {:,} to {:,}".format(*self.cuts.shards[task.shard])
        try:
            found: TaskReport | RecallError = self.ray.get(task.report)
        except errors.OutOfMemoryError as problem:
            raise self._out_of_memory(where) from problem
        except errors.RayTaskError as problem:
            if isinstance(problem.cause, MemoryError):
                raise self._out_of_memory(where) from problem
            if isinstance(problem.cause, OSError):
                raise UsageError(f"{problem.cause} (tried {ray_tasks.RETRIES + 1} times)") from problem
            raise
        except errors.RayError as problem:
            said = " ".join(str(problem).split())[:200]
            raise UsageError(
                f"Ray gave up on {where} after {ray_tasks.RETRIES + 1} attempts: {said}. {self._resumable()}"
            ) from problem
        return found

    def _out_of_memory(self, where: str) -> UsageError:
        return UsageError(
            f"a worker ran out of memory at {where}; each task may use {mebibytes(self.memory, 0)} and asked "
            f"Ray for as much. Lower --memory, or give the nodes more. {self._resumable()}"
        )

    def _resumable(self) -> str:
        return "" if self.checkpoints is None else "finished shards are saved: the same command resumes"

    def _count(self, task: _RayTask, finished: TaskReport) -> None:
        """Take in a finished shard, and stop the other attempt at it, if there is one."""
        group, number = task.group, task.shard
        self.done.add((group, number or 0))
        self.tally.scans.append(finished)
        for other in self._other_attempts(task):
            self.ray.cancel(other.report, force=True)
            del self.running[other.report]
        start, stop = self.cuts.shards[number or 0]
        self.done_pairs += len(self.groups[group].which) * (stop - start)
        if self.progress is not None:
            self.progress(self.done_pairs, self.dataset.corpus.rows * self.dataset.queries.rows)

    def _other_attempts(self, task: _RayTask) -> list[_RayTask]:
        if task.shard is None:
            return []
        same = (task.group, task.shard)
        return [each for each in self.running.values() if (each.group, each.shard) == same]

    def _collect(self, number: int, result: Any, level: int) -> None:
        """Put candidates into the tree of merges; whatever is left once all shards are in is merged last."""
        group = self.groups[number]
        while len(group.levels) <= level:
            group.levels.append([])
        group.levels[level].append(result)
        together = group.levels[level]
        if not group.left and not group.merges:
            together = [each for part in group.levels for each in part]
            if len(together) == 1:
                return
            group.levels = []
        elif len(together) == _FAN_IN:
            group.levels[level] = []
        else:
            return
        merged, report = self.merge.remote(self.dataset.metric, self.depth + 1, *together)
        self.running[report] = _RayTask(number, merged, report, level=level + 1)
        group.merges += 1

    def _double_stragglers(self) -> None:
        """Start again, on another node if there is one, what takes far longer than the others did."""
        if not self.tally.scans:
            return
        usual = statistics.median(each.seconds for each in self.tally.scans)
        longest = max(_STRAGGLER_SECONDS, _STRAGGLER_RATIO * usual)
        scans = [task for task in self.running.values() if task.shard is not None]
        for task in scans:
            same = sum((each.group, each.shard) == (task.group, task.shard) for each in scans)
            if same == 1 and time.monotonic() - task.started > longest:
                self._start(task.group, task.shard or 0)
                self.tally.doubled += 1

    def _certify(self) -> None:
        """Decide every query; only the driver sees all of its candidates."""
        corpus = self.dataset.corpus
        step = max(1, _FETCH_BYTES // (corpus.dimension * corpus.vectors.dtype.itemsize))
        reader = Reader(corpus, self.dataset.metric, step, smallest_query=smallest_size(self.queries))
        for group in self.groups:
            [last] = [each for part in group.levels for each in part]
            certify(self.results, self.ray.get(last), self.queries, group.which, reader, self.threads)
            group.levels = []


def require_reopening(corpus: Corpus) -> Callable[[], Corpus]:
    """How workers open the corpus; refuses one that only this process has."""
    reopen: Callable[[], Corpus] | None = getattr(corpus.vectors, "reopen", None)
    if reopen is None:
        raise UsageError(
            f"{corpus.name}: workers cannot read a corpus in memory or a sample. Write it to a file that "
            "they reach, such as Parquet or .npy, and pass its path"
        )
    return reopen
