"""The graph of hnswlib."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recallatk.tune.snippets.setting import INPUTS, lines

if TYPE_CHECKING:
    from recallatk.tune.snippets.setting import Setting


def write(setting: Setting) -> str:
    """Add every row, set ef, search."""
    build = setting.build
    return lines(
        "import hnswlib",
        "",
        INPUTS,
        f'index = hnswlib.Index(space="{setting.metric}", dim=vectors.shape[1])',
        f"index.init_index(len(vectors), M={build['M']}, ef_construction={build['ef_construction']})",
        "index.add_items(vectors)",
        "",
        f"index.set_ef({setting.search['ef']})",
        f"found, distances = index.knn_query(queries, k={setting.k})",
    )
