"""pgvector-hnsw: pgvector's graph index in a real PostgreSQL."""

from __future__ import annotations

from typing import Any

from recallatk.core import Knob
from recallatk.engines.base import Constraint
from recallatk.engines.postgres import POSTGRES_BUILD_KNOBS, POSTGRES_SEARCH_KNOBS, Postgres


class PgvectorHnsw(Postgres):
    """CREATE INDEX ... USING hnsw; a search returns no more than `ef` rows unless it scans iteratively."""

    name = "pgvector-hnsw"
    method = "hnsw"
    build_knobs = (
        Knob("M", default=16, low=2, high=100),
        Knob("ef_construction", default=64, low=4, high=1000, effort=True),
        *POSTGRES_BUILD_KNOBS,
    )
    search_knobs = (
        Knob("ef", default=40, low=1, high=1000, effort=True),
        Knob("iterative_scan", default="off", choices=("off", "relaxed_order", "strict_order")),
        *POSTGRES_SEARCH_KNOBS,
    )
    constraints = (
        Constraint(
            "ef_construction of at least 2 M",
            ("M", "ef_construction"),
            lambda M, ef_construction: ef_construction >= 2 * M,
        ),
    )

    def options(self, **parameters: Any) -> dict[str, int]:
        """How the graph is made."""
        return {"m": parameters["M"], "ef_construction": parameters["ef_construction"]}

    def configure(self, **parameters: Any) -> None:
        """Set how many candidates a search keeps, and whether it goes on when a filter took them."""
        super().configure(**parameters)
        self.set({"hnsw.ef_search": parameters["ef"], "hnsw.iterative_scan": parameters["iterative_scan"]})
