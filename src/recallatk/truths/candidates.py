"""Candidates of shards: pairs with float64 scores and bounds, merged until only possible neighbors remain."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.truths.decision import Pairs, decide, grouped

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from recallatk.core import Metric
    from recallatk.truths.corpus_reader import Reader
    from recallatk.truths.decision import DecidedRows
    from recallatk.truths.results import Results

# A table of this many times the candidates is still cheaper than sorting them.
_SPARSE_TABLE = 8


@dataclass(frozen=True, eq=False)
class ShardCandidates:
    """Every row of some shards that may be among the best of its query, query after query."""

    offsets: NDArray[np.int64]
    """Where the rows of each query begin, and where the last ones end."""
    rows: NDArray[np.int64]
    """Row numbers in the whole corpus."""
    scores: NDArray[np.float64]
    tolerances: NDArray[np.float64]
    """How far each score can be from the real one."""

    @classmethod
    def of(cls, found: Sequence[Pairs], queries: int) -> ShardCandidates:
        """Candidates of so many queries from pairs in any order."""
        none = Pairs(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0), np.empty(0))
        columns = zip(*(_columns(each) for each in (none, *found)), strict=True)
        numbers, *others = (np.concatenate(column) for column in columns)
        order = grouped(numbers, np.arange(len(numbers)))
        counts = np.bincount(numbers, minlength=queries)
        return cls(np.concatenate([[0], np.cumsum(counts)]), *(part[order] for part in others))

    @property
    def counts(self) -> NDArray[np.int64]:
        """How many rows each query has."""
        return np.diff(self.offsets)

    def pairs(self) -> Pairs:
        """The same as pairs that can be decided."""
        # Arrays from shared memory are read-only, and deciding sorts in place.
        queries = np.repeat(np.arange(len(self.counts)), self.counts)
        return Pairs(queries, self.rows.copy(), self.scores.copy(), self.tolerances.copy())

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The same as named arrays."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    @classmethod
    def restored(cls, arrays: Mapping[str, NDArray[Any]]) -> ShardCandidates:
        """What `arrays` named."""
        return cls(**{each.name: arrays[each.name] for each in fields(cls)})


def _columns(pairs: Pairs) -> tuple[NDArray[Any], ...]:
    return pairs.queries, pairs.rows, pairs.scores, pairs.tolerances


def merged(metric: Metric, parts: Sequence[ShardCandidates], k: int) -> ShardCandidates:
    """The candidates of several shards, without those that k others are surely better than."""
    queries = len(parts[0].counts)
    together = ShardCandidates.of([part.pairs() for part in parts], queries)
    floors = known_floors(metric, together, k)
    _, high = _limits(metric, together)
    kept = ~(high < np.repeat(floors, together.counts))
    ends = np.concatenate([[0], np.cumsum(kept)])
    return ShardCandidates(
        ends[together.offsets], together.rows[kept], together.scores[kept], together.tolerances[kept]
    )


def known_floors(metric: Metric, found: ShardCandidates, k: int) -> NDArray[np.float64]:
    """Per query, what k rows surely reach, larger being better; -inf with fewer rows.

    For l2 it is the negative of a distance.
    """
    low, _ = _limits(metric, found)
    counts, starts = found.counts, found.offsets[:-1]
    floors = np.full(len(counts), -np.inf)
    width = int(counts.max(initial=0))
    if width < k:
        return floors
    queries = np.repeat(np.arange(len(counts)), counts)
    if width * len(counts) <= _SPARSE_TABLE * len(low):
        table = np.full((len(counts), width), -np.inf)
        table[queries, np.arange(len(low)) - np.repeat(starts, counts)] = low
        return np.asarray(np.partition(table, width - k, axis=1)[:, width - k])
    # A few queries with endless ties: a table would be mostly empty.
    order = grouped(queries, np.argsort(-low))
    enough = counts >= k
    floors[enough] = low[order][starts[enough] + k - 1]
    return floors


def _limits(metric: Metric, found: ShardCandidates) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The least and the most that each real score can be, larger being better."""
    better = found.scores if metric.higher_is_better else -found.scores
    return better - found.tolerances, better + found.tolerances


def certify(
    results: Results,
    found: ShardCandidates,
    queries: NDArray[Any],
    which: NDArray[np.int64],
    reader: Reader,
    threads: int = 1,
) -> None:
    """Decide some queries by the candidates of all shards; only rows in doubt are read again.

    Args:
        results: where to put what was decided.
        found: the merged candidates.
        queries: the vectors of all queries.
        which: the numbers of the queries that the candidates are of.
        reader: the corpus.
        threads: how many cores to use.
    """
    pairs, lock = found.pairs(), Lock()

    def fetch(rows: NDArray[np.int64]) -> NDArray[Any]:
        with lock:
            return reader.rows(rows)

    def settle(part: NDArray[np.int64]) -> tuple[NDArray[np.int64], DecidedRows]:
        first, last = found.offsets[part[0]], found.offsets[part[-1] + 1]
        mine = Pairs(*(each[first:last] for each in _columns(pairs)))
        mine.queries -= part[0]
        depth = results.rows.shape[1]
        return part, decide(reader.metric, queries[which[part]], mine, depth, fetch)

    parts = np.array_split(np.arange(len(which)), max(1, min(len(which), threads)))
    with ThreadPoolExecutor(len(parts)) as pool:
        for part, verdict in pool.map(settle, parts):
            every = np.ones(len(part), bool)
            results.put(which[part], every, verdict)
