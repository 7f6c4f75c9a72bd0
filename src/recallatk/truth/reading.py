"""The corpus in blocks: held in memory where it fits the budget, and read ahead of the scan where not."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.core import Metric, in_memory
from recallatk.errors import BadValueError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from recallatk.core import Corpus, Dataset

# Squares of larger float64 numbers, added up, would leave its range.
_LARGEST = 1e150


class Reader:
    """Blocks of one corpus, checked as they come."""

    def __init__(self, corpus: Corpus, metric: Metric, block_rows: int) -> None:
        self.corpus, self.metric = corpus, metric
        self.block_rows = max(1, min(block_rows, corpus.rows))
        self._held: NDArray[Any] | None = None

    def blocks(self, first: int = 0) -> Iterator[tuple[int, NDArray[Any]]]:
        """Every block from a row on, with its first row; the next one is read while this one is used."""
        starts = range(first, self.corpus.rows, self.block_rows)
        if not starts:
            return
        if self.is_whole:
            yield first, self._whole()[first:]
            return
        with ThreadPoolExecutor(1) as reader:
            coming = reader.submit(self._read, starts[0])
            for start in starts:
                block = coming.result()
                if start != starts[-1]:
                    coming = reader.submit(self._read, start + self.block_rows)
                yield start, block

    @property
    def is_whole(self) -> bool:
        """Whether one block is the corpus, which then is in memory."""
        return self.block_rows == self.corpus.rows

    def _whole(self) -> NDArray[Any]:
        if self._held is None:
            self._held = self._read(0)
        return self._held

    def _read(self, start: int) -> NDArray[Any]:
        stop = min(start + self.block_rows, self.corpus.rows)
        block = self.corpus.vectors.read(start, stop)
        require_range(block, self.metric, self.corpus.name, start)
        # A reader may use its memory again for the next block, which is being read already.
        return block if stop - start == self.corpus.rows else np.array(block)

    def rows(self, wanted: NDArray[np.int64]) -> NDArray[Any]:
        """Some rows, which must be in order; blocks without any of them are not read."""
        if self._held is not None:
            return self._held[wanted]
        vectors = self.corpus.vectors
        found = np.empty((len(wanted), vectors.shape[1]), vectors.dtype)
        blocks = wanted // self.block_rows
        for number in np.unique(blocks).tolist():
            mine = slice(*np.searchsorted(blocks, [number, number + 1]))
            first, last = int(wanted[mine][0]), int(wanted[mine][-1])
            found[mine] = vectors.read(first, last + 1)[wanted[mine] - first]
        return found


def held(dataset: Dataset, block_rows: int) -> Dataset:
    """The dataset with its corpus in memory, where a block is all of it; else the same dataset."""
    corpus = dataset.corpus
    if block_rows < corpus.rows:
        return dataset
    return replace(dataset, corpus=replace(corpus, vectors=in_memory(corpus.vectors)))


def require_range(block: NDArray[Any], metric: Metric, where: str, start: int = 0) -> None:
    """Refuse float64 vectors whose squares would be infinite or nothing."""
    if block.dtype != np.float64 or not len(block):
        return
    largest = np.abs(block).max(axis=1)
    beyond = largest > _LARGEST
    if metric is Metric.COSINE:
        beyond |= largest < 1 / _LARGEST
    if beyond.any():
        row = int(np.argmax(beyond))
        raise BadValueError(
            where,
            f"the largest number of the vector is {largest[row]:g}, whose square float64 cannot hold",
            f"sizes from {1 / _LARGEST:g} to {_LARGEST:g}",
            row=start + row,
        )
