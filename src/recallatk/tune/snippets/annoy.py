"""The forest of annoy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recallatk.core import Metric
from recallatk.tune.snippets.setting import INPUTS, lines

if TYPE_CHECKING:
    from recallatk.tune.snippets.setting import Setting

_METRICS = {Metric.COSINE: "angular", Metric.IP: "dot", Metric.L2: "euclidean"}


def write(setting: Setting) -> str:
    """Hand over the rows one by one, build, search one by one."""
    asked = f"index.get_nns_by_vector(query, {setting.k}, search_k={setting.search['search_k']})"
    return lines(
        "import annoy",
        "",
        INPUTS,
        f'index = annoy.AnnoyIndex(vectors.shape[1], "{_METRICS[setting.metric]}")',
        "for row, vector in enumerate(vectors):",
        "    index.add_item(row, vector)",
        f"index.build({setting.build['n_trees']})",
        "",
        f"found = [{asked} for query in queries]",
    )
