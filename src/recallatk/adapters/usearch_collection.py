"""Saved usearch indexes, whose files state their metric, dimension and storage type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from recallatk.adapters.index_file_collection import IndexFileCollection

if TYPE_CHECKING:
    from collections.abc import Mapping

    from recallatk.core import Corpus


class UsearchFileCollection(IndexFileCollection):
    """A file of `usearch.index.Index.save`."""

    schemes: ClassVar = ("usearch",)
    library: ClassVar = "usearch"
    example: ClassVar = "usearch://index.usearch?corpus=corpus.parquet"

    def load(self, corpus: Corpus) -> Any:
        """The index; its files keep no effort, so that searches begin at the library's default."""
        from usearch.index import Index

        found = Index.restore(str(self.path))
        if found is None:
            raise ValueError("it has no header of usearch")
        return found

    def definition(self) -> str:
        """The graph and its storage type."""
        held = self.engine.index
        kinds = f"{held.dtype.name.lower()} {held.metric_kind.name}"
        return f"HNSW graph, connectivity {held.connectivity}, {kinds}, {len(held):,} rows"

    def snippet(self, search: Mapping[str, Any]) -> str:
        """The attribute of the index."""
        return "\n".join(f"index.{name} = {value}" for name, value in search.items())
