"""faiss-ivf-sq8: vectors of one byte a dimension in lists, of which a search visits some."""

from __future__ import annotations

from recallatk.engines.faiss_inverted import FaissInverted


class FaissIvfSq8(FaissInverted):
    """IndexIVFScalarQuantizer of 8 bits."""

    name = "faiss-ivf-sq8"
    codes = "SQ8"
