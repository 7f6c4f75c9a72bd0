"""mrr@k: one over the place of the true nearest neighbour among the first k answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from recallatk.analysis.measures.base import Measure

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recallatk.analysis.compared import Compared


@dataclass(frozen=True)
class ReciprocalRank(Measure):
    """1 / place of the nearest row, or of the first answer that ties with it; 0 when it is not among k."""

    def __str__(self) -> str:
        return f"mrr@{self.k}"

    @property
    def deepest(self) -> int:
        return 1

    def per_query(self, compared: Compared) -> NDArray[np.float64]:
        places = np.where(compared.block_starts == 0, compared.places.up_to(self.k), self.k)
        best = places.min(axis=1, initial=self.k)
        queries, beyond = compared.beyond
        # What ties beyond the depth ties with the nearest only where everything before does.
        alike = compared.block_starts[queries, -1] == 0
        np.minimum.at(best, queries[alike], beyond[alike])
        found = np.where(best < self.k, 1.0 / (best + 1), 0.0)
        return np.where(compared.available > 0, found, np.nan)
