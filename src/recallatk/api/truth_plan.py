"""The plan of a ground truth: bytes, operations, memory, time and cost before anything is computed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from recallatk.analysis.betting import SequentialTest, SequentialVerdict, more_to_decide
from recallatk.analysis.cost import MachinePrice, parse_price
from recallatk.analysis.planning import queries_for
from recallatk.datasets import open_dataset
from recallatk.errors import UsageError
from recallatk.truths import pilot
from recallatk.truths.backends import require_backend
from recallatk.truths.compute import count_threads, require_depth
from recallatk.truths.memory_plan import plan_for
from recallatk.truths.shard_plan import PROCESS_BYTES, task_memory, tasks_for

if TYPE_CHECKING:
    import numpy as np

    from recallatk.core import Dataset, Metric
    from recallatk.filters import Filter
    from recallatk.truths.pilot import Pilot

SIZES = (1_000_000, 100_000_000, 1_000_000_000, 10_000_000_000)
# Spread of recall over queries: no distribution has more, and usual ones have about this.
_WORST_SPREAD, _USUAL_SPREAD = 0.5, 0.2
_USUAL_RECALL = 0.9
# Starting Ray, connecting to it and opening the corpus in its workers.
_START_SECONDS = 8.0
# The order and the certificates, which the driver decides alone, as a share of what a query costs.
_CERTIFYING = 0.3


@dataclass(frozen=True)
class PlanLine:
    """What the truth of the same queries takes on a corpus of some size."""

    rows: int
    corpus_bytes: int
    read_bytes: int
    """Read by this machine: once for the fingerprint, and again for what memory cannot hold."""
    operations: float
    memory_bytes: int
    seconds: float
    """Predicted on this machine."""
    cost: float | None
    worker_memory_bytes: int
    worker_seconds: float
    """Predicted on the workers."""
    worker_cost: float | None
    tasks: int


@dataclass(frozen=True)
class EnoughQueries:
    """How many queries a precision needs."""

    precision: float
    at_most: int
    """Whatever the distribution of recall."""
    usual: int
    """With a standard deviation of 0.2 over queries."""
    sequential: int | None
    """Median until a sequential test tells a recall from a target this far below it; None if over 20,000."""


@dataclass(frozen=True)
class TruthPlan:
    """Bytes, operations, memory, time and cost of a truth, for the data at hand and for larger corpora."""

    name: str
    dimension: int
    dtype: str
    queries: int
    depth: int
    metric: str
    threads: int
    workers: int
    price: MachinePrice | None
    lines: tuple[PlanLine, ...]
    """The data at hand first."""
    enough: EnoughQueries

    def to_dict(self) -> dict[str, Any]:
        """The plan as plain values."""
        from dataclasses import asdict

        return asdict(self)


def plan_truth(
    dataset: Any,
    queries: Any = None,
    *,
    metric: Metric | str | None = None,
    where: Filter | str | None = None,
    depth: int = 100,
    workers: int = 1,
    price: str | None = None,
    precision: float = 0.01,
    memory: int | str | None = None,
    threads: int | None = None,
    backend: str = "auto",
    device: str | None = None,
) -> TruthPlan:
    """What a ground truth would take, from a pilot of a few seconds; nothing is stored.

    Filters are ignored: they make a truth cheaper.

    Args:
        dataset: a dataset, or a corpus in any form that `open_dataset` takes.
        queries: the queries in any form, if the first argument is a corpus.
        metric: cosine, ip or l2. Required unless the data state it.
        where: one filter for all queries.
        depth: number of rows to keep per query.
        workers: number of Ray workers with one core each.
        price: price of this machine, and of one worker, such as `0.5/h`; adds costs.
        precision: half-width of the interval of recall that is wanted.
        memory: memory budget, in bytes or as text such as `1GiB`.
        threads: number of threads; all cores by default.
        backend: compute backend: `auto`, `blas` (NumPy's), `faiss`, `int8` (8-bit products) or `jax`.
        device: `cpu`, or `gpu` or `tpu` through JAX.
    """
    require_depth(depth)
    require_backend(backend, device)
    if isinstance(workers, bool) or workers < 1:
        raise UsageError(f"{workers} workers. Accepted: whole numbers from 1")
    if not 0 < precision < 1:
        raise UsageError(f"a precision of {precision}. Accepted: more than 0 and less than 1, such as 0.01")
    cost = None if price is None else parse_price(price)
    data: Dataset = open_dataset(dataset, queries, metric=metric, where=where)
    cores = count_threads(threads)
    measured = pilot.measure(data, depth, cores, (backend, device))
    model = _CostModel(data, depth, measured, workers, cost, memory)
    return TruthPlan(
        data.corpus.name,
        data.corpus.dimension,
        data.corpus.vectors.dtype.name,
        data.queries.rows,
        depth,
        str(data.metric),
        cores,
        workers,
        cost,
        tuple(model.line(rows) for rows in (data.corpus.rows, *SIZES)),
        _enough(precision),
    )


@dataclass(frozen=True, eq=False)
class _CostModel:
    """Time as a linear function of rows and batches of queries, whose coefficients the pilot measured."""

    data: Dataset
    depth: int
    pilot: Pilot
    workers: int
    price: MachinePrice | None
    memory: int | str | None

    def line(self, rows: int) -> PlanLine:
        corpus, queries = self.data.corpus, self.data.queries.rows
        itemsize = corpus.vectors.dtype.itemsize
        size = rows * corpus.dimension * itemsize
        planned = plan_for(
            (rows, corpus.dimension), itemsize, queries, self.depth, self.memory, self.pilot.threads
        )
        groups = -(-queries // planned.group_queries)
        # A corpus that does not fit is read for every group of queries, and once more for its scores.
        read = size * (1 if planned.block_rows == rows else 1 + 2 * groups)
        batches = queries / self.pilot.queries
        seconds = read * self.pilot.byte_seconds + self.pilot.looking_seconds
        seconds += batches * (rows * self.pilot.row_seconds + self.pilot.batch_seconds)
        blocks = min(rows, (1 if planned.block_rows == rows else 2) * planned.block_rows)
        memory = planned.other_bytes + blocks * corpus.dimension * itemsize
        task = task_memory(self.memory)
        shards, many = tasks_for((rows, corpus.dimension), itemsize, queries, self.depth, task, self.workers)
        apart = self._on_workers(rows, size, batches, shards, many)
        return PlanLine(
            rows,
            size,
            read,
            2.0 * rows * queries * corpus.dimension,
            int(memory),
            seconds,
            self._cost(seconds, 1),
            task + PROCESS_BYTES,
            apart,
            self._cost(apart, self.workers),
            shards * many,
        )

    def _on_workers(self, rows: int, size: int, batches: float, shards: int, groups: int) -> float:
        """The driver reads everything once for the fingerprint; workers read, scan, score and merge."""
        used = min(self.workers, shards * groups)
        core = batches * self.pilot.threads
        # Every first shard keeps the best of its own; later ones know thresholds.
        kept = used + math.log(max(1.0, shards / used))
        working = size * groups * self.pilot.byte_seconds + core * rows * self.pilot.row_seconds
        working += core * self.pilot.batch_seconds * kept
        working += batches * self.pilot.merge_seconds * (shards - 1)
        driver = size * self.pilot.byte_seconds + batches * self.pilot.batch_seconds * _CERTIFYING
        return _START_SECONDS + driver + working / used

    def _cost(self, seconds: float, machines: int) -> float | None:
        return None if self.price is None else self.price.per_hour * seconds / 3600 * machines


def _enough(precision: float) -> EnoughQueries:
    at_most, usual = (queries_for(precision, spread) for spread in (_WORST_SPREAD, _USUAL_SPREAD))
    mean = min(_USUAL_RECALL + precision, 1 - 1e-9)
    # A beta distribution of this mean and spread, as recalls of single queries are distributed.
    total = max(1e-3, mean * (1 - mean) / _USUAL_SPREAD**2 - 1)

    def advance(test: SequentialTest, random: np.random.Generator) -> SequentialVerdict:
        return test.update(random.beta(mean * total, (1 - mean) * total, 64))

    sequential = more_to_decide(SequentialTest(_USUAL_RECALL), advance)
    return EnoughQueries(precision, at_most, usual, sequential)
