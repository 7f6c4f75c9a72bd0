"""faiss-ivf-flat: whole vectors in lists, of which a search visits some."""

from __future__ import annotations

from recallatk.engines.faiss_inverted import FaissInverted


class FaissIvfFlat(FaissInverted):
    """IndexIVFFlat."""

    name = "faiss-ivf-flat"
    codes = "Flat"
