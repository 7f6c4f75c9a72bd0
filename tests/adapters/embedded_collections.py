"""Data and oracles shared by the tests of collections in local files."""

import hashlib

import numpy as np
import pyarrow as pa

ROWS, DIMENSION, K = 2_000, 32, 10
VECTORS = np.random.default_rng(0).normal(size=(ROWS, DIMENSION)).astype("float32")
QUERIES = np.random.default_rng(1).normal(size=(20, DIMENSION)).astype("float32")
CITIES = [None if row % 7 == 0 else f"c{row % 5}" for row in range(ROWS)]
PRICES = [None if row % 11 == 0 else row % 100 for row in range(ROWS)]
# Ids differ from row numbers, so that a test notices the wrong one.
IDS = [row * 3 + 5 for row in range(ROWS)]
ROW_OF = {id_: row for row, id_ in enumerate(IDS)}
FILTERS = {
    "city = 'c1'": [city == "c1" for city in CITIES],
    "price < 40 and city != 'c2'": [
        price is not None and price < 40 and city is not None and city != "c2"
        for price, city in zip(PRICES, CITIES, strict=True)
    ],
    "city is null": [city is None for city in CITIES],
    "city starts with 'c' and price in (1, 2, 3)": [
        city is not None and price in (1, 2, 3) for price, city in zip(PRICES, CITIES, strict=True)
    ],
}


def table(rows=ROWS, **more):
    """The rows as Arrow: id, embedding, city and price."""
    embedding = pa.FixedSizeListArray.from_arrays(pa.array(VECTORS[:rows].ravel()), DIMENSION)
    columns = {"id": IDS[:rows], "embedding": embedding, "city": CITIES[:rows], "price": PRICES[:rows]}
    return pa.table({**columns, **more})


def distances(query, metric):
    """Distances to every row in float64, lower is nearer; only their order matters."""
    rows, query = VECTORS.astype(float), query.astype(float)
    if metric == "l2":
        return np.linalg.norm(rows - query, axis=1)
    if metric == "cosine":
        return 1 - rows @ query / np.linalg.norm(rows, axis=1) / np.linalg.norm(query)
    return -rows @ query


def nearest(query, metric, mask=None, k=K):
    """Ids of the nearest rows by NumPy alone."""
    far = distances(query, metric)
    if mask is not None:
        far = np.where(mask, far, np.inf)
    order = np.argsort(far)[: min(k, int(np.isfinite(far).sum()))]
    return [IDS[row] for row in order]


def recall(collection, metric):
    """Mean recall of the answers to all queries."""
    hits = [
        len(set(collection.answer(query, K, None).ids) & set(nearest(query, metric))) for query in QUERIES
    ]
    return np.mean(hits) / K


def recall_of_text_ids(collection, right):
    """Mean recall of the answers to all queries, where the ids are not those of `nearest`.

    Args:
        collection: the collection.
        right: the ids of the nearest rows of a query.
    """
    hits = [len(set(collection.answer(query, K, None).ids) & set(right(query))) for query in QUERIES]
    return np.mean(hits) / K


def files(folder):
    """Every file of a folder with its content and time of change."""
    return {
        path.relative_to(folder): (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns)
        for path in folder.rglob("*")
        if path.is_file()
    }


def streamed(collection, columns=("city", "price")):
    """All batches as one table."""
    return pa.Table.from_batches(list(collection.batches(columns)))
