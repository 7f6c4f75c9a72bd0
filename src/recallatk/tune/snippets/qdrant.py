"""A collection of Qdrant, on a server or as a shard in process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recallatk.core import Metric
from recallatk.tune.snippets.setting import INPUTS, lines

if TYPE_CHECKING:
    from recallatk.tune.snippets.setting import Setting

_DISTANCES = {Metric.L2: "Euclid", Metric.IP: "Dot", Metric.COSINE: "Cosine"}
_ON_A_SERVER = {
    "scalar": "models.ScalarQuantization(scalar=models.ScalarQuantizationConfig(type='int8'))",
    "binary": "models.BinaryQuantization(binary=models.BinaryQuantizationConfig())",
}
_IN_PROCESS = {
    "scalar": "qdrant.ScalarQuantizationConfig(type=qdrant.ScalarType.Int8)",
    "binary": "qdrant.BinaryQuantizationConfig()",
}


def write(setting: Setting) -> str:
    """The one that was measured."""
    return _server(setting) if setting.build["url"] else _shard(setting)


def _graph(setting: Setting) -> str:
    build = setting.build
    return (
        f"m={build['M']}, ef_construct={build['ef_construct']}, "
        f"full_scan_threshold={build['full_scan_threshold']}"
    )


def _server(setting: Setting) -> str:
    codes = _ON_A_SERVER.get(setting.build["quantization"])
    distance = f"models.Distance.{_DISTANCES[setting.metric].upper()}"
    return lines(
        "from qdrant_client import QdrantClient, models",
        "",
        INPUTS,
        f"client = QdrantClient({setting.build['url']!r})",
        "client.create_collection(",
        '    "items",',
        f"    vectors_config=models.VectorParams(size=vectors.shape[1], distance={distance}),",
        f"    hnsw_config=models.HnswConfigDiff({_graph(setting)}),",
        f"    quantization_config={codes}," if codes else None,
        ")",
        "points = (",
        "    models.PointStruct(id=row, vector=vector) for row, vector in enumerate(vectors.tolist())",
        ")",
        'client.upload_points("items", points)',
        "",
        f"effort = models.SearchParams(hnsw_ef={setting.search['hnsw_ef']})",
        "asked = [",
        f"    models.QueryRequest(query=query, limit={setting.k}, params=effort)",
        "    for query in queries.tolist()",
        "]",
        "found = [",
        '    [point.id for point in each.points] for each in client.query_batch_points("items", asked)',
        "]",
    )


def _shard(setting: Setting) -> str:
    codes = _IN_PROCESS.get(setting.build["quantization"])
    distance = f"qdrant.Distance.{_DISTANCES[setting.metric]}"
    return lines(
        "from pathlib import Path",
        "",
        "import qdrant_edge as qdrant",
        "",
        INPUTS,
        'Path("./qdrant").mkdir()',
        "config = qdrant.EdgeConfig(",
        f"    vectors=qdrant.EdgeVectorParams(size=vectors.shape[1], distance={distance}),",
        f"    hnsw_config=qdrant.HnswIndexConfig({_graph(setting)}),",
        f"    quantization_config={codes}," if codes else None,
        "    optimizers=qdrant.EdgeOptimizersConfig(indexing_threshold=1, default_segment_number=1),",
        ")",
        'shard = qdrant.EdgeShard.create("./qdrant", config)',
        "points = [qdrant.Point(row, vector, {}) for row, vector in enumerate(vectors.tolist())]",
        "shard.update(qdrant.UpdateOperation.upsert_points(points))",
        "shard.optimize()",
        "",
        f"effort = qdrant.SearchParams(hnsw_ef={setting.search['hnsw_ef']})",
        "asked = [",
        f"    qdrant.QueryRequest(limit={setting.k}, query=qdrant.Query.Nearest(query), params=effort)",
        "    for query in queries.tolist()",
        "]",
        "answers = shard.query_batch(qdrant.QueryBatchRequest(asked))",
        "found = [[point.id for point in each] for each in answers]",
    )
