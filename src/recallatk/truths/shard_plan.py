"""How a corpus and its queries are cut for many workers: shards of rows, groups of queries."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from recallatk.errors import UsageError
from recallatk.truths.memory_plan import SMALLEST
from recallatk.units import parse_size

if TYPE_CHECKING:
    from recallatk.core import Dataset

# Memory of a task where the user sets none.
USUAL_TASK = 1 << 30
# The candidates of a task are at most about this large.
_RESULT_BYTES = 64 << 20
_CANDIDATE_BYTES = 24
# A task should be worth more than starting it, and a lost one should cost little.
_FEWEST_OPERATIONS, _USUAL_OPERATIONS = 1e11, 2e12
_TASKS_PER_WORKER = 4
# What a Ray worker takes before it has data.
PROCESS_BYTES = 200 << 20


@dataclass(frozen=True)
class ShardPlan:
    """The cuts: row and query numbers where a shard or a group begins, and the end."""

    rows: tuple[int, ...]
    queries: tuple[int, ...]

    @property
    def shards(self) -> list[tuple[int, int]]:
        """First row and end of each shard."""
        return list(itertools.pairwise(self.rows))

    @property
    def groups(self) -> list[tuple[int, int]]:
        """First query and end of each group."""
        return list(itertools.pairwise(self.queries))

    def as_json(self) -> dict[str, Any]:
        """The same as plain values."""
        return {"rows": list(self.rows), "queries": list(self.queries)}


def task_memory(memory: int | str | None) -> int:
    """The memory that each task may use, in bytes."""
    size = USUAL_TASK if memory is None else parse_size(memory)
    if size < SMALLEST:
        raise UsageError(
            f"a memory budget of {size:,} bytes per task. Accepted: {SMALLEST >> 20} MiB or more"
        )
    return size


def shard_plan(dataset: Dataset, depth: int, memory: int, workers: int) -> ShardPlan:
    """Shards that fit the memory of a task, several for each worker where that is worth it."""
    corpus, queries = dataset.corpus, dataset.queries.rows
    shape = (corpus.rows, corpus.dimension)
    shards, groups = tasks_for(shape, corpus.vectors.dtype.itemsize, queries, depth, memory, workers)
    return ShardPlan(_cuts(corpus.rows, shards), _cuts(queries, groups))


def tasks_for(
    shape: tuple[int, int], itemsize: int, queries: int, depth: int, memory: int, workers: int
) -> tuple[int, int]:
    """How many shards and groups of queries, for a corpus that need not exist."""
    rows, dimension = shape
    group = max(1, _RESULT_BYTES // (_CANDIDATE_BYTES * (depth + 1)))
    groups = -(-queries // group)
    least = -(-rows * dimension * itemsize // (memory // 4))
    operations = 2.0 * rows * queries * dimension / groups
    wanted = max(workers * _TASKS_PER_WORKER, int(operations / _USUAL_OPERATIONS))
    worth = max(1, math.ceil(operations / _FEWEST_OPERATIONS))
    return min(rows, max(least, min(wanted, worth))), groups


def _cuts(count: int, parts: int) -> tuple[int, ...]:
    return tuple(count * part // parts for part in range(parts + 1))
