"""`recallatk probe` and `recallatk tune` on Milvus Lite and SQLite: numbers, exit codes, sentences."""

import json
import sys

import milvus_databases
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlite_files
from embedded_collections import DIMENSION, PRICES, ROWS, K, files, nearest

from recallatk.adapters.target_schemes import open_collection
from recallatk.errors import MissingExtraError
from recallatk.filters import parse_filter

from commands import recallatk  # isort: skip

COUNT = 90
ASKED = np.random.default_rng(5).normal(size=(COUNT, DIMENSION)).astype("f4")
CHEAP = np.array([price is not None and price < 40 for price in PRICES])
ASK = ("--queries", "queries.parquet", "--max-rate", "none")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Queries beside a database of each engine."""
    place = tmp_path_factory.mktemp("a folder with spaces")
    pq.write_table(pa.table({"vector": list(ASKED)}), place / "queries.parquet")
    milvus_databases.made(place / "milvus.db")
    sqlite_files.made(place / "sqlite.db")
    return place


def said(done, code=0):
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return json.loads(done.stdout)


def oracle(target, effort, where=None, mask=None):
    """Mean recall of the answers, with the truth of NumPy."""
    condition = None if where is None else parse_filter(where)
    with open_collection(target) as collection:
        collection.configure({"ef": effort})
        found = [collection.answer(query, K, condition).ids for query in ASKED]
    right = [nearest(query, "cosine", mask) for query in ASKED]
    return np.mean([len(set(a) & set(b)) / K for a, b in zip(found, right, strict=True)])


@pytest.mark.parametrize("where", [None, "price < 40"])
def test_milvus_is_probed_with_the_recall_of_an_oracle(folder, where):
    more = () if where is None else ("--where", where)
    target, before = "milvus://./milvus.db/items", files(folder)
    done = recallatk("probe", target, *ASK, *more, "--search", "ef=40", "--json", cwd=folder)
    found = said(done)
    expected = oracle(f"milvus://{folder}/milvus.db/items", 40, where, CHEAP if where else None)
    assert found["recall"]["value"] == pytest.approx(expected)
    assert 0.2 < expected < 0.99
    assert (found["rows"], found["k"], found["queries"], found["exact_queries"]) == (ROWS, K, COUNT, COUNT)
    assert (found["engine"], found["index_used"], found["discarded"]) == ("milvus", None, 0)
    assert found["settings"] == {"consistency_level": "Strong", "ef": "40"}
    assert found["notes"] == [
        "a temporary copy is searched: Milvus Lite writes to the database that it opens"
    ]
    assert bool(found["by"]) == bool(where)
    assert files(folder) == before


def test_queries_that_milvus_cannot_filter_are_counted_and_the_others_scored(folder, tmp_path):
    filters = ["extra = 1", "rate = 0.3", "price < 40"]
    lines = [
        json.dumps({"vector": each.tolist(), "filter": filters[number % 3]})
        for number, each in enumerate(ASKED)
    ]
    (tmp_path / "log.jsonl").write_text("\n".join(lines))
    more = ("--queries", tmp_path / "log.jsonl", "--max-rate", "none", "--json")
    found = said(recallatk("probe", "milvus://./milvus.db/items", *more, cwd=folder))
    assert (found["refused"], found["queries"]) == (COUNT * 2 // 3, COUNT // 3)


@pytest.mark.parametrize(("goal", "code"), [("recall@10 >= 0.5", 0), ("recall@10 >= 0.999", 1)])
def test_the_exit_code_is_the_verdict(folder, goal, code):
    effort = ("--search", "ef=300" if code == 0 else "ef=10")
    done = recallatk("probe", "milvus://./milvus.db/items", *ASK, *effort, "--target", goal, cwd=folder)
    assert done.returncode == code, done.stderr
    assert done.stdout.startswith("PASS" if code == 0 else "FAIL")
    assert "index: HNSW on embedding (COSINE, M=6, efConstruction=40)" in done.stderr


@pytest.mark.parametrize("target", ["milvus://./milvus.db/items", "sqlite://sqlite.db?table=items"])
def test_rows_as_queries_are_labelled_and_pass_nothing(folder, target):
    goal = ("--target", "recall@10 >= 0.1")
    found = said(
        recallatk("probe", target, "--sample", 40, "--max-rate", "none", *goal, "--json", cwd=folder), 3
    )
    assert found["sampled_rows_as_queries"] is True
    assert found["verdict"]["outcome"] == "UNDECIDED"
    assert found["recall"]["value"] > 0.5


def test_the_effort_of_milvus_is_tuned(folder):
    goal, before = ("--target", "recall@10 >= 0.6"), files(folder)
    found = said(recallatk("tune", "milvus://./milvus.db/items", *ASK, *goal, "--json", cwd=folder))
    effort, target = found["search"]["ef"], f"milvus://{folder}/milvus.db/items"
    assert found["met"] is True
    assert oracle(target, effort // 2) < 0.6 <= oracle(target, effort)
    assert found["snippet"] == f"client.search('items', ..., search_params={{'params': {{'ef': {effort}}}}})"
    assert files(folder) == before


@pytest.mark.parametrize("more", [(), ("--where", "price < 40"), ("--truth", "stream")])
def test_a_scan_of_sqlite_has_recall_1(folder, more):
    before = files(folder)
    found = said(recallatk("probe", "sqlite://sqlite.db?table=items", *ASK, *more, "--json", cwd=folder))
    assert (found["recall"]["value"], found["queries"], found["short"]) == (1, COUNT, 0)
    assert (found["engine"], found["index"], found["index_used"]) == ("sqlite-vec", None, 0)
    assert found["exact_agreement"] == (1 if "stream" in more else None)
    assert any(each.startswith("no index") for each in found["notes"])
    assert files(folder) == before


def test_sqlite_has_no_effort_to_tune_and_says_why(folder):
    goal = ("--target", "recall@10 >= 0.9")
    done = recallatk("tune", "sqlite://sqlite.db?table=items", *ASK, *goal, cwd=folder)
    assert done.returncode == 2
    assert "sqlite-vec compares all rows in every search, so that recall is 1 without an effort" in (
        " ".join(done.stderr.split())
    )


def test_queries_of_another_dimension_are_refused(folder, tmp_path):
    pq.write_table(pa.table({"vector": list(ASKED[:, :5])}), tmp_path / "short.parquet")
    for target in ("milvus://./milvus.db/items", "sqlite://sqlite.db"):
        done = recallatk("probe", target, "--queries", tmp_path / "short.parquet", cwd=folder)
        assert done.returncode == 2
        assert "dimension mismatch" in done.stderr


@pytest.mark.parametrize(
    ("module", "target", "line"),
    [
        ("apsw", "sqlite://sqlite.db", r"pip install 'recallatk\[sqlite-vec\]'"),
        ("pymilvus", "milvus://host:19530/items", r"pip install 'recallatk\[milvus\]'"),
        ("milvus_lite", "milvus://./milvus.db/items", r"pip install 'recallatk\[milvus\]'"),
    ],
)
def test_a_missing_library_is_told_with_its_install_line(folder, monkeypatch, module, target, line):
    monkeypatch.chdir(folder)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=line):
        open_collection(target)
