"""Every candidate scored once more in float64, pair by pair."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.core import Metric
from recallatk.pair_scores import norms, pair_scores, tolerance

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recallatk.truths.corpus_reader import Reader


_PAIRS_A_PART = 25_000


def rescored(
    reader: Reader,
    vectors: NDArray[Any],
    queries: NDArray[np.int64],
    rows: NDArray[np.int64],
    *,
    threads: int = 1,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The score of each pair, and how far it can be from the real one.

    Args:
        reader: the corpus.
        vectors: the queries.
        queries: of each pair, the place of its query among `vectors`.
        rows: of each pair, its corpus row.
        threads: how many cores to use.
    """
    work = _Work(reader.metric, vectors, queries, rows)
    with ThreadPoolExecutor(threads) as pool:
        for start, block in reader.blocks():
            here = np.flatnonzero((rows >= start) & (rows < start + len(block)))
            if len(here):
                work.enter(start, block)
                # Every part brings memory of its own, which costs more than a few pairs do.
                parts = threads * max(1, min(8, len(here) // _PAIRS_A_PART))
                if work.query_norms is not None:
                    list(pool.map(work.measure, np.array_split(work.used(here), parts)))
                list(pool.map(work.score, np.array_split(here, parts)))
    return work.scores, tolerance(work.metric, work.scores, work.scales, vectors.shape[1])


class _Work:
    """The pairs, and the block that is being worked on."""

    def __init__(
        self, metric: Metric, vectors: NDArray[Any], queries: NDArray[np.int64], rows: NDArray[np.int64]
    ) -> None:
        self.metric, self.queries, self.rows = metric, queries, rows
        self.vectors = vectors
        self.scores = np.empty(len(rows))
        self.scales = np.ones(len(rows))
        self.query_norms = None if metric is Metric.L2 else norms(vectors)

    def enter(self, start: int, block: NDArray[Any]) -> None:
        """Go on to a block."""
        self.start, self.block = start, block
        self.row_norms = np.full(len(block), np.nan)

    def used(self, here: NDArray[np.int64]) -> NDArray[np.int64]:
        """The rows of this block that the pairs `here` have, each once."""
        flags = np.zeros(len(self.block), bool)
        flags[self.rows[here] - self.start] = True
        return np.flatnonzero(flags)

    def measure(self, places: NDArray[np.int64]) -> None:
        """Take the norms of some rows of this block."""
        self.row_norms[places] = norms(self.block, places)

    def score(self, part: NDArray[np.int64]) -> None:
        """Score some pairs of this block."""
        query, row = self.queries[part], self.rows[part] - self.start
        values = pair_scores(self.metric, self.vectors, query, self.block, row)
        if self.query_norms is not None:
            if self.metric is Metric.COSINE:
                values /= self.query_norms[query] * self.row_norms[row]
            else:
                self.scales[part] = self.query_norms[query] * self.row_norms[row]
        self.scores[part] = values
