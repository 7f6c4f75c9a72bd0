"""Runs of the command on tiny data, made once: two versions of a search, several builds, other queries."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from recallatk import ground_truth, open_dataset, run, save_truth

LISTS = """
[data]
corpus = "corpus.parquet"
queries = "{queries}"
metric = "l2"
[measure]
at = {at}
rounds = 2
[output]
folder = "{folder}"
[[engine]]
name = "faiss-ivf-flat"
build = {{ nlist = 32 }}
search = {{ nprobe = {nprobe} }}
"""
BUILT = """
[data]
corpus = "corpus.parquet"
queries = "queries.parquet"
metric = "l2"
[measure]
at = [1, 10]
rounds = 2
builds = 3
seed = {seed}
[output]
folder = "{folder}"
[[engine]]
name = "faiss-hnsw"
build = {{ M = 4, ef_construction = 10 }}
search = {{ ef = [10, 20] }}
"""


def _table(path, vectors, prefix, **columns):
    lists = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), vectors.shape[1])
    ids = [f"{prefix}{row}" for row in range(len(vectors))]
    pq.write_table(pa.table({"id": ids, "vector": lists, **columns}), path)


def _measured(folder, text):
    (folder / "bench.toml").write_text(text)
    run(folder / "bench.toml")


@pytest.fixture(scope="session")
def runs(tmp_path_factory):
    """A folder with data, runs of it, a truth and two files of answers."""
    folder = tmp_path_factory.mktemp("compared")
    random = np.random.default_rng(0)
    _table(folder / "corpus.parquet", random.normal(size=(3_000, 16)).astype("f4"), "c")
    columns = {"lang": ["de", "fr", "en"] * 100, "text": [f"text of {row}" for row in range(300)]}
    _table(folder / "queries.parquet", random.normal(size=(300, 16)).astype("f4"), "q", **columns)
    _table(folder / "others.parquet", random.normal(size=(200, 16)).astype("f4"), "o")
    usual = {"queries": "queries.parquet", "at": [1, 10]}
    for name, nprobe, other in (
        ("before", [2, 3, 4], {}),
        ("after", [4, 6], {}),
        ("others", [4], {"queries": "others.parquet"}),
        ("only1", [4], {"at": [1]}),
    ):
        _measured(folder, LISTS.format(**(usual | other), folder=name, nprobe=nprobe))
    for name, seed in (("built", 0), ("rebuilt", 1)):
        _measured(folder, BUILT.format(folder=name, seed=seed))
    dataset = open_dataset(folder / "corpus.parquet", folder / "queries.parquet", metric="l2")
    truth = ground_truth(dataset)
    save_truth(truth, folder / "truth.parquet")
    ids = [[f"c{row}" for row in rows[:10]] for rows in truth.rows]
    for name, lost in (("good", 1), ("bad", 4)):
        kept = [rows[: 10 - (lost if place % 2 else 0)] for place, rows in enumerate(ids)]
        answers = pa.table({"query_id": [f"q{place}" for place in range(300)], "neighbors": kept})
        pq.write_table(answers, folder / f"{name}.parquet")
    return folder
