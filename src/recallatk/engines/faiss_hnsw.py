"""faiss-hnsw: a graph index over float32 vectors, in process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from recallatk.core import Corpus, Knob
from recallatk.engines.faiss_library import FaissEngine
from recallatk.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import Mapping


class FaissHnsw(FaissEngine):
    """IndexHNSWFlat."""

    name = "faiss-hnsw"
    build_knobs = (
        Knob("M", default=16, low=2, high=256),
        Knob("ef_construction", default=200, low=1, high=5000, effort=True),
    )
    # No constraint with k: faiss keeps max(ef, k) candidates, so that an ef below k is the same as k and no
    # mistake.
    search_knobs = (Knob("ef", default=64, low=1, high=10_000, effort=True),)

    def recipe(self, corpus: Corpus, parameters: Mapping[str, Any]) -> str:
        """A graph over the vectors as they are."""
        return f"HNSW{parameters['M']},Flat"

    def prepare(self, parameters: Mapping[str, Any]) -> None:
        """Set how many candidates an insertion keeps."""
        self.index.hnsw.efConstruction = parameters["ef_construction"]

    def apply(self, settings: Mapping[str, Any]) -> None:
        """Set how many candidates a search keeps."""
        self.index.hnsw.efSearch = settings["ef"]

    def filtered(self, selector: Any) -> Any:
        """The same walk; only the rows of the selector are kept."""
        import faiss

        return faiss.SearchParametersHNSW(sel=selector, efSearch=self.index.hnsw.efSearch)

    def forget_searches(self) -> None:
        """Start counting anew."""
        import faiss

        super().forget_searches()
        # The statistics are the library's and count the searches of every index in the process.
        faiss.cvar.hnsw_stats.reset()

    def held(self) -> str:
        """The graph."""
        return f"graph of {self.index.ntotal:,} nodes, {self.index.hnsw.max_level + 1} levels"

    def evidence(self) -> str:
        """How much of the corpus the walks compared, which a fallback scan could not show."""
        import faiss

        counted = faiss.cvar.hnsw_stats
        if not counted.n1:
            raise EngineError("faiss-hnsw: no search went through the graph since it was configured")
        return f"{self.held()}; {counted.ndis / counted.n1:,.0f} comparisons a query"
