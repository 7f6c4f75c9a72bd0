"""The indexes of LanceDB, in a folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recallatk.core import Metric
from recallatk.tune.snippets.setting import INPUTS, lines

if TYPE_CHECKING:
    from recallatk.tune.snippets.setting import Setting

_METRICS = {Metric.L2: "l2", Metric.IP: "dot", Metric.COSINE: "cosine"}


def write(setting: Setting) -> str:
    """Write the table, make the index, search one by one."""
    kind, search = setting.build["index"], setting.search
    name = (
        kind.title().replace("_", "").removeprefix("Ivf") if "HNSW" in kind else kind.title().replace("_", "")
    )
    effort = f".nprobes({search['probes']})"
    effort += f".ef({search['ef']})" if "HNSW" in kind else ""
    effort += f".refine_factor({search['refine']})" if search["refine"] else ""
    return lines(
        "import lancedb",
        "import lancedb.index",
        "import pyarrow as pa",
        "",
        INPUTS,
        'database = lancedb.connect("./lancedb")',
        "column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), vectors.shape[1])",
        'rows = pa.table({"number": range(len(vectors)), "vector": column})',
        'table = database.create_table("items", rows)',
        f'table.create_index("vector", config=lancedb.index.{name}({_options(setting)}))',
        "",
        "found = [",
        f'    table.search(query).distance_type("{_METRICS[setting.metric]}"){effort}.limit({setting.k})',
        '    .select(["number", "_distance"]).to_arrow()["number"].to_pylist()',
        "    for query in queries",
        "]",
    )


def _options(setting: Setting) -> str:
    build, kind = setting.build, setting.build["index"]
    options = {"distance_type": repr(_METRICS[setting.metric]).replace("'", '"')}
    if build["partitions"]:
        options["num_partitions"] = build["partitions"]
    if "HNSW" in kind:
        options |= {"m": build["M"], "ef_construction": build["ef_construction"]}
    if "PQ" in kind and build["sub_vectors"]:
        options["num_sub_vectors"] = build["sub_vectors"]
    return ", ".join(f"{name}={value}" for name, value in options.items())
