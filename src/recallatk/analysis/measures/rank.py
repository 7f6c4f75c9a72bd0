"""Measures of rank: mrr@k, ndcg_truth@k and rbo(p)@k."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from recallatk.analysis.compared import require_within, shares
from recallatk.analysis.measures.base import Measure, plain, require_fraction

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


@dataclass(frozen=True)
class DiscountedGain(Measure):
    """What the answers gain by their places, divided by what the truth itself would.

    The j-th nearest of k' is worth k' + 1 - j, rows that tie as much as the first of them; an answer at place
    p counts 1 / log2(p + 1) of that.
    """

    def __str__(self) -> str:
        return f"ndcg_truth@{self.k}"

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


@dataclass(frozen=True)
class RankBiasedOverlap(Measure):
    """The mean of recall@1 to recall@k', the d-th with the weight p^(d-1); 1 for the truth itself."""

    persistence: float = 0.9

    def __post_init__(self) -> None:
        super().__post_init__()
        require_fraction(self.persistence, "rbo(p)", inclusive=False)

    def __str__(self) -> str:
        return f"rbo({plain(self.persistence)})@{self.k}"

    def per_query(self, compared: Compared) -> NDArray[np.float64]:
        require_within(self.k, compared.truth)
        total, weights = np.zeros(len(compared)), np.zeros(len(compared))
        for depth in range(1, self.k + 1):
            weight = self.persistence ** (depth - 1) * (compared.available >= depth)
            found = compared.hits(depth)
            total += weight * np.nan_to_num(shares(found.tie_aware, found.cut))
            weights += weight
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(total / weights)
