"""The indexes of faiss, by its index factory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from recallatk.core import Metric
from recallatk.tune.snippets.setting import INPUTS, UNIT, lines

if TYPE_CHECKING:
    from collections.abc import Mapping

    from recallatk.tune.snippets.setting import Setting

_FIXED = {"exact": "Flat", "faiss-ivf-flat": "IVF{nlist},Flat", "faiss-ivf-sq8": "IVF{nlist},SQ8"}
_RECIPES = _FIXED | {
    "faiss-hnsw": "HNSW{M},Flat",
    "faiss-ivf-pq": "IVF{nlist},PQ{M}x{nbits}np",
    "faiss-nsg": "NSG{R},Flat",
    "faiss-pq-fastscan": "PQ{M}x4fs",
    "faiss-sq": "{type}",
    "faiss-factory": "{factory}",
}


def write(setting: Setting) -> str:
    """Train where the index has to learn, add, set the effort, search."""
    build, search = setting.build, setting.search
    recipe = _RECIPES[setting.engine].format(**build) + (",RFlat" if build.get("refine") == "flat" else "")
    kind = "METRIC_L2" if setting.metric is Metric.L2 else "METRIC_INNER_PRODUCT"
    asked = "index.base_index" if _codes_only(build, search) else "index"
    return lines(
        "import faiss",
        "import numpy as np" if setting.unit else None,
        "",
        INPUTS,
        f"{UNIT}  # cosine" if setting.unit else None,
        f"index = faiss.index_factory(vectors.shape[1], {recipe!r}, faiss.{kind})",
        *_before(setting),
        "index.train(vectors)",
        "index.add(vectors)",
        "",
        *_effort(setting),
        f"distances, found = {asked}.search(queries, {setting.k})",
    )


def _codes_only(build: Mapping[str, Any], search: Mapping[str, Any]) -> bool:
    return build.get("refine") == "flat" and search.get("k_factor") == 0


def _before(setting: Setting) -> list[str]:
    """What the recipe cannot say."""
    if setting.engine == "faiss-hnsw":
        return [f"index.hnsw.efConstruction = {setting.build['ef_construction']}"]
    if setting.engine == "faiss-nsg":
        return [
            "if len(vectors) < 10_000:",
            "    index.build_type = 0  # an exact graph: the approximate one of few rows has gaps",
        ]
    return []


def _effort(setting: Setting) -> list[str]:
    search = setting.search
    if setting.engine == "faiss-hnsw":
        return [f"index.hnsw.efSearch = {search['ef']}"]
    if setting.engine == "faiss-nsg":
        return [f"index.nsg.search_L = {search['search_L']}"]
    if setting.engine == "faiss-factory":
        text = search["parameters"]
        return [f"faiss.ParameterSpace().set_index_parameters(index, {text!r})"] if text else []
    found = []
    if "nprobe" in search:
        found.append(f"faiss.extract_index_ivf(index).nprobe = {search['nprobe']}")
    if search.get("k_factor") and setting.build.get("refine") == "flat":
        found.append(f"index.k_factor = {search['k_factor']}")
    return found
