"""Index objects of this program as collections: searched as they are, with their parameters restored."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from recallatk.adapters.collection import CollectionTarget
from recallatk.adapters.index_file_collection import IndexFileCollection

if TYPE_CHECKING:
    from recallatk.core import Corpus, Metric


class HeldIndexCollection(IndexFileCollection):
    """An index object with the corpus that it was built from.

    Args:
        index: of faiss, hnswlib, usearch or another library that is known.
        metric: what its neighbors are nearest by.
        corpus: the rows in the index.
    """

    def __init__(self, index: Any, metric: Metric, corpus: Corpus) -> None:
        super().__init__(CollectionTarget(type(index).__name__, "index", "", {"metric": str(metric)}), Path())
        self.index, self.corpus = index, corpus

    def load(self, corpus: Corpus) -> Any:
        """The object itself."""
        return self.index

    def stamp(self) -> None:
        """There is no file that could change."""

    def definition(self) -> str:
        """Its class."""
        return type(self.index).__name__
