"""Memory models: the bytes that an index holds, from its build parameters and its data."""

from __future__ import annotations

from dataclasses import dataclass

FLOAT_BYTES, LINK_BYTES, NUMBER_BYTES = 4, 4, 8


@dataclass(frozen=True)
class Content:
    """The bytes of an index: a fixed part, and a part for each row."""

    fixed: float
    per_row: float

    def of(self, rows: int) -> float:
        """All bytes of an index of so many rows."""
        return self.fixed + self.per_row * rows


def graph_content(neighbours: int, vector_bytes: float, row_bytes: float = 0, fixed: float = 0) -> Content:
    """An HNSW graph: per row its vector, links, number and level, and what the library adds to each."""
    # Twice as many links on the ground level, and the row's share of the levels above.
    links = LINK_BYTES * (2 * neighbours + neighbours / max(1, neighbours - 1))
    return Content(fixed, vector_bytes + links + NUMBER_BYTES + LINK_BYTES + row_bytes)
