"""The corpus in blocks: held in memory where it fits, read ahead of the scan otherwise."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.core import in_memory
from recallatk.pair_scores import require_range

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from recallatk.core import Corpus, Dataset, Metric


class Reader:
    """Blocks of one corpus, checked as they come.

    Args:
        corpus: its rows.
        metric: how they are compared with the queries.
        block_rows: how many rows to read at a time.
        smallest_query: the smallest size of a query, with which a row may be too small.
        first_row: what messages call the first row.
    """

    def __init__(
        self, corpus: Corpus, metric: Metric, block_rows: int, *, smallest_query: float, first_row: int = 0
    ) -> None:
        self.corpus, self.metric, self.smallest_query = corpus, metric, smallest_query
        self.first_row = first_row
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
        named = self.first_row + start
        require_range(block, self.metric, self.corpus.name, named, compared_with=self.smallest_query)
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


@dataclass(frozen=True, eq=False)
class PickedVectors:
    """Some rows of a corpus, as if they were all of it."""

    reader: Reader
    picked: NDArray[np.int64]

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and dimension."""
        return len(self.picked), self.reader.corpus.dimension

    @property
    def dtype(self) -> np.dtype[Any]:
        """The stored type."""
        return self.reader.corpus.vectors.dtype

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Some of the rows."""
        return self.reader.rows(self.picked[start:stop])


def held(dataset: Dataset, block_rows: int) -> Dataset:
    """The dataset with its corpus in memory, where a block is all of it; else the same dataset."""
    corpus = dataset.corpus
    if block_rows < corpus.rows:
        return dataset
    return replace(dataset, corpus=replace(corpus, vectors=in_memory(corpus.vectors)))
