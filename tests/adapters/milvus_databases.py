"""Databases of Milvus Lite as users make them, for the tests of collections and of the commands."""

from embedded_collections import CITIES, DIMENSION, IDS, PRICES, ROWS, VECTORS
from pymilvus import DataType, MilvusClient

WEAK = {"M": 6, "efConstruction": 40}
TAGS = [[f"t{row % 3}", "all"] for row in range(ROWS)]
RATES = [row % 8 / 4 for row in range(ROWS)]


def made(file, ids=IDS, kind="HNSW", params=WEAK, metric="COSINE", rows=ROWS, key="id", **more):
    """A collection as users make it; the database is released, as it would be by another process."""
    from milvus_lite.server_manager import server_manager_instance

    client = MilvusClient(str(file))
    schema = client.create_schema(auto_id=False, enable_dynamic_field=False)
    if isinstance(ids[0], str):
        schema.add_field(key, DataType.VARCHAR, is_primary=True, max_length=20)
    else:
        schema.add_field(key, DataType.INT64, is_primary=True)
    schema.add_field("embedding", DataType.FLOAT_VECTOR, dim=DIMENSION)
    schema.add_field("city", DataType.VARCHAR, max_length=100, nullable=True)
    schema.add_field("price", DataType.INT64, nullable=True)
    schema.add_field("rate", DataType.FLOAT)
    schema.add_field("sold", DataType.BOOL)
    array = {"element_type": DataType.VARCHAR, "max_capacity": 9, "max_length": 9}
    schema.add_field("tags", DataType.ARRAY, **array)
    schema.add_field("extra", DataType.JSON, nullable=True)
    for name, field in more.items():
        schema.add_field(name, field, dim=DIMENSION)
    client.create_collection("items", schema=schema)
    lines = [
        {key: ids[row], "embedding": VECTORS[row], "city": CITIES[row], "price": PRICES[row],
         "rate": RATES[row], "sold": row % 2 == 0, "tags": TAGS[row], "extra": None,
         **dict.fromkeys(more, VECTORS[row])}
        for row in range(rows)
    ]  # fmt: skip
    if lines:
        client.insert("items", lines)
        client.flush("items")
    if kind is not None:
        index = client.prepare_index_params()
        for name in ("embedding", *more):
            index.add_index(name, index_type=kind, metric_type=metric, params={"params": params})
        client.create_index("items", index)
    client.close()
    server_manager_instance.release_server(str(file))
    return file


def url(file, rest="/items"):
    return f"milvus://{str(file).replace('%', '%25')}{rest}"
