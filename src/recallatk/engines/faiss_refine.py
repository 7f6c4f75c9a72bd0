"""Re-ranking for the quantised engines of faiss: the best by their codes, ranked again by their vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from recallatk.core import Knob
from recallatk.engines.base import Constraint
from recallatk.engines.faiss_library import FaissEngine

if TYPE_CHECKING:
    from collections.abc import Mapping

REFINE = Knob("refine", default="flat", choices=("flat", "none"), help="whether the vectors are kept")
K_FACTOR = Knob(
    "k_factor",
    default=4,
    low=0,
    high=64,
    effort=True,
    help="candidates for each neighbour that are ranked again by their vectors; 0 ranks by codes only",
)
VECTORS_TO_REFINE_BY = Constraint(
    "k_factor = 0 where refine = none, since no vectors are kept",
    ("refine", "k_factor"),
    lambda refine, k_factor: bool(refine == "flat" or k_factor == 0),
)
M_DIVIDES_DIMENSION = Constraint(
    "an M that divides the dimension", ("M", "dimension"), lambda M, dimension: bool(dimension % M == 0)
)


class FaissRefined(FaissEngine):
    """An index of codes, inside an IndexRefineFlat where the vectors are kept."""

    def refine(self, parameters: Mapping[str, Any]) -> str:
        """How the recipe ends."""
        return ",RFlat" if parameters["refine"] == "flat" else ""

    def apply(self, settings: Mapping[str, Any]) -> None:
        """Set how many candidates are ranked again."""
        super().apply(settings)
        if self._keeps_vectors():
            self.index.k_factor = settings["k_factor"] or 1
        elif settings["k_factor"]:
            raise self.unable("refine by vectors that it does not keep; build with refine=flat")

    def searched(self) -> Any:
        """The codes alone where nothing is to be ranked again."""
        import faiss

        # Before it is configured, an index does what the library does with it.
        if self._keeps_vectors() and self.settings.get("k_factor") == 0:
            return faiss.downcast_index(self.index.base_index)
        return self.index

    def filtered(self, selector: Any) -> Any:
        """The selector goes to the codes; what they let pass is ranked again."""
        import faiss

        inner = super().filtered(selector)
        if not self._keeps_vectors() or self.settings.get("k_factor") == 0:
            return inner
        return faiss.IndexRefineSearchParameters(k_factor=self.index.k_factor, base_index_params=inner)

    def _keeps_vectors(self) -> bool:
        return hasattr(self.index, "refine_index")
