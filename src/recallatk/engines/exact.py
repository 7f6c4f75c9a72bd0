"""exact: a flat scan in float32, the baseline that every index has to beat."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from recallatk.engines.faiss_library import FaissEngine

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray

    from recallatk.core import Corpus
    from recallatk.engines.base import Filters


class Exact(FaissEngine):
    """Every row is compared with every query."""

    name = "exact"
    family = "exact"
    abilities = replace(FaissEngine.abilities, exact_search=True)

    def recipe(self, corpus: Corpus, parameters: Mapping[str, Any]) -> str:
        """The vectors, of unit length under cosine."""
        return "Flat"

    def exact_search(self, queries: NDArray[Any], k: int, filters: Filters = None) -> NDArray[np.int64]:
        """What it does anyway."""
        return self.search(queries, k, filters)

    def held(self) -> str:
        """The rows that are scanned."""
        return f"flat scan of {self.index.ntotal:,} rows"

    def evidence(self) -> str:
        """A flat scan has no index to miss."""
        return self.held()

    def size_bytes(self) -> int:
        """The vectors."""
        return int(self.index.ntotal * self.index.d * 4)
