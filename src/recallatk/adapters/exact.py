"""exact: a flat scan in float32, the baseline that every index has to beat."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from recallatk.adapters.faiss_library import FaissEngine

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from recallatk.adapters.batch import QueryBatch


class Exact(FaissEngine):
    """Flat scan that compares every row with every query."""

    name = "exact"
    family = "exact"
    abilities = replace(FaissEngine.abilities, exact_search=True)
    factory = "Flat"

    def exact_search(self, batch: QueryBatch, k: int) -> NDArray[np.int64]:
        """The same search: this engine is always exact."""
        return self.nearest(batch, k)

    def scans(self) -> bool:
        """Every row is compared."""
        return True

    def held(self) -> str:
        """The number of rows, in words."""
        return f"flat scan of {self.index.ntotal:,} rows"

    def work(self) -> str:
        """Empty: a flat scan has no index that it could bypass."""
        return ""

    def size_bytes(self) -> int:
        """Bytes of the vectors."""
        return int(self.index.ntotal * self.index.d * 4)
