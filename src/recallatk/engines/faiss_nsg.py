"""faiss-nsg: a pruned graph over float32 vectors that is walked from one point in the middle."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.core import Corpus, Knob
from recallatk.engines.base import Constraint
from recallatk.engines.faiss_library import FaissEngine
from recallatk.engines.matrix import float32_matrix
from recallatk.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from recallatk.engines.base import Filters

# faiss refuses to approximate the graph of neighbours of 100 rows or fewer.
_TOO_FEW = 100
# An approximate graph of few rows has gaps, at which faiss aborts; below this an exact one is soon made.
_EXACT_BELOW = 10_000
_EXACT_GRAPH = 0


def _enough(R: int, rows: int) -> bool:
    # faiss draws so many distinct rows to begin with, and never ends when there are fewer.
    return rows > max(_TOO_FEW, R + 32)


class FaissNsg(FaissEngine):
    """IndexNSGFlat, which takes no filters."""

    name = "faiss-nsg"
    abilities = replace(FaissEngine.abilities, filters=False)
    build_knobs = (Knob("R", default=32, low=4, high=256, help="neighbours of a node, at the most"),)
    search_knobs = (
        Knob("search_L", default=64, low=1, high=10_000, effort=True, help="candidates that a search keeps"),
    )
    constraints = (
        Constraint(f"more rows than {_TOO_FEW} and than R + 32", ("R", "rows"), _enough),
        Constraint(
            "a search_L of at most the rows",
            ("search_L", "rows"),
            lambda search_L, rows: bool(search_L <= rows),
        ),
    )

    def recipe(self, corpus: Corpus, parameters: Mapping[str, Any]) -> str:
        """A graph over the vectors as they are."""
        if not _enough(parameters["R"], corpus.rows):
            needed = f"its graph needs more than {_TOO_FEW} and than R + 32"
            raise EngineError(f"{self.name}: a corpus of {corpus.rows} rows; {needed}")
        return f"NSG{parameters['R']},Flat"

    def fill(self, corpus: Corpus) -> None:
        """Add every row at once, since the graph is made from all of them."""
        if corpus.rows < _EXACT_BELOW:
            self.index.build_type = _EXACT_GRAPH
        self.index.add(float32_matrix(corpus.vectors.read(0, corpus.rows), unit=self.unit))

    def apply(self, settings: Mapping[str, Any]) -> None:
        """Set how many candidates a search keeps."""
        # Beyond it, a search of faiss would never end.
        if settings["search_L"] > self.index.ntotal:
            raise EngineError(f"{self.name}: search_L = {settings['search_L']} is more than the rows")
        self.index.nsg.search_L = settings["search_L"]

    def search(self, queries: NDArray[Any], k: int, filters: Filters = None) -> NDArray[np.int64]:
        """The nearest rows that the walk over the graph found."""
        # Of more neighbours than rows, too, it would never end.
        found = super().search(queries, min(k, self.index.ntotal), filters)
        return np.pad(found, ((0, 0), (0, k - found.shape[1])), constant_values=-1)

    def held(self) -> str:
        """The graph; faiss counts no steps of a walk over it."""
        return f"graph of {self.index.ntotal:,} nodes, {self.index.nsg.R} neighbours each at the most"
