"""faiss-sq: a scan over vectors of fewer bits a dimension."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from recallatk.core import Knob
from recallatk.engines.faiss_library import FaissEngine

if TYPE_CHECKING:
    from collections.abc import Mapping

    from recallatk.core import Corpus


class FaissSq(FaissEngine):
    """IndexScalarQuantizer. It takes no updates: a deletion would number the rows behind it anew."""

    name = "faiss-sq"
    build_knobs = (
        Knob("type", default="SQ8", choices=("SQ8", "SQ6", "SQ4", "SQfp16", "SQbf16"), help="of a dimension"),
    )

    def recipe(self, corpus: Corpus, parameters: Mapping[str, Any]) -> str:
        """The type is a recipe."""
        return str(parameters["type"])
