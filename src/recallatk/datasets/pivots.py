"""Corpus rows by their nearness to pivot vectors, in few passes over the corpus."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.core import Metric, blocks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from recallatk.core import Corpus

# Distances to all pivots of one pass are in memory.
_MOST_BYTES = 256 << 20


def row_order(
    corpus: Corpus, pivots: NDArray[Any], metric: Metric
) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """The number of each pivot, and all corpus rows from the nearest to the farthest; ties by row number."""
    together = max(1, _MOST_BYTES // (4 * max(1, corpus.rows)))
    for first in range(0, len(pivots), together):
        some = pivots[first : first + together]
        near = np.empty((len(some), corpus.rows), np.float32)
        for start, block in blocks(corpus.vectors):
            near[:, start : start + len(block)] = _nearness(some, block, metric)
        for number, line in enumerate(near, first):
            yield number, np.argsort(-line, kind="stable")


def nearest_pivot(vectors: NDArray[Any], pivots: NDArray[Any], metric: Metric) -> NDArray[np.int64]:
    """Number of the pivot nearest to each vector, by angle unless the metric is l2; the first of equals."""
    by = metric if metric is Metric.L2 else Metric.COSINE
    return np.asarray(_nearness(pivots, vectors, by).argmax(axis=0), np.int64)


def _nearness(pivots: NDArray[Any], block: NDArray[Any], metric: Metric) -> NDArray[np.float32]:
    """(pivots, rows): higher is nearer. float64 rounded to float32, so that equal rows tie on any machine."""
    wide, others = pivots.astype(np.float64), block.astype(np.float64)
    products = wide @ others.T
    if metric is Metric.COSINE:
        products /= np.outer(_lengths(wide), _lengths(others))
    elif metric is Metric.L2:
        products -= np.add.outer((wide * wide).sum(axis=1), (others * others).sum(axis=1)) / 2
    return np.asarray(products, np.float32)


def _lengths(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    lengths = np.linalg.norm(vectors, axis=1)
    return np.where(lengths > 0, lengths, 1.0)
