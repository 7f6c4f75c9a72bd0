"""Measures counted in hits: recall@k, k1-recall@k2 and robust(δ)@k."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from recallatk.analysis.compared import shares
from recallatk.analysis.measures.base import Measure, plain, require_fraction
from recallatk.errors import UsageError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recallatk.analysis.compared import Compared


@dataclass(frozen=True)
class Recall(Measure):
    """The share of the true top k among the first k answers.

    With k' = min(k, eligible rows), S the rows strictly better than the k'-th best score and B the rows
    that tie with it, (|A∩S| + min(k' - |S|, |A∩B|)) / k', where A is the first k distinct known answers.
    By strict ids |A ∩ first k' of the truth| / k'.

    Fewer answers than k' change nothing below the line. No eligible row: no recall.
    """

    strict: bool = False

    def __str__(self) -> str:
        return f"recall@{self.k}{'(ids)' if self.strict else ''}"

    @property
    def is_share(self) -> bool:
        return self.k == 1

    def per_query(self, compared: Compared) -> NDArray[np.float64]:
        found = compared.hits(self.k)
        return shares(found.strict if self.strict else found.tie_aware, found.cut)

    def by_ids(self, compared: Compared) -> NDArray[np.float64] | None:
        found = compared.hits(self.k)
        return shares(found.strict, found.cut)


@dataclass(frozen=True)
class RecallWithin(Measure):
    """k1-recall@k2: the share of the true top `of` among the first k answers, ties as in recall."""

    of: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.of <= self.k:
            raise UsageError(f"recall{self.of}@{self.k}. Accepted: a first number from 1 to {self.k}")

    def __str__(self) -> str:
        return f"recall{self.of}@{self.k}"

    @property
    def is_share(self) -> bool:
        return self.of == 1

    @property
    def deepest(self) -> int:
        return self.of

    def per_query(self, compared: Compared) -> NDArray[np.float64]:
        found = compared.hits(self.of, within=self.k)
        return shares(found.tie_aware, found.cut)

    def by_ids(self, compared: Compared) -> NDArray[np.float64] | None:
        found = compared.hits(self.of, within=self.k)
        return shares(found.strict, found.cut)


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
