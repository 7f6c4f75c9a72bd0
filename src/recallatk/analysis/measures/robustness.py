"""robust(δ)@k: the share of queries whose recall@k is at least δ (arXiv 2507.00379)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from recallatk.analysis.measures.base import Measure, plain, require_fraction

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recallatk.analysis.compared import Compared

# A share such as 0.9 is no binary number, and 9 of 10 must reach it.
_ROUNDING = 1e-12


@dataclass(frozen=True)
class Robustness(Measure):
    """Whether a query has at least the recall@k `least`, ties as in recall."""

    least: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        require_fraction(self.least, "robust(δ)")

    def __str__(self) -> str:
        return f"robust({plain(self.least)})@{self.k}"

    @property
    def is_share(self) -> bool:
        return True

    def of_recalls(self, recalls: NDArray[np.float64]) -> NDArray[np.float64]:
        """The same from the recall@k of every query; NaN stays."""
        reached = (recalls >= self.least - _ROUNDING * self.k).astype(np.float64)
        return np.where(np.isnan(recalls), np.nan, reached)

    def per_query(self, compared: Compared) -> NDArray[np.float64]:
        found = compared.hits(self.k)
        reached = found.tie_aware >= self.least * found.cut - _ROUNDING * self.k
        return np.where(found.cut > 0, reached.astype(np.float64), np.nan)
