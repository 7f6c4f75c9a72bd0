"""The indexes of pgvector: SQL for a table `items` with the columns `id` and `embedding`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recallatk.core import Metric
from recallatk.tune.snippets.setting import lines

if TYPE_CHECKING:
    from recallatk.tune.snippets.setting import Setting

_OPERATORS = {Metric.L2: ("<->", "l2"), Metric.IP: ("<#>", "ip"), Metric.COSINE: ("<=>", "cosine")}


def write(setting: Setting) -> str:
    """CREATE INDEX, the settings of a session, and the query that uses the index."""
    graph = setting.engine == "pgvector-hnsw"
    build, search, storage = setting.build, setting.search, setting.build["storage"]
    dimension = setting.dimension or "DIMENSION"
    unknown = storage != "vector" and setting.dimension is None
    options = f"m = {build.get('M')}, ef_construction = {build.get('ef_construction')}"
    effort = ("hnsw.ef_search", search.get("ef")) if graph else ("ivfflat.probes", search.get("probes"))
    method = "hnsw" if graph else "ivfflat"
    return lines(
        "-- Your table is items (id, embedding), and $1 is the vector that is asked.",
        "-- DIMENSION is how many numbers a vector has." if unknown else None,
        f"CREATE INDEX items_embedding ON items USING {method}",
        f"  (({_indexed(storage, dimension)}) {_operator_class(setting)})",
        f"  WITH ({options if graph else 'lists = ' + str(build['lists'])});",
        "",
        f"SET {effort[0]} = {effort[1]};",
        f"SET {method}.iterative_scan = {search['iterative_scan']};",
        f"SET plan_cache_mode = {search['plan_cache_mode']};",
        _plan(search["plan"]),
        "",
        _query(setting, dimension),
    )


def _plan(plan: str) -> str | None:
    if plan == "free":
        return None
    return "-- Measured with SET enable_seqscan = off, so that the planner takes the index."


def _indexed(storage: str, dimension: int | str) -> str:
    if storage == "bit":
        return f"binary_quantize(embedding)::bit({dimension})"
    return "embedding" if storage == "vector" else f"embedding::{storage}({dimension})"


def _operator_class(setting: Setting) -> str:
    storage = setting.build["storage"]
    return "bit_hamming_ops" if storage == "bit" else f"{storage}_{_OPERATORS[setting.metric][1]}_ops"


def _query(setting: Setting, dimension: int | str) -> str:
    storage, k = setting.build["storage"], setting.k
    operator = _OPERATORS[setting.metric][0]
    if storage == "bit":
        order = f"({_indexed(storage, dimension)}) <~> binary_quantize($1)::bit({dimension})"
        inner = f"SELECT * FROM items ORDER BY {order} LIMIT {k * setting.search['rerank']}"  # noqa: S608
        nearest = f"ORDER BY embedding {operator} $1 LIMIT {k};"
        return f"SELECT id FROM ({inner}) AS candidates\n  {nearest}"  # noqa: S608
    asked = "$1" if storage == "vector" else f"$1::{storage}({dimension})"
    nearest = f"ORDER BY ({_indexed(storage, dimension)}) {operator} {asked} LIMIT {k};"
    return f"SELECT id FROM items {nearest}"  # noqa: S608
