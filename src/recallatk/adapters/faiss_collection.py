"""Saved faiss indexes, with the parameters of all their parts."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, ClassVar

from recallatk.adapters.faiss_live import downcast, innermost
from recallatk.adapters.index_file_collection import IndexFileCollection

if TYPE_CHECKING:
    from collections.abc import Mapping

    from recallatk.core import Corpus

# Names of parameters where faiss.ParameterSpace has others.
_IN_SPACE = {"k_factor": "k_factor_rf"}
_ATTRIBUTES = {"search_L": "nsg.search_L", "qb": "qb"}


class FaissFileCollection(IndexFileCollection):
    """A file of `faiss.write_index`."""

    schemes: ClassVar = ("faiss",)
    library: ClassVar = "faiss-factory"
    example: ClassVar = "faiss://index.faiss?corpus=corpus.parquet"

    def load(self, corpus: Corpus) -> Any:
        """The index, whose lists on disk, if any, are opened read-only too."""
        import faiss

        try:
            return faiss.read_index(str(self.path), faiss.IO_FLAG_READ_ONLY)
        except RuntimeError as problem:
            # Without the location in faiss's source.
            said = re.sub(r"^Error in .*? at \S+:\d+: ", "", str(problem), flags=re.DOTALL)
            raise ValueError(said) from None

    def definition(self) -> str:
        """The class of the index and of the one inside, with what they were built with."""
        import faiss

        held = self.engine.index
        outer, inner = (type(each).__name__ for each in (downcast(held), innermost(held)))
        text, inside = outer if outer == inner else f"{outer} around {inner}", innermost(held)
        if isinstance(inside, faiss.IndexIVF):
            text += f", nlist {inside.nlist:,}"
        if isinstance(inside, faiss.IndexHNSW):
            text += f", M {inside.hnsw.nb_neighbors(1)}, efConstruction {inside.hnsw.efConstruction}"
        return f"{text}, {held.ntotal:,} rows"

    def snippet(self, search: Mapping[str, Any]) -> str:
        """The calls that set the parameters, also inside transforms and id maps."""
        lines = []
        for name, value in search.items():
            *_, last = name.split("quantizer_")
            prefix = name[: len(name) - len(last)]
            if last in _ATTRIBUTES:
                lines.append(f"faiss.downcast_index(index).{_ATTRIBUTES[last]} = {value}")
            else:
                known = f"{prefix}{_IN_SPACE.get(last, last)}"
                lines.append(f'faiss.ParameterSpace().set_index_parameter(index, "{known}", {value})')
        return "\n".join(lines)
