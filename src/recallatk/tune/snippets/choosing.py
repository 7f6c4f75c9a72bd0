"""Which family writes the code for which engine."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from recallatk.core import Metric
from recallatk.engines import get_engine
from recallatk.engines.base import resolved
from recallatk.errors import RecallError
from recallatk.tune.snippets.attached import as_json
from recallatk.tune.snippets.setting import Setting

if TYPE_CHECKING:
    from collections.abc import Mapping

    from recallatk.core import Parameters

_MODULES = {
    "annoy": "annoy",
    "chroma": "chroma",
    "duckdb": "duckdb",
    "exact": "faiss",
    "faiss": "faiss",
    "hnswlib": "hnswlib",
    "lancedb": "lancedb",
    "milvus": "milvus",
    "pgvector": "pgvector",
    "pynndescent": "pynndescent",
    "qdrant": "qdrant",
    "scann": "scann",
    "sqlite": "sqlite",
    "usearch": "usearch",
    "voyager": "voyager",
}


def snippet(
    engine: str,
    metric: Metric | str,
    build: Mapping[str, object] | Parameters,
    search: Mapping[str, object] | Parameters,
    k: int,
    dimension: int | None = None,
) -> str:
    """The code that builds the index and asks it, with these parameters and the others at our defaults.

    Args:
        engine: its name.
        metric: cosine, ip or l2.
        build: the build parameters.
        search: the search parameters.
        k: how many neighbours are asked for.
        dimension: of the vectors, where the code has to say it.
    """
    given = Setting(engine, Metric(metric), dict(build), dict(search), k, dimension)
    try:
        kind = get_engine(engine)
    except RecallError:
        return as_json(given)
    # A package of somebody else may call its family as one of ours.
    ours = kind.__module__.startswith("recallatk.") and kind.family in _MODULES
    if not ours:
        return as_json(given)
    whole = Setting(
        engine,
        given.metric,
        resolved(engine, kind.build_knobs, given.build),
        resolved(engine, kind.search_knobs, given.search),
        k,
        dimension,
    )
    found = importlib.import_module(f"recallatk.tune.snippets.{_MODULES[kind.family]}")
    written: str = found.write(whole)
    return written
