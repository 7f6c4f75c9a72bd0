"""Memory models: the bytes that an index holds, predicted from its build and corrected by a measured part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from recallatk.adapters.registry import get_engine
from recallatk.errors import RecallError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from recallatk.core import Metric

FLOAT_BYTES, LINK_BYTES, NUMBER_BYTES = 4, 4, 8
# A part that takes more or less than this factor of what is predicted, and more than a process wobbles by,
# says that the prediction is wrong.
_OFF, _WOBBLE = 1.5, 8 << 20
# A process that has let an index go may fill its leftovers first: below this share a measurement is no proof.
_LEAST = 0.9


@dataclass(frozen=True)
class Content:
    """The bytes of an index: a fixed part, and a part for each row."""

    fixed: float
    per_row: float

    def of(self, rows: int) -> float:
        """All bytes of an index of so many rows."""
        return self.fixed + self.per_row * rows


def graph_content(neighbors: int, vector_bytes: float, row_bytes: float = 0, fixed: float = 0) -> Content:
    """An HNSW graph: per row its vector, links, number and level, and what the library adds to each."""
    # Twice as many links on the ground level, and the row's share of the levels above.
    links = LINK_BYTES * (2 * neighbors + neighbors / max(1, neighbors - 1))
    return Content(fixed, vector_bytes + links + NUMBER_BYTES + LINK_BYTES + row_bytes)


def content(engine: str, build: Mapping[str, Any], dimension: int, metric: Metric) -> Content | None:
    """The memory model of the engine for this build; None for engines that have none."""
    try:
        return get_engine(engine).content(build, dimension, metric)
    except RecallError:
        return None


def grown(part_bytes: float, part_rows: int, rows: int, known: Content | None) -> float:
    """Bytes of the whole if a part took so much: the fixed part once, the rows by their number.

    Without a model everything is taken to grow with the rows. A part that contradicts the model corrects it.
    """
    if known is None:
        return part_bytes * rows / part_rows
    factor = part_bytes / known.of(part_rows) if contradicts(part_bytes, known.of(part_rows)) else 1.0
    return part_bytes + factor * known.per_row * (rows - part_rows)


def contradicts(measured: float, predicted: float) -> bool:
    """Whether a measurement is further from a prediction than the two can differ by."""
    low, high = sorted((measured, predicted))
    return high > _OFF * low and high - low > _WOBBLE


def at_least(measured: int | None, known: Content | None, rows: int) -> int | None:
    """A measurement, or what the index holds where that is clearly more."""
    if measured is None or known is None or measured >= _LEAST * known.of(rows):
        return measured
    return int(known.of(rows))
