"""Memory plan of a computation: block sizes, and batches of queries that share a scan."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from recallatk.errors import UsageError
from recallatk.truths.scanner_blas import BATCH_QUERIES
from recallatk.units import parse_size

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recallatk.core import Dataset
    from recallatk.filters.eligibility import Eligibility
    from recallatk.filters.lookup import RowSet

SMALLEST = 256 << 20
_USUAL = 2 << 30
# For each neighbor of a query: several survivors in the table, candidates, and the arrays of the verdict
# with what sorting them takes.
_NEIGHBOR_BYTES = 300
# Of the truth itself, while it is made and written, for each neighbor.
_RESULT_BYTES = 50
# The scores of a tile in float64, its rows and its flags.
_THREAD_BYTES = 40 << 20
# Memory for reading from files.
_READING_BYTES = 32 << 20


@dataclass(frozen=True)
class MemoryPlan:
    """Memory plan: block sizes and threads within the budget."""

    block_rows: int
    group_queries: int
    threads: int | None = None
    """Number of threads that the memory allows; None for no limit."""
    other_bytes: int = field(default=0, compare=False)
    """Memory besides blocks of the corpus."""


def plan(
    dataset: Dataset, depth: int, memory: int | str | None, threads: int, block_bytes: int | None = None
) -> MemoryPlan:
    """Blocks of the corpus and groups of queries that stay within a budget."""
    corpus = dataset.corpus
    found = plan_for(
        (corpus.rows, corpus.dimension),
        corpus.vectors.dtype.itemsize,
        dataset.queries.rows,
        depth,
        memory,
        threads,
    )
    if block_bytes is None:
        return found
    rows = max(1, block_bytes // max(1, corpus.dimension * corpus.vectors.dtype.itemsize))
    return replace(found, block_rows=rows)


def plan_for(
    shape: tuple[int, int], itemsize: int, queries: int, depth: int, memory: int | str | None, threads: int
) -> MemoryPlan:
    """The same for a corpus that need not exist."""
    size = _budget(memory)
    rows, width = shape
    threads = max(1, min(threads, size // 2 // _THREAD_BYTES))
    fixed = threads * _THREAD_BYTES + _READING_BYTES + queries * depth * _RESULT_BYTES
    usable = max(size - fixed, size // 8)
    per_query = (depth + 33) * _NEIGHBOR_BYTES + width * 8 * (2 + threads)
    group = max(1, min(queries, usable // 3 // per_query))
    block = _block_rows(rows, width * itemsize, usable - group * per_query)
    return MemoryPlan(block, group, threads, fixed + group * per_query)


def _block_rows(rows: int, row_bytes: int, left: int) -> int:
    """The whole corpus if it fits; else blocks of which two and a read buffer fit."""
    if rows * row_bytes <= left // 2:
        return rows
    return max(1, left // 4 // max(1, row_bytes))


def _budget(memory: int | str | None) -> int:
    if memory is None:
        import psutil

        return int(min(_USUAL, psutil.virtual_memory().total // 4))
    size = parse_size(memory)
    if size < SMALLEST:
        raise UsageError(f"a memory budget of {size:,} bytes. Accepted: {SMALLEST >> 20} MiB or more")
    return size


def heavy_queries(group_queries: int, corpus_rows: int) -> int:
    """How many queries may hold every row of the corpus in the memory of a usual group."""
    return max(1, group_queries * 600 // max(1, corpus_rows))


# Gathering and preparing one row for one filter costs about as much as scanning it for this many queries.
_GATHER_COST = 60


@dataclass(frozen=True, eq=False)
class Batch:
    """Queries that are scanned together, and the rows gathered for them where their filter is selective."""

    queries: NDArray[np.int64]
    members: RowSet | None

    @property
    def places(self) -> slice | NDArray[np.int64]:
        """Where its queries are among all; a slice, which copies nothing, where they are in a row."""
        first, last = int(self.queries[0]), int(self.queries[-1])
        in_a_row = last - first == len(self.queries) - 1 and bool((np.diff(self.queries) == 1).all())
        return slice(first, last + 1) if in_a_row else self.queries


def batches(eligibility: Eligibility, *, always_gather: bool = False) -> list[Batch]:
    """All queries in batches: each selective filter's on their own, the others in common ones."""
    order = np.argsort(eligibility.group, kind="stable")
    bounds = np.searchsorted(eligibility.group[order], np.arange(len(eligibility.sets) + 1))
    common: list[NDArray[np.int64]] = []
    found: list[Batch] = []
    for members, (first, last) in zip(eligibility.sets, itertools.pairwise(bounds.tolist()), strict=True):
        which = order[first:last]
        if members is None or not (always_gather or _is_selective(members, len(which))):
            common.append(which)
        else:
            found += [Batch(part, members) for part in _parts(which)]
    if common:
        found += [Batch(part, None) for part in _parts(np.concatenate(common))]
    return found


def _is_selective(members: RowSet, queries: int) -> bool:
    """Whether gathering the rows that pass and scanning these is cheaper than scanning all."""
    return members.count * (_GATHER_COST + queries) < members.corpus_rows * queries


def _parts(which: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    return [which[first : first + BATCH_QUERIES] for first in range(0, len(which), BATCH_QUERIES)]
