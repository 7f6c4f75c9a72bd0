"""A collection of Milvus, on a server or of Milvus Lite."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recallatk.tune.snippets.setting import INPUTS, lines

if TYPE_CHECKING:
    from recallatk.tune.snippets.setting import Setting


def write(setting: Setting) -> str:
    """Insert, flush, index, load, search."""
    build, search, kind = setting.build, setting.search, setting.build["index"]
    shapes = {
        "HNSW": f'{{"M": {build["M"]}, "efConstruction": {build["ef_construction"]}}}',
        "IVF_FLAT": f'{{"nlist": {build["nlist"]}}}',
    }
    efforts = {"HNSW": f'{{"ef": {search["ef"]}}}', "IVF_FLAT": f'{{"nprobe": {search["nprobe"]}}}'}
    shape, effort = shapes.get(kind, "{}"), efforts.get(kind, "{}")
    return lines(
        "from pymilvus import DataType, MilvusClient",
        "",
        INPUTS,
        f"client = MilvusClient({build['uri'] or './milvus.db'!r})",
        "schema = client.create_schema(auto_id=False)",
        'schema.add_field("id", DataType.INT64, is_primary=True)',
        'schema.add_field("vector", DataType.FLOAT_VECTOR, dim=vectors.shape[1])',
        'client.create_collection("items", schema=schema, consistency_level="Strong")',
        "for start in range(0, len(vectors), 1000):",
        "    part = enumerate(vectors[start : start + 1000], start)",
        '    client.insert("items", [{"id": row, "vector": vector} for row, vector in part])',
        'client.flush("items")',
        "index = client.prepare_index_params()",
        "# Milvus Lite takes the parameters only where they are nested once more; a server takes both.",
        "index.add_index(",
        f'    "vector", index_type="{kind}", metric_type="{setting.metric.upper()}", '
        f'params={{"params": {shape}}}',
        ")",
        'client.create_index("items", index)',
        'client.load_collection("items")',
        "",
        "answers = client.search(",
        f'    "items", data=list(queries), limit={setting.k}, search_params={{"params": {effort}}}',
        ")",
        'found = [[hit["id"] for hit in hits] for hits in answers]',
    )
