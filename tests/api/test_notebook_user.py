"""The lines that a notebook user writes: any data, any index object, one call."""

import faiss
import hnswlib
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import recallatk

ROWS, DIMENSION = 600, 12
VECTORS = np.random.default_rng(0).normal(size=(ROWS, DIMENSION)).astype("float32")
VECTORS /= np.linalg.norm(VECTORS, axis=1, keepdims=True)
QUERIES = VECTORS[:40] + np.random.default_rng(1).normal(size=(40, DIMENSION)).astype("float32") * 0.1
IDS = [f"doc-{each}" for each in range(ROWS)]


def pandas_frame(vectors, ids):
    return pd.DataFrame({"id": ids, "vector": list(vectors)})


def polars_frame(vectors, ids):
    return pl.DataFrame({"id": ids, "vector": vectors})


def arrow_table(vectors, ids):
    return pa.table({"id": ids, "vector": list(vectors)})


def array(vectors, ids):
    return vectors


def faiss_index(folder):
    index = faiss.index_factory(DIMENSION, "IVF16,Flat", faiss.METRIC_INNER_PRODUCT)
    index.train(VECTORS)
    index.add(VECTORS)
    return index, {"nprobe": [1, 8, 16]}


def hnswlib_index(folder):
    index = hnswlib.Index("cosine", DIMENSION)
    index.init_index(ROWS, M=8, ef_construction=50, random_seed=1)
    index.add_items(VECTORS, np.arange(ROWS))
    return index, {"ef": [10, 20, 200]}


def usearch_index(folder):
    from usearch.index import Index

    index = Index(ndim=DIMENSION, metric="cos")
    index.add(np.arange(ROWS), VECTORS)
    return index, {"expansion": [10, 20, 200]}


def lancedb_table(folder):
    import lancedb
    import lancedb.index

    rows = pa.table({"id": IDS, "vector": pa.FixedSizeListArray.from_arrays(VECTORS.ravel(), DIMENSION)})
    table = lancedb.connect(folder / "lance").create_table("docs", rows)
    table.create_index("vector", config=lancedb.index.IvfFlat(distance_type="cosine", num_partitions=8))
    return table, {"nprobes": [1, 4, 8]}


def chroma_collection(folder):
    import chromadb

    client = chromadb.PersistentClient(str(folder / "chroma"))
    collection = client.create_collection("docs", configuration={"hnsw": {"space": "cosine"}})
    collection.add(ids=IDS, embeddings=VECTORS)
    return collection, {}


def expected(k=10):
    similar = (QUERIES / np.linalg.norm(QUERIES, axis=1, keepdims=True)) @ VECTORS.T
    return np.argsort(-similar, axis=1)[:, :k]


@pytest.mark.parametrize("form", [pandas_frame, polars_frame, arrow_table, array])
def test_any_data_with_a_faiss_index(form, tmp_path):
    index, grid = faiss_index(tmp_path)
    df, queries_df = form(VECTORS, IDS), form(QUERIES, [f"q{each}" for each in range(len(QUERIES))])
    run = recallatk.measure(index, df, queries_df, metric="cosine", search=grid, at=[10], rounds=1)
    recalls = [each.score["recall@10"] for each in run.measurements]
    assert recalls == sorted(recalls) and recalls[0] < 0.9 and recalls[-1] == pytest.approx(1)
    index.nprobe = 1
    found = index.search(QUERIES, 10)[1]
    by_hand = np.mean([len(set(a) & set(b)) / 10 for a, b in zip(found, expected(), strict=True)])
    assert recalls[0] == pytest.approx(by_hand)


@pytest.mark.parametrize(
    "make", [faiss_index, hnswlib_index, usearch_index, lancedb_table, chroma_collection]
)
def test_any_index_with_data_frames(make, tmp_path):
    index, grid = make(tmp_path)
    df, queries_df = pandas_frame(VECTORS, IDS), pandas_frame(QUERIES, range(len(QUERIES)))
    run = recallatk.measure(index, df, queries_df, metric="cosine", search=grid, at=[10], rounds=1)
    best = max(each.score["recall@10"] for each in run.measurements)
    assert best > 0.95
    assert len(run.to_pandas()) == len(run.measurements)
    assert run.best(target="recall@10 >= 0.5").score["recall@10"] > 0.5
    assert run.plot().to_dict()["$schema"]
    assert "recall@10" in str(run)
