"""The index of DuckDB's vss extension: SQL in Python."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recallatk.core import Metric
from recallatk.tune.snippets.setting import INPUTS, lines

if TYPE_CHECKING:
    from recallatk.tune.snippets.setting import Setting

_METRICS = {
    Metric.L2: ("l2sq", "array_distance"),
    Metric.IP: ("ip", "array_negative_inner_product"),
    Metric.COSINE: ("cosine", "array_cosine_distance"),
}


def write(setting: Setting) -> str:
    """Fill a table, make the index, set ef, ask one by one."""
    build = setting.build
    kind, function = _METRICS[setting.metric]
    return lines(
        "import duckdb",
        "import pyarrow as pa",
        "",
        INPUTS,
        "dimension = vectors.shape[1]",
        "connection = duckdb.connect()",
        'connection.execute("INSTALL vss; LOAD vss")',
        'connection.execute(f"CREATE TABLE items (number BIGINT, vector FLOAT[{dimension}])")',
        "column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), dimension)",
        'rows = pa.table({"number": range(len(vectors)), "vector": column})',
        'connection.register("rows", rows)',
        'connection.execute("INSERT INTO items SELECT number, vector FROM rows")',
        "connection.execute(",
        f"    \"CREATE INDEX items_vector ON items USING HNSW (vector) WITH (metric = '{kind}', \"",
        f'    "M = {build["M"]}, ef_construction = {build["ef_construction"]})"',
        ")",
        "",
        f'connection.execute("SET hnsw_ef_search = {setting.search["ef"]}")',
        f'nearest = f"{function}(vector, ?::FLOAT[{{dimension}}])"',
        f'statement = f"SELECT number FROM items ORDER BY {{nearest}} LIMIT {setting.k}"',  # noqa: S608
        "found = [",
        "    [row for (row,) in connection.execute(statement, [query]).fetchall()]",
        "    for query in queries.tolist()",
        "]",
    )
