"""The graph of voyager."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recallatk.core import Metric
from recallatk.tune.snippets.setting import INPUTS, lines

if TYPE_CHECKING:
    from recallatk.tune.snippets.setting import Setting

_SPACES = {Metric.COSINE: "Cosine", Metric.IP: "InnerProduct", Metric.L2: "Euclidean"}
_STORAGES = {"f32": "Float32", "e4m3": "E4M3", "i8": "Float8"}


def write(setting: Setting) -> str:
    """Add every row, and search with its own ef."""
    build = setting.build
    return lines(
        "import voyager",
        "",
        INPUTS,
        "index = voyager.Index(",
        f"    voyager.Space.{_SPACES[setting.metric]},",
        "    num_dimensions=vectors.shape[1],",
        f"    M={build['M']},",
        f"    ef_construction={build['ef_construction']},",
        f"    storage_data_type=voyager.StorageDataType.{_STORAGES[build['storage']]},",
        ")",
        "index.add_items(vectors)",
        "",
        f"found, distances = index.query(queries, k={setting.k}, query_ef={setting.search['ef']})",
    )
