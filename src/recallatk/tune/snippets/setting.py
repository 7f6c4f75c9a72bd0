"""One setting that is to become code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from recallatk.core import Metric

if TYPE_CHECKING:
    from collections.abc import Mapping

INPUTS = "# vectors and queries: float32 arrays of (rows, dimension)"
UNIT = "vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)"


@dataclass(frozen=True)
class Setting:
    """An engine with all of its parameters, and how many neighbours are asked for."""

    engine: str
    metric: Metric
    build: Mapping[str, Any]
    search: Mapping[str, Any]
    k: int
    dimension: int | None = None

    @property
    def unit(self) -> bool:
        """Whether a library that knows only inner products needs vectors of unit length."""
        return self.metric is Metric.COSINE


def lines(*parts: str | None) -> str:
    """The lines that there are."""
    return "\n".join(part for part in parts if part is not None)
