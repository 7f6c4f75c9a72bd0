"""Memory models: index size predicted from build parameters, corrected by measuring a smaller build."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from recallatk.adapters.registry import get_engine
from recallatk.errors import RecallError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from recallatk.core import Metric

FLOAT_BYTES, LINK_BYTES, NUMBER_BYTES = 4, 4, 8
# The prediction is wrong if a measured part differs from it by more than this factor, and by more than the
# noise of process memory.
_OFF, _WOBBLE = 1.5, 8 << 20
# A process may reuse memory of a dropped index: a measurement below this share proves nothing.
_LEAST = 0.9


@dataclass(frozen=True)
class Content:
    """Bytes of an index: a fixed part and a part per row."""

    fixed: float
    per_row: float

    def of(self, rows: int) -> float:
        """Total bytes of an index with this many rows."""
        return self.fixed + self.per_row * rows


def graph_content(neighbors: int, vector_bytes: float, row_bytes: float = 0, fixed: float = 0) -> Content:
    """Bytes of an HNSW graph: per row its vector, links, number, level and the library's overhead."""
    # The ground level has 2 M links per row; the levels above add a share per row.
    links = LINK_BYTES * (2 * neighbors + neighbors / max(1, neighbors - 1))
    return Content(fixed, vector_bytes + links + NUMBER_BYTES + LINK_BYTES + row_bytes)


def content(engine: str, build: Mapping[str, Any], dimension: int, metric: Metric) -> Content | None:
    """The engine's memory model for this build; None if it has none."""
    try:
        return get_engine(engine).content(build, dimension, metric)
    except RecallError:
        return None


def grown(part_bytes: float, part_rows: int, rows: int, known: Content | None) -> float:
    """Extrapolate the measured bytes of a smaller build: the fixed part once, the rest by row count.

    Without a model, everything is assumed to grow with the rows. A measurement that contradicts the model
    corrects it.
    """
    if known is None:
        return part_bytes * rows / part_rows
    factor = part_bytes / known.of(part_rows) if contradicts(part_bytes, known.of(part_rows)) else 1.0
    return part_bytes + factor * known.per_row * (rows - part_rows)


def contradicts(measured: float, predicted: float) -> bool:
    """Whether a measurement differs from a prediction by more than noise explains."""
    low, high = sorted((measured, predicted))
    return high > _OFF * low and high - low > _WOBBLE


def at_least(measured: int | None, known: Content | None, rows: int) -> int | None:
    """The measured bytes, or the predicted ones if these are clearly larger."""
    if measured is None or known is None or measured >= _LEAST * known.of(rows):
        return measured
    return int(known.of(rows))
