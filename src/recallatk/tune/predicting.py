"""What an index will hold in memory, from its build and its data, and what a measurement says of that."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from recallatk.core import Metric

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_FLOAT, _LINK, _NUMBER = 4, 4, 8
# Bytes that usearch keeps of a value.
_VALUE = {"f32": 4.0, "f16": 2.0, "bf16": 2.0, "i8": 1.0, "b1": 0.125}
# hnswlib: one lock for each of 65,536 labels; for each row a lock, a place in its table and two pointers.
_LABEL_LOCKS, _HNSWLIB_ROW = 65_536 * 40, 90
# usearch: for each row a place in its table of keys, a pointer, and what its allocator rounds up.
_USEARCH_ROW = 110
# For l2, faiss multiplies the centres with the codebooks once, unless that would be larger.
_MOST_PRECOMPUTED = 2 << 30
# A part that takes more or less than this factor of what is predicted, and more than a process wobbles by,
# says that the prediction is wrong.
_OFF, _WOBBLE = 1.5, 8 << 20
# A process that has let an index go may fill its leftovers first: below this share a measurement is no proof.
_LEAST = 0.9


@dataclass(frozen=True)
class Content:
    """The bytes of an index, whatever the number of its rows and for each of them."""

    fixed: float
    per_row: float

    def of(self, rows: int) -> float:
        """All bytes of an index of so many rows."""
        return self.fixed + self.per_row * rows


def content(engine: str, build: Mapping[str, Any], dimension: int, metric: Metric) -> Content | None:
    """What an index of this build holds; None for engines whose inside is not known here."""
    model = _MODELS.get(engine)
    found = None if model is None else model(build, dimension)
    if found is not None and engine == "faiss-ivf-pq" and metric is Metric.L2:
        table = _FLOAT * build["nlist"] * build["M"] * (1 << build["nbits"])
        return Content(found.fixed + (table if table <= _MOST_PRECOMPUTED else 0), found.per_row)
    return found


def grown(part_bytes: float, part_rows: int, rows: int, known: Content | None) -> float:
    """What the whole will take if a part took so much: what is there anyway once, the rows by their number.

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


def _graph_links(neighbours: int) -> float:
    """Links of a row: twice as many on the ground, and its share of the levels above."""
    return _LINK * (2 * neighbours + neighbours / max(1, neighbours - 1))


def _faiss_hnsw(build: Mapping[str, Any], dimension: int) -> Content:
    return Content(0, _FLOAT * dimension + _graph_links(build["M"]) + _NUMBER + _LINK)


def _hnswlib(build: Mapping[str, Any], dimension: int) -> Content:
    node = _FLOAT * dimension + _graph_links(build["M"]) + _NUMBER + _LINK
    return Content(_LABEL_LOCKS, node + _HNSWLIB_ROW)


def _usearch(build: Mapping[str, Any], dimension: int) -> Content:
    value = _VALUE.get(build["storage"], _FLOAT)
    return Content(
        0, value * dimension + _graph_links(build["connectivity"]) + _NUMBER + _LINK + _USEARCH_ROW
    )


def _ivf_flat(build: Mapping[str, Any], dimension: int) -> Content:
    return Content(_FLOAT * dimension * build["nlist"], _FLOAT * dimension + _NUMBER)


def _ivf_pq(build: Mapping[str, Any], dimension: int) -> Content:
    centres, codes = build["nlist"], 1 << build["nbits"]
    refined = _FLOAT * dimension if build["refine"] == "flat" else 0
    code = -(-build["M"] * build["nbits"] // 8)
    return Content(_FLOAT * dimension * (centres + codes), code + _NUMBER + refined)


_MODELS: dict[str, Callable[[Mapping[str, Any], int], Content]] = {
    "faiss-hnsw": _faiss_hnsw,
    "hnswlib": _hnswlib,
    "usearch": _usearch,
    "faiss-ivf-flat": _ivf_flat,
    "faiss-ivf-pq": _ivf_pq,
}
