"""The graph of usearch, with vectors in as many bits as were chosen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recallatk.core import Metric
from recallatk.tune.snippets.setting import INPUTS, lines

if TYPE_CHECKING:
    from recallatk.tune.snippets.setting import Setting

_METRICS = {Metric.COSINE: "cos", Metric.IP: "ip", Metric.L2: "l2sq"}


def write(setting: Setting) -> str:
    """Add every row, set the expansion, search."""
    build = setting.build
    signs = build["storage"] == "b1"
    stored, asked = (
        ("np.packbits(vectors > 0, axis=1)", "np.packbits(queries > 0, axis=1)")
        if signs
        else ("vectors", "queries")
    )
    return lines(
        "import numpy as np",
        "from usearch.index import Index",
        "",
        INPUTS,
        "index = Index(",
        f"    ndim={'-(-vectors.shape[1] // 8) * 8' if signs else 'vectors.shape[1]'},",
        f'    metric="{"hamming" if signs else _METRICS[setting.metric]}",',
        f'    dtype="{build["storage"]}",',
        f"    connectivity={build['connectivity']},",
        f"    expansion_add={build['expansion_add']},",
        ")",
        f"index.add(np.arange(len(vectors)), {stored})",
        "",
        f"index.expansion_search = {setting.search['expansion']}",
        f"found = index.search({asked}, {setting.k}).keys",
    )
