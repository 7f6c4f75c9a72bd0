"""faiss-ivf-flat: whole vectors in lists, of which a search visits some."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from recallatk.engines.base import Abilities
from recallatk.engines.faiss_inverted import FaissInverted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from recallatk.core import Corpus


class FaissIvfFlat(FaissInverted):
    """IndexIVFFlat."""

    name = "faiss-ivf-flat"
    abilities = Abilities(filters=True, updates=True, threads=True, deterministic=True, saves=True)

    def recipe(self, corpus: Corpus, parameters: Mapping[str, Any]) -> str:
        """The lists and what is in them."""
        return f"{self.lists(corpus, parameters)},Flat"
