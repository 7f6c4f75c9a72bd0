"""ndcg@k against the truth's order: near neighbours are worth more, and early answers count more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from recallatk.analysis.compared import require_within
from recallatk.analysis.measures.base import Measure

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recallatk.analysis.compared import Compared


@dataclass(frozen=True)
class DiscountedGain(Measure):
    """What the answers gain by their places, divided by what the truth itself would.

    The j-th nearest of k' is worth k' + 1 - j, rows that tie as much as the first of them; an answer at place
    p counts 1 / log2(p + 1) of that.
    """

    def __str__(self) -> str:
        return f"ndcg@{self.k}"

    def per_query(self, compared: Compared) -> NDArray[np.float64]:
        require_within(self.k, compared.truth)
        cut = np.minimum(compared.available, self.k)
        gains = np.maximum(cut[:, None] - compared.block_starts, 0) * (compared.truth.rows >= 0)
        discounts = np.append(1.0 / np.log2(np.arange(self.k) + 2.0), 0.0)
        places = compared.places.up_to(self.k)
        gained = (gains * discounts[places]).sum(axis=1)
        queries, beyond = compared.beyond
        last = np.maximum(cut[queries] - compared.block_starts[queries, -1], 0)
        np.add.at(gained, queries, last * discounts[np.minimum(beyond, self.k)])
        columns = np.arange(compared.truth.depth)
        inside = np.where(columns < cut[:, None], discounts[np.minimum(columns, self.k)], 0.0)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(gained / (gains * inside).sum(axis=1))
