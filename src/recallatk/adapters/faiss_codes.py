"""faiss-sq and faiss-pq-fastscan: scans over quantized codes, with optional reranking by whole vectors."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from recallatk.adapters.base import Constraint
from recallatk.adapters.faiss_library import FaissEngine
from recallatk.core import Knob

if TYPE_CHECKING:
    from collections.abc import Mapping

    from recallatk.adapters.snippet import Setting

REFINE = Knob(
    "refine", default="flat", choices=("flat", "none"), help="whether to keep full vectors for reranking"
)
K_FACTOR = Knob(
    "k_factor",
    default=4,
    low=0,
    high=64,
    effort=True,
    reranks=True,
    help="candidates reranked per neighbor; 0 ranks by codes only",
)
VECTORS_TO_REFINE_BY = Constraint(
    "k_factor = 0 with refine = none",
    ("refine", "k_factor"),
    lambda refine, k_factor: bool(refine == "flat" or k_factor == 0),
)
M_DIVIDES_DIMENSION = Constraint(
    "an M that divides the dimension", ("M", "dimension"), lambda M, dimension: bool(dimension % M == 0)
)


class FaissSq(FaissEngine):
    """IndexScalarQuantizer: a scan over scalar codes; no updates, because deletes renumber rows."""

    name = "faiss-sq"
    build_knobs = (
        Knob("type", default="SQ8", choices=("SQ8", "SQ6", "SQ4", "SQfp16", "SQbf16"), help="storage type"),
    )
    whole_vectors = ("type", ())
    factory = "{type}"

    def scans(self) -> bool:
        """Every code is compared."""
        return True


class FaissRefined(FaissEngine):
    """An index of codes, wrapped in an IndexRefineFlat if the build keeps the vectors."""

    quantized = True

    @classmethod
    def recipe(cls, parameters: Mapping[str, Any]) -> str:
        """Factory string of the codes, and of the vectors if the build keeps them."""
        return super().recipe(parameters) + (",RFlat" if parameters["refine"] == "flat" else "")

    def apply(self, settings: Mapping[str, Any]) -> None:
        """Set the number of candidates to rerank."""
        super().apply(settings)
        if self._keeps_vectors():
            self.index.k_factor = settings["k_factor"] or 1
        elif settings["k_factor"]:
            raise self.unable("rerank without full vectors; build with refine=flat")

    def answering(self) -> Any:
        """The index of codes alone if reranking is off."""
        import faiss

        # Before `configure`, the library's own default applies.
        if self._keeps_vectors() and self.settings.get("k_factor") == 0:
            return faiss.downcast_index(self.index.base_index)
        return self.index

    def filtered(self, selector: Any) -> Any:
        """Filter the scan over codes; only rows that pass are reranked."""
        import faiss

        inner = super().filtered(selector)
        if not self._keeps_vectors() or self.settings.get("k_factor") == 0:
            return inner
        return faiss.IndexRefineSearchParameters(k_factor=self.index.k_factor, base_index_params=inner)

    def _keeps_vectors(self) -> bool:
        return hasattr(self.index, "refine_index")

    @classmethod
    def effort_lines(cls, setting: Setting) -> list[str]:
        """Code that sets the number of candidates to rerank."""
        found, factor = super().effort_lines(setting), setting.search["k_factor"]
        refines = factor and setting.build["refine"] == "flat"
        return [*found, f"index.k_factor = {factor}"] if refines else found

    @classmethod
    def answering_name(cls, setting: Setting) -> str:
        """The index of codes alone if reranking is off."""
        codes_only = setting.build["refine"] == "flat" and setting.search["k_factor"] == 0
        return "index.base_index" if codes_only else "index"


class FaissPqFastScan(FaissRefined):
    """IndexPQFastScan: a scan over 4-bit PQ codes in registers; no filters."""

    name = "faiss-pq-fastscan"
    abilities = replace(FaissRefined.abilities, filters=False)
    build_knobs = (Knob("M", default=8, low=1, high=4096, help="subquantizers of four bits"), REFINE)
    search_knobs = (K_FACTOR,)
    constraints = (
        M_DIVIDES_DIMENSION,
        VECTORS_TO_REFINE_BY,
        Constraint("at least 16 rows to train its codes", ("rows",), lambda rows: bool(rows >= 16)),
    )
    factory = "PQ{M}x4fs"

    def scans(self) -> bool:
        """Every code is compared."""
        return True
