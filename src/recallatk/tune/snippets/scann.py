"""The partitions of ScaNN, with scores in codes and the best ranked again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recallatk.core import Metric
from recallatk.tune.snippets.setting import INPUTS, UNIT, lines

if TYPE_CHECKING:
    from recallatk.tune.snippets.setting import Setting


def write(setting: Setting) -> str:
    """Learn the partitions and codes, search with both efforts."""
    leaves, search = setting.build["num_leaves"], setting.search
    euclidean = setting.metric is Metric.L2
    distance = "squared_l2" if euclidean else "dot_product"
    threshold = 'float("nan")' if euclidean else "0.2"
    return lines(
        "import numpy as np" if setting.unit else None,
        "from scann import scann_ops_pybind",
        "",
        INPUTS,
        f"{UNIT}  # cosine" if setting.unit else None,
        "searcher = (",
        f'    scann_ops_pybind.builder(vectors, {setting.k}, "{distance}")',
        f"    .tree({leaves}, {leaves}, training_sample_size=min(len(vectors), 250_000))",
        f"    .score_ah(2, anisotropic_quantization_threshold={threshold})",
        f"    .reorder({search['reorder']})",
        "    .build()",
        ")",
        "",
        "found, distances = searcher.search_batched(",
        f"    queries, {setting.k}, pre_reorder_num_neighbors={search['reorder']}, "
        f"leaves_to_search={search['leaves_to_search']}",
        ")",
    )
