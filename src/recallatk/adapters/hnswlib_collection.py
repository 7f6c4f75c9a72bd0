"""Saved hnswlib indexes, whose files state neither metric nor dimension in words."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from recallatk.adapters.index_file_collection import IndexFileCollection
from recallatk.adapters.live import SAMPLE
from recallatk.core import Metric
from recallatk.errors import EngineError, MismatchError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from recallatk.adapters.live import LiveIndex
    from recallatk.core import Corpus

# Offset of level 0, most rows, rows, bytes per row, offsets of label and vector in a row, top level, entry
# point, links per node above and at level 0, M, the factor of levels, ef_construction.
_HEADER = struct.Struct("<6QiI3QdQ")
_FLOAT_BYTES, _UNIT_TOLERANCE = 4, 0.01


class HnswlibFileCollection(IndexFileCollection):
    """A file of `hnswlib.Index.save_index`."""

    schemes: ClassVar = ("hnswlib",)
    library: ClassVar = "hnswlib"
    example: ClassVar = "hnswlib://index.bin?corpus=corpus.parquet&metric=cosine"

    def load(self, corpus: Corpus) -> Any:
        """The index; hnswlib believes what it is told, so the header is checked before."""
        import hnswlib

        if self.metric is None:
            raise UsageError(
                f"{self.target.text}: files of hnswlib do not state their metric. Add that of the index: "
                f"metric=cosine, ip or l2, as {self.example}"
            )
        dimension = self._dimension()
        if dimension != corpus.dimension:
            raise MismatchError(
                f"{self.target.text}: dimension mismatch: the index has {dimension:,} dimensions, the corpus "
                f"{corpus.dimension:,}"
            )
        index = hnswlib.Index(str(self.metric), dimension)
        index.load_index(str(self.path))
        return index

    def _dimension(self) -> int:
        """Of the vectors, from the layout of a row: links, vector, label."""
        with self.path.open("rb") as file:
            head = file.read(_HEADER.size)
        if len(head) < _HEADER.size:
            raise ValueError("it ends within its header")
        _, most, rows, row_bytes, label, vector, *_ = _HEADER.unpack(head)
        held = label - vector
        fits = held > 0 and held % _FLOAT_BYTES == 0 and label + 8 == row_bytes and rows <= most
        if not fits or _HEADER.size + rows * row_bytes > self.path.stat().st_size:
            raise ValueError("its header and its size contradict each other")
        return int(held // _FLOAT_BYTES)

    def _attach(self, engine: LiveIndex, corpus: Corpus) -> None:
        super()._attach(engine, corpus)
        labels = np.array(engine.index.get_ids_list()[:SAMPLE], np.int64)
        stored = engine.stored(labels)
        if stored is None:
            raise EngineError("the index returns no vectors to check the metric by")
        # The space cosine normalizes what is added, the others keep it as it is.
        if self.metric is Metric.COSINE and not _are_unit(stored):
            raise MismatchError(
                "metric mismatch: the target says metric=cosine, but the index holds vectors that are not "
                "normalized, so its space is l2 or ip. Say which: metric=l2 or metric=ip"
            )
        first = corpus.vectors.read(0, min(SAMPLE, corpus.rows))
        if self.metric is not Metric.COSINE and _are_unit(stored) and not _are_unit(first):
            raise MismatchError(
                f"metric mismatch: the target says metric={self.metric}, but the index holds normalized "
                "vectors, and the corpus does not, so its space is cosine. Say metric=cosine"
            )

    def definition(self) -> str:
        """The graph."""
        held = self.engine.index
        return f"HNSW graph, M {held.M}, ef_construction {held.ef_construction}, {held.element_count:,} rows"

    def snippet(self, search: Mapping[str, Any]) -> str:
        """The call on the index."""
        return "\n".join(f"index.set_ef({value})" for value in search.values())


def _are_unit(vectors: NDArray[Any]) -> bool:
    norms = np.linalg.norm(np.asarray(vectors, np.float64), axis=1)
    return bool(np.abs(norms - 1).max() <= _UNIT_TOLERANCE)
