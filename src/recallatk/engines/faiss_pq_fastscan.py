"""faiss-pq-fastscan: a scan over codes of four bits held in registers, with the best ranked again."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from recallatk.core import Knob
from recallatk.engines.base import Constraint
from recallatk.engines.faiss_refine import (
    K_FACTOR,
    M_DIVIDES_DIMENSION,
    REFINE,
    VECTORS_TO_REFINE_BY,
    FaissRefined,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from recallatk.core import Corpus


class FaissPqFastScan(FaissRefined):
    """IndexPQFastScan, which takes no filters."""

    name = "faiss-pq-fastscan"
    abilities = replace(FaissRefined.abilities, filters=False)
    build_knobs = (Knob("M", default=8, low=1, high=4096, help="subquantisers of four bits"), REFINE)
    search_knobs = (K_FACTOR,)
    constraints = (
        M_DIVIDES_DIMENSION,
        VECTORS_TO_REFINE_BY,
        Constraint("16 rows or more to learn its codes from", ("rows",), lambda rows: bool(rows >= 16)),
    )

    def recipe(self, corpus: Corpus, parameters: Mapping[str, Any]) -> str:
        """Codes without lists."""
        return f"PQ{parameters['M']}x4fs{self.refine(parameters)}"
