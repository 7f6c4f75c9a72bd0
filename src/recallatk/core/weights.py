"""Weights of queries: how much each counts in a mean, such as its share of the traffic."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Weights:
    """One weight per query, taken from a query column."""

    column: str
    values: NDArray[np.float64]
    """Finite, 0 or more, not all 0."""

    def __len__(self) -> int:
        return len(self.values)

    def take(self, which: Any) -> Weights:
        """The weights of some queries, by number or mask."""
        return replace(self, values=self.values[which])

    @property
    def effective(self) -> float:
        """The effective number of queries."""
        return effective_number(self.values)


def effective_number(weights: NDArray[np.float64]) -> float:
    """The number of equally weighted queries whose mean is as precise: (Σw)² / Σw² (Kish 1965)."""
    import numpy as np

    most = float(np.max(weights, initial=0.0))
    if most == 0:
        return 0.0
    # Relative to the heaviest, because squares of large counts overflow.
    relative = weights / most
    return float(np.sum(relative)) ** 2 / float(np.sum(relative * relative))


def unequal(weights: NDArray[np.float64] | None) -> NDArray[np.float64] | None:
    """The weights where they differ; None where all are equal, so that they change no bit of a result."""
    if weights is None or not len(weights) or (weights == weights[0]).all():
        return None
    return weights
