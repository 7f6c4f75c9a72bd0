"""Judged answers: how good answers are downstream, per query, for a trial and for exact search."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Judged:
    """The quality of a trial's answers and of those of exact search, by name of the measure."""

    identity: str
    """What the answers were judged by; values of another identity are not comparable."""
    values: Mapping[str, NDArray[np.float64]]
    """One value per query; NaN for queries that were not judged or not sent."""
    exact: Mapping[str, NDArray[np.float64]]
    """The same of exact search; NaN for queries that were not judged."""
    notes: tuple[str, ...] = ()
    """What a reader must know, such as ids in the judgments that the data do not have."""

    @property
    def names(self) -> tuple[str, ...]:
        """The measures."""
        return tuple(self.values)
