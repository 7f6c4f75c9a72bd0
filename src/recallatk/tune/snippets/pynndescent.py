"""The graph of pynndescent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recallatk.core import Metric
from recallatk.tune.snippets.setting import INPUTS, lines

if TYPE_CHECKING:
    from recallatk.tune.snippets.setting import Setting

_METRICS = {Metric.COSINE: "cosine", Metric.IP: "inner_product", Metric.L2: "euclidean"}


def write(setting: Setting) -> str:
    """Make the graph, search with its epsilon."""
    neighbours = setting.build["n_neighbors"]
    return lines(
        "from pynndescent import NNDescent",
        "",
        INPUTS,
        f'index = NNDescent(vectors, "{_METRICS[setting.metric]}", n_neighbors={neighbours}, random_state=1)',
        "index.prepare()",
        "",
        f"found, distances = index.query(queries, k={setting.k}, epsilon={setting.search['epsilon']})",
    )
