"""How much memory a computation of truth may take, and what that means for its blocks and queries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from recallatk.errors import UsageError
from recallatk.units import parse_size

if TYPE_CHECKING:
    from recallatk.core import Dataset

SMALLEST = 256 << 20
_USUAL = 2 << 30
# For each neighbour of a query: several survivors in the table, candidates, and the arrays of the verdict
# with what sorting them takes.
_NEIGHBOUR_BYTES = 300
# Of the truth itself, while it is made and written, for each neighbour.
_RESULT_BYTES = 50
# The scores of a tile in float64, its rows and its flags.
_THREAD_BYTES = 40 << 20
# What reading from files takes.
_READING_BYTES = 32 << 20


@dataclass(frozen=True)
class Plan:
    """What is held at a time."""

    block_rows: int
    group_queries: int
    threads: int | None = None
    """How many threads the memory allows; None for as many as are asked for."""


def plan(
    dataset: Dataset, depth: int, memory: int | str | None, threads: int, block_bytes: int | None = None
) -> Plan:
    """Blocks of the corpus and groups of queries that stay within a budget."""
    size = _budget(memory)
    corpus, queries = dataset.corpus, dataset.queries
    width = corpus.dimension
    threads = max(1, min(threads, size // 2 // _THREAD_BYTES))
    fixed = threads * _THREAD_BYTES + _READING_BYTES + queries.rows * depth * _RESULT_BYTES
    usable = max(size - fixed, size // 8)
    per_query = (depth + 33) * _NEIGHBOUR_BYTES + width * 8 * (2 + threads)
    group = max(1, min(queries.rows, usable // 3 // per_query))
    row_bytes = width * corpus.vectors.dtype.itemsize
    rows = _block_rows(corpus.rows, row_bytes, usable - group * per_query)
    if block_bytes is not None:
        rows = max(1, block_bytes // max(1, row_bytes))
    return Plan(rows, group, threads)


def _block_rows(rows: int, row_bytes: int, left: int) -> int:
    """The whole corpus where it fits; else blocks of which two, and what is being read, fit."""
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
