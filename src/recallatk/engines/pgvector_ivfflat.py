"""pgvector-ivfflat: pgvector's inverted lists in a real PostgreSQL."""

from __future__ import annotations

from typing import Any

from recallatk.core import Knob
from recallatk.engines.base import Constraint
from recallatk.engines.postgres import POSTGRES_BUILD_KNOBS, POSTGRES_SEARCH_KNOBS, Postgres


class PgvectorIvfFlat(Postgres):
    """CREATE INDEX ... USING ivfflat."""

    name = "pgvector-ivfflat"
    method = "ivfflat"
    build_knobs = (Knob("lists", default=100, low=1, high=32_768), *POSTGRES_BUILD_KNOBS)
    search_knobs = (
        Knob("probes", default=1, low=1, high=32_768, effort=True),
        Knob("iterative_scan", default="off", choices=("off", "relaxed_order")),
        *POSTGRES_SEARCH_KNOBS,
    )
    constraints = (
        Constraint("no more probes than lists", ("probes", "lists"), lambda probes, lists: probes <= lists),
    )

    def options(self, **parameters: Any) -> dict[str, int]:
        """Into how many lists the rows go."""
        return {"lists": parameters["lists"]}

    def configure(self, **parameters: Any) -> None:
        """Set how many lists a search reads, and whether it reads more when a filter took their rows."""
        super().configure(**parameters)
        self.set(
            {"ivfflat.probes": parameters["probes"], "ivfflat.iterative_scan": parameters["iterative_scan"]}
        )
