"""faiss-ivf-pq: product-quantised codes in lists, with the best ranked again by their vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from recallatk.core import Knob
from recallatk.engines.base import Constraint
from recallatk.engines.faiss_inverted import NLIST, NPROBE, NPROBE_WITHIN_NLIST, FaissInverted
from recallatk.engines.faiss_library import FaissEngine
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


class FaissIvfPq(FaissRefined, FaissInverted):
    """IndexIVFPQ. It takes no updates: IndexRefineFlat cannot delete."""

    name = "faiss-ivf-pq"
    abilities = FaissEngine.abilities
    build_knobs = (
        NLIST,
        Knob("M", default=8, low=1, high=4096, help="subquantisers"),
        Knob("nbits", default=8, low=1, high=12, scale="linear", help="bits of the code of each"),
        REFINE,
    )
    search_knobs = (NPROBE, K_FACTOR)
    constraints = (
        NPROBE_WITHIN_NLIST,
        M_DIVIDES_DIMENSION,
        VECTORS_TO_REFINE_BY,
        Constraint(
            "2^nbits rows or more to learn its codes from",
            ("nbits", "rows"),
            lambda nbits, rows: bool(1 << nbits <= rows),
        ),
    )

    def recipe(self, corpus: Corpus, parameters: Mapping[str, Any]) -> str:
        """Lists of codes."""
        # np: no polysemous training, which takes most of a build and serves a search by Hamming distance.
        codes = f"PQ{parameters['M']}x{parameters['nbits']}np"
        return f"{self.lists(corpus, parameters)},{codes}{self.refine(parameters)}"
