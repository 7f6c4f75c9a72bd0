"""faiss-hnsw and faiss-nsg: graph indexes over float32 vectors, in process."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from recallatk.adapters.base import Constraint
from recallatk.adapters.batch import QueryBatch, float32_matrix
from recallatk.adapters.faiss_library import FaissEngine
from recallatk.adapters.memory_model import FLOAT_BYTES, Content, graph_content
from recallatk.core import Corpus, Knob, Metric
from recallatk.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray

    from recallatk.adapters.snippet import Setting

# With 100 rows or fewer, faiss refuses to approximate the neighbor graph.
_TOO_FEW = 100
# An approximate graph of few rows may have gaps, and faiss aborts on them; an exact graph is cheap here.
_EXACT_BELOW = 10_000
_EXACT_GRAPH = 0


class FaissHnsw(FaissEngine):
    """IndexHNSWFlat: an HNSW graph over whole vectors."""

    name = "faiss-hnsw"
    build_knobs = (
        Knob("M", default=16, low=2, high=256),
        Knob("ef_construction", default=200, low=1, high=5000, effort=True),
    )
    # No constraint with k: faiss keeps max(ef, k) candidates, so an ef below k acts as k.
    search_knobs = (Knob("ef", default=64, low=1, high=10_000, effort=True),)
    factory = "HNSW{M},Flat"

    def prepare(self, parameters: Mapping[str, Any]) -> None:
        """Set the number of candidates that an insertion keeps."""
        self.index.hnsw.efConstruction = parameters["ef_construction"]

    def apply(self, settings: Mapping[str, Any]) -> None:
        """Set the number of candidates that a search keeps."""
        self.index.hnsw.efSearch = settings["ef"]

    def filtered(self, selector: Any) -> Any:
        """The same graph walk, returning only rows of the selector."""
        import faiss

        return faiss.SearchParametersHNSW(sel=selector, efSearch=self.index.hnsw.efSearch)

    def forget_searches(self) -> None:
        """Reset the library's own counters."""
        import faiss

        # These statistics are global: they count the searches of every index in the process.
        faiss.cvar.hnsw_stats.reset()

    def held(self) -> str:
        """The graph."""
        return f"graph of {self.index.ntotal:,} nodes, {self.index.hnsw.max_level + 1} levels"

    def work(self) -> str:
        """The share of the corpus that the walks compared; a fallback scan would compare all of it."""
        import faiss

        done = faiss.cvar.hnsw_stats
        if not done.n1:
            raise EngineError("faiss-hnsw: no search has used the graph since the last configure")
        return f"{done.ndis / done.n1:,.0f} comparisons per query"

    @classmethod
    def content(cls, build: Mapping[str, Any], dimension: int, metric: Metric) -> Content:
        """The graph with its vectors."""
        return graph_content(build["M"], FLOAT_BYTES * dimension)

    @classmethod
    def build_lines(cls, build: Mapping[str, Any]) -> list[str]:
        """Code that sets the number of candidates that an insertion keeps."""
        return [f"index.hnsw.efConstruction = {build['ef_construction']}"]

    @classmethod
    def effort_lines(cls, setting: Setting) -> list[str]:
        """Code that sets the number of candidates that a search keeps."""
        return [f"index.hnsw.efSearch = {setting.search['ef']}"]


def _enough(R: int, rows: int) -> bool:
    # faiss starts the graph from this many distinct random rows, and never terminates with fewer.
    return rows > max(_TOO_FEW, R + 32)


class FaissNsg(FaissEngine):
    """IndexNSGFlat: a pruned graph searched from one entry point; no filters."""

    name = "faiss-nsg"
    abilities = replace(FaissEngine.abilities, filters=False)
    build_knobs = (Knob("R", default=32, low=4, high=256, help="maximum neighbors per node"),)
    search_knobs = (
        Knob("search_L", default=64, low=1, high=10_000, effort=True, help="candidates kept per search"),
    )
    constraints = (
        Constraint(f"more than {_TOO_FEW} rows and more than R + 32", ("R", "rows"), _enough),
        Constraint(
            "search_L of at most the number of rows",
            ("search_L", "rows"),
            lambda search_L, rows: bool(search_L <= rows),
        ),
    )
    factory = "NSG{R},Flat"

    def fitted(self, parameters: Mapping[str, Any], corpus: Corpus) -> Mapping[str, Any]:
        """Refuse a corpus that is too small for the graph."""
        if not _enough(parameters["R"], corpus.rows):
            needed = f"its graph needs more than {_TOO_FEW} rows and more than R + 32"
            raise EngineError(f"{self.name}: a corpus of {corpus.rows} rows; {needed}")
        return parameters

    def fill(self, corpus: Corpus) -> None:
        """Add every row in one call, because faiss builds the graph from all rows at once."""
        if corpus.rows < _EXACT_BELOW:
            self.index.build_type = _EXACT_GRAPH
        self.index.add(float32_matrix(corpus.vectors.read(0, corpus.rows), unit=self.unit))

    def apply(self, settings: Mapping[str, Any]) -> None:
        """Set the number of candidates that a search keeps."""
        # A search of faiss with more candidates than rows never terminates.
        if settings["search_L"] > self.index.ntotal:
            raise EngineError(f"{self.name}: search_L = {settings['search_L']} exceeds the number of rows")
        self.index.nsg.search_L = settings["search_L"]

    def nearest(self, batch: QueryBatch, k: int) -> NDArray[np.int64]:
        """Nearest rows found by walking the graph."""
        # Nor does a search for more neighbors than rows.
        return super().nearest(batch, min(k, self.index.ntotal))

    def held(self) -> str:
        """The graph; faiss does not count the steps of a walk."""
        return f"graph of {self.index.ntotal:,} nodes, {self.index.nsg.R} neighbors each at most"

    @classmethod
    def build_lines(cls, build: Mapping[str, Any]) -> list[str]:
        """Code that chooses how the initial neighbor graph is built."""
        return [
            f"if len(vectors) < {_EXACT_BELOW:_}:",
            "    index.build_type = 0  # exact graph: with few rows, the approximate one has gaps",
        ]

    @classmethod
    def effort_lines(cls, setting: Setting) -> list[str]:
        """Code that sets the number of candidates that a search keeps."""
        return [f"index.nsg.search_L = {setting.search['search_L']}"]
