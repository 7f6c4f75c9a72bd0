"""rbo(p)@k: rank-biased overlap with the truth's order (Webber, Moffat, Zobel 2010), cut at k."""

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
