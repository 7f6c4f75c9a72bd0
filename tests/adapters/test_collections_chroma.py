"""Existing Chroma collections: a folder on a copy, and a real server, both left as they are."""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import chromadb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from embedded_collections import (
    CITIES,
    DIMENSION,
    FILTERS,
    PRICES,
    QUERIES,
    ROWS,
    VECTORS,
    K,
    distances,
    files,
    recall_of_text_ids,
    streamed,
)

from recallatk.adapters import collection_copy
from recallatk.adapters.chroma import close_client, local_client, quiet, server_client
from recallatk.adapters.probe_limits import ProbeLimits
from recallatk.adapters.target_schemes import open_collection
from recallatk.core import Metric
from recallatk.errors import EngineError, FilterError, MismatchError, RecallError, UsageError
from recallatk.filters import parse_filter
from recallatk.probing import probe

from commands import command, recallatk  # isort: skip

NATIVE = "city = 'c1'"
NATIVE_MASK = np.array(FILTERS[NATIVE])


def name_of(row):
    return f"item-{row}"


def fill(client, name="items", rows=ROWS, **hnsw):
    """A collection whose graph is so thin that the effort of a search shows."""
    settings = {"space": "cosine", "max_neighbors": 4, "ef_construction": 20, "ef_search": 10, **hnsw}
    with quiet():
        held = client.create_collection(name, configuration={"hnsw": settings}, embedding_function=None)
    metadatas = []
    for row in range(rows):
        values = {"city": CITIES[row], "price": PRICES[row], "known": row % 2 == 0, "weight": row / 4}
        metadatas.append({key: value for key, value in values.items() if value is not None})
    held.add(ids=[name_of(row) for row in range(rows)], embeddings=VECTORS[:rows], metadatas=metadatas)
    return held


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("a chroma store")
    client = local_client(place)
    fill(client)
    fill(client, "flat", 300, space="l2", max_neighbors=32, ef_construction=200)
    fill(client, "products", 300, space="ip", max_neighbors=32, ef_construction=200)
    client.create_collection("empty", embedding_function=None)
    close_client(client)
    return place


@pytest.fixture
def opened(folder):
    with open_collection(f"chroma://{folder}/items") as collection:
        yield collection


@contextlib.contextmanager
def running_server(place):
    """The address of a real server with the same rows, and its process."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    program = Path(sys.executable).with_name("chroma")
    process = subprocess.Popen(
        [program, "run", "--path", place, "--host", "127.0.0.1", "--port", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "ANONYMIZED_TELEMETRY": "False"},
    )
    try:
        until = time.monotonic() + 60
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v2/heartbeat", timeout=5).close()
                break
            except OSError:
                assert process.poll() is None, "the server ended"
                assert time.monotonic() < until, "the server does not answer"
                time.sleep(0.1)
        client = server_client("127.0.0.1", port, False, None)
        fill(client)
        close_client(client)
        yield f"127.0.0.1:{port}", process
    finally:
        process.terminate()
        process.wait(20)


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """One server for all tests."""
    with running_server(tmp_path_factory.mktemp("chroma-server")) as running:
        yield running


@pytest.fixture
def server(served):
    """The address of the server."""
    return served[0]


@pytest.fixture(params=["folder", "server"])
def place(request, folder):
    """Where the collection `items` is."""
    return str(folder) if request.param == "folder" else request.getfixturevalue("server")


@pytest.fixture
def scratch(tmp_path, monkeypatch):
    """The folder for temporary copies, which nothing else uses."""
    made = tmp_path / "scratch"
    made.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(made))
    return made


def nearest(query, mask=None, metric="cosine", rows=ROWS):
    far = distances(query, metric)[:rows]
    if mask is not None:
        far = np.where(mask, far, np.inf)
    return [name_of(row) for row in np.argsort(far)[:K] if np.isfinite(far[row])]


def test_a_collection_tells_what_it_is(place):
    with open_collection(f"chroma://{place}/items") as collection:
        found = collection.discovery()
        assert (found.rows, found.dimension, found.metric) == (ROWS, DIMENSION, Metric.COSINE)
        assert found.index == "hnsw (space=cosine, max_neighbors=4, ef_construction=20)"
        assert found.settings == {"ef_search": 10}
        assert found.columns == {"city": "string", "known": "bool", "price": "int64", "weight": "double"}
        assert (found.exact, collection.exact_mode) == (None, False)
        assert collection.on_copy == ("/" in place)
        assert [each.name for each in collection.knobs()] == (["ef_search"] if collection.on_copy else [])


@pytest.mark.parametrize(("name", "metric"), [("flat", "l2"), ("products", "ip")])
def test_the_space_is_the_metric(folder, name, metric):
    with open_collection(f"chroma://{folder}/{name}") as collection:
        assert collection.discovery().metric == Metric(metric)
        collection.configure({"ef_search": 300})
        for query in QUERIES[:5]:
            assert (
                len(set(collection.answer(query, K, None).ids) & set(nearest(query, None, metric, 300))) >= 9
            )


def test_a_copy_is_searched_with_any_effort_and_goes_back(opened):
    low = recall_of_text_ids(opened, nearest)
    opened.configure({"ef_search": 500})
    assert opened.discovery().settings == {"ef_search": 500}
    high = recall_of_text_ids(opened, nearest)
    opened.configure({})
    assert opened.discovery().settings == {"ef_search": 10}
    assert recall_of_text_ids(opened, nearest) == low < 0.8 < high
    assert '{"hnsw": {"ef_search": 97}}' in opened.snippet({"ef_search": 97})


def test_a_server_has_no_effort_for_one_client(server):
    with open_collection(f"chroma://{server}/items") as collection:
        with pytest.raises(UsageError, match=r"for all of its clients.*chroma://folder/collection"):
            collection.configure({"ef_search": 50})
        with pytest.raises(UsageError, match="takes no --set"):
            collection.configure({}, {"a": "b"})
        collection.configure({})


MASKS = {
    **FILTERS,
    "price = 3": [price == 3 for price in PRICES],
    "price >= 90 or weight < 2": [
        (price is not None and price >= 90) or row < 8 for row, price in enumerate(PRICES)
    ],
    "not price < 40": [price is not None and price >= 40 for price in PRICES],
    "price is null": [price is None for price in PRICES],
    "known = true and city in ('c0', 'c3')": [
        row % 2 == 0 and city in ("c0", "c3") for row, city in enumerate(CITIES)
    ],
}
REFUSED = {
    "price < 40 and city != 'c2'": "missing values",
    "city is null": "missing values",
    "city starts with 'c' and price in (1, 2, 3)": "prefix",
    "price is null": "missing values",
}


@pytest.mark.parametrize("text", MASKS)
def test_filters_run_natively_or_are_refused_with_the_reason(place, text):
    condition, mask = parse_filter(text), np.array(MASKS[text])
    with open_collection(f"chroma://{place}/items") as collection:
        if text in REFUSED:
            assert REFUSED[text] in collection.refusal(condition)
            return
        assert collection.refusal(condition) is None
        # All rows that pass are asked for, so that the graph has no choice.
        found = collection.answer(QUERIES[0], ROWS, condition).ids
        assert set(found) <= {name_of(row) for row in np.flatnonzero(mask)}
        assert len(found) > 0.9 * mask.sum()


def test_every_row_is_streamed_once_with_its_columns(place, monkeypatch):
    with open_collection(f"chroma://{place}/items") as collection:
        monkeypatch.setattr(type(collection), "block_rows", 300)
        found = streamed(collection, ("city", "price", "weight"))
        assert max(len(each) for each in collection.batches([])) <= 300
    assert found["id"].to_pylist() == [name_of(row) for row in range(ROWS)]
    # Chroma keeps the direction and the length of a vector under cosine, which rounds.
    np.testing.assert_allclose(np.array(found["vector"].to_pylist()), VECTORS, rtol=1e-5, atol=1e-6)
    assert found["city"].to_pylist() == CITIES
    assert found["price"].to_pylist() == PRICES
    assert found["weight"].to_pylist() == [row / 4 for row in range(ROWS)]


def test_a_sample_is_the_same_for_the_same_seed(place):
    with open_collection(f"chroma://{place}/items") as collection:
        ids, vectors = collection.sample(50, 7)
        assert len(set(ids)) == 50
        assert set(ids) == set(collection.sample(50, 7)[0]) != set(collection.sample(50, 8)[0])
        rows = [int(each.partition("-")[2]) for each in ids]
        np.testing.assert_allclose(vectors, VECTORS[rows], rtol=1e-5, atol=1e-6)
        assert len(collection.sample(5_000, 1)[0]) == ROWS


def test_no_file_changes_and_no_copy_stays(folder, scratch):
    before = files(folder)
    with open_collection(f"chroma://{folder}/items") as collection:
        assert any(scratch.rglob("chroma.sqlite3"))
        collection.configure({"ef_search": 20})
        collection.answer(QUERIES[0], K, parse_filter(NATIVE))
        collection.sample(10, 0)
        streamed(collection)
        with pytest.raises(EngineError, match="expecting embedding with dimension of 32, got 5"):
            collection.answer(QUERIES[0][:5], K, None)
    for wrong in ("itmes", "empty"):
        with pytest.raises(RecallError):
            open_collection(f"chroma://{folder}/{wrong}")
    assert files(folder) == before
    assert not list(scratch.iterdir())


def test_a_store_that_is_written_while_it_is_copied_is_refused(folder, scratch, tmp_path, monkeypatch):
    shutil.copytree(folder, tmp_path / "busy")
    copy_data = collection_copy._copy_data

    def write(source, target):
        copy_data(source, target)
        with (tmp_path / "busy" / "chroma.sqlite3").open("ab") as file:
            file.write(b"more")

    monkeypatch.setattr(collection_copy, "_copy_data", write)
    with pytest.raises(EngineError, match="was written while it was copied"):
        open_collection(f"chroma://{tmp_path}/busy/items")
    assert not list(scratch.iterdir())


def test_the_server_is_left_as_it_was(server):
    client = chromadb.HttpClient(host="127.0.0.1", port=int(server.rpartition(":")[2]))
    with quiet():
        held = client.get_collection("items", embedding_function=None)
    before = json.dumps(held.configuration_json, sort_keys=True), held.count(), held.metadata
    found = probe(f"chroma://{server}/items", QUERIES, where=NATIVE, max_rate=None)
    with quiet():
        held = client.get_collection("items", embedding_function=None)
    assert (json.dumps(held.configuration_json, sort_keys=True), held.count(), held.metadata) == before
    assert [each.name for each in client.list_collections()] == ["items"]
    close_client(client)
    assert found.recall.n == len(QUERIES)
    assert any("Rows written since the truth was taken" in each for each in found.notes)


def test_rows_that_are_written_while_they_are_read_end_the_reading(server):
    client = chromadb.HttpClient(host="127.0.0.1", port=int(server.rpartition(":")[2]))
    fill(client, "growing", 50)
    with open_collection(f"chroma://{server}/growing") as collection:
        with quiet():
            client.get_collection("growing", embedding_function=None).delete(ids=[name_of(3)])
        with pytest.raises(EngineError, match=r"had 50 rows and has 49: rows were written"):
            streamed(collection)
    client.delete_collection("growing")
    close_client(client)


def test_a_server_that_goes_away_and_a_collection_that_is_made_anew_are_told(tmp_path):
    with running_server(tmp_path) as (server, process):
        target = f"chroma://{server}/items"
        with open_collection(target) as collection, open_collection(target) as other:
            client = server_client("127.0.0.1", int(server.rpartition(":")[2]), False, None)
            client.delete_collection("items")
            fill(client, rows=20)
            close_client(client)
            with pytest.raises(EngineError, match=r"deleted or made anew meanwhile.*Start the probe again"):
                collection.answer(QUERIES[0], K, None)
            process.kill()
            process.wait(20)
            with pytest.raises(EngineError, match=r"the connection was lost.*once the server answers"):
                other.answer(QUERIES[0], K, None)


def test_a_server_that_does_not_answer_in_time_is_left_alone(served):
    server, process = served
    limits = ProbeLimits(seconds=0.5)
    said = r"exceeded the time limit of 0.5 s. Raise it with --timeout"
    with open_collection(f"chroma://{server}/items", limits) as collection:
        process.send_signal(signal.SIGSTOP)
        try:
            with pytest.raises(EngineError, match=said):
                collection.answer(QUERIES[0], K, None)
            with pytest.raises(EngineError, match=said):
                open_collection(f"chroma://{server}/items", limits)
        finally:
            process.send_signal(signal.SIGCONT)
        assert len(collection.answer(QUERIES[0], K, None).ids) == K


def test_what_a_killed_probe_leaves_is_removed_by_the_next(folder, tmp_path, scratch):
    before = files(folder)
    words = command("probe", f"chroma://{folder}/items", "--max-rate", "1/s")
    process = subprocess.Popen(
        words, env={**os.environ, "TMPDIR": str(scratch)}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    try:
        # What is discovered is shown before the first query.
        assert process.stderr.readline().startswith(b"recallatk: chroma://")
    finally:
        process.kill()
        process.communicate()
    assert files(folder) == before
    [left] = [each for each in scratch.iterdir() if each.is_dir()]
    with open_collection(f"chroma://{folder}/items"):
        assert not left.exists()


@pytest.mark.parametrize(
    ("rest", "said"),
    [
        ("/itmes", "no collection 'itmes'. The collections are: empty, flat, items or products"),
        ("", "names no collection.*The collections are: empty, flat, items or products"),
        ("/nothing/items", "does not exist"),
        ("/items?tabel=x", "no option 'tabel'"),
        ("/empty", "has no rows"),
    ],
)
def test_a_wrong_target_is_told_what_there_is(folder, rest, said):
    with pytest.raises(RecallError, match=said):
        open_collection(f"chroma://{folder}{rest}")


def test_other_wrong_targets_are_told_what_there_is(tmp_path, folder, server):
    with pytest.raises(UsageError, match="has no Chroma store"):
        open_collection(f"chroma://{tmp_path}/items")
    assert not list(tmp_path.iterdir())
    with pytest.raises(EngineError, match=r"127.0.0.1:1 cannot be reached"):
        open_collection("chroma://127.0.0.1:1/items")
    with pytest.raises(UsageError, match=r"no collection 'itmes'. The collections are: items"):
        open_collection(f"chroma://{server}/itmes")
    with pytest.raises(UsageError, match=r"names no collection. Type it as chroma://host:port/collection"):
        open_collection(f"chroma://{server}/")
    with pytest.raises(UsageError, match=r"no database 'default_database' of the tenant 'nobody'"):
        open_collection(f"chroma://{server}/items?tenant=nobody")
    with pytest.raises(EngineError, match=r"NotFoundError: Tenant \[nobody\] not found"):
        open_collection(f"chroma://{folder}/items?tenant=nobody")
    with pytest.raises(UsageError, match=r"https=yes. Accepted: true or false"):
        open_collection(f"chroma://{server}/items?https=yes")


def test_columns_of_many_kinds(tmp_path):
    client = local_client(tmp_path)
    held = client.create_collection("kinds", embedding_function=None)
    held.add(
        ids=["a", "b", "c"],
        embeddings=VECTORS[:3],
        metadatas=[
            {"n": 1, "x": 1, "m": 1.5, "tags": ["p", "q"]},
            {"n": 1.5, "x": "one", "m": 2.5, "tags": ["q"]},
            {"n": 2, "m": 3.5, "tags": ["r"]},
        ],
    )
    assert held.get(where={"n": {"$gte": 1.5}})["ids"] == ["a", "b", "c"], "Chroma is wrong about a"
    close_client(client)
    with open_collection(f"chroma://{tmp_path}/kinds") as collection:
        for text, right in [("m >= 2", ["b", "c"]), ("tags contains any ('q')", ["a", "b"])]:
            assert sorted(collection.answer(QUERIES[0], 3, parse_filter(text)).ids) == right
        for name in ("n", "x"):
            assert "holds values of several types" in collection.refusal(parse_filter(f"{name} >= 1.5"))
        assert streamed(collection, ["n", "tags"])["n"].to_pylist() == [1.0, 1.5, 2.0]
        with pytest.raises(FilterError, match=r"no column 'town'. The columns are: m, n, tags, x"):
            collection.answer(QUERIES[0], 3, parse_filter("town = 'x'"))
        assert collection.refusal(parse_filter("town = 'x'")) is None


def test_the_token_is_sent_and_never_shown(monkeypatch):
    """A server that admits nobody, because a Chroma server without a proxy admits everybody."""

    class Refusing(BaseHTTPRequestHandler):
        def do_GET(self):
            tokens.append(self.headers.get("x-chroma-token"))
            self.send_error(403)

        def log_message(self, *_):
            pass

    tokens = []
    monkeypatch.setenv("CHROMA_API_KEY", "secret-of-chroma")
    with HTTPServer(("127.0.0.1", 0), Refusing) as guard:
        thread = threading.Thread(target=guard.serve_forever)
        thread.start()
        try:
            done = recallatk("probe", f"chroma://127.0.0.1:{guard.server_port}/items")
        finally:
            guard.shutdown()
            thread.join()
    assert done.returncode != 0
    assert "does not admit this client. Set CHROMA_API_KEY" in done.stderr
    assert tokens[-1] == "secret-of-chroma"
    assert "secret-of-chroma" not in done.stdout + done.stderr


@pytest.fixture(scope="module")
def queries(tmp_path_factory):
    """A file of real queries."""
    random = np.random.default_rng(5)
    vectors = random.normal(size=(150, DIMENSION)).astype("f4")
    file = tmp_path_factory.mktemp("queries") / "queries.parquet"
    pq.write_table(pa.table({"vector": list(vectors)}), file)
    return file, vectors


def oracle(place, vectors, mask=None, **search):
    """Mean recall by NumPy of the library's own answers."""
    with open_collection(f"chroma://{place}/items") as collection:
        collection.configure(search)
        condition = None if mask is None else parse_filter(NATIVE)
        found = [
            len(set(collection.answer(each, K, condition).ids) & set(nearest(each, mask))) / K
            for each in vectors
        ]
    return np.mean(found)


ASK = ("--max-rate", "none", "--json")


def test_it_is_probed_by_the_command(place, queries):
    file, vectors = queries
    target = f"chroma://{place}/items"
    done = recallatk("probe", target, "--queries", file, *ASK, "--target", "recall@10 >= 0.97")
    assert done.returncode == 1, done.stderr
    assert json.loads(done.stdout)["verdict"]["outcome"] == "FAIL"
    done = recallatk("probe", target, "--queries", file, *ASK, "--where", NATIVE)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["recall"]["value"] == pytest.approx(oracle(place, vectors, NATIVE_MASK))
    assert (found["rows"], found["k"], found["queries"], found["exact_queries"]) == (ROWS, K, 150, 150)
    assert found["truth_source"].startswith("certified truth of the vectors that chroma stores")
    assert (found["index_used"], found["settings"]) == (None, {"ef_search": "10"})


def test_its_effort_is_tuned_by_the_command(folder, server, queries):
    file, vectors = queries
    target = f"chroma://{folder}/items"
    done = recallatk("tune", target, "--queries", file, *ASK, "--target", "recall@10 >= 0.8")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    effort = found["search"]["ef_search"]
    assert oracle(folder, vectors, ef_search=effort) >= 0.8 > oracle(folder, vectors, ef_search=effort // 2)
    assert f'"ef_search": {effort}' in found["snippet"]
    done = recallatk(
        "tune", f"chroma://{server}/items", "--queries", file, *ASK, "--target", "recall@10>=0.8"
    )
    assert done.returncode == 2
    assert "for all of its clients" in done.stderr


def test_a_sample_of_rows_is_labelled(folder):
    target = f"chroma://{folder}/items"
    done = recallatk("probe", target, "--sample", "60", "--max-rate", "none", "--target", "recall@10 >= 0.01")
    assert done.returncode == 3, done.stderr
    assert "a temporary copy of the folder is searched" in done.stderr
    assert "Optimistic: rows of the collection served as queries" in " ".join(done.stdout.split())


def test_queries_of_another_dimension_are_refused(folder, tmp_path):
    pq.write_table(pa.table({"vector": list(QUERIES[:, :5])}), tmp_path / "other.parquet")
    with pytest.raises(MismatchError, match="dimension mismatch"):
        probe(f"chroma://{folder}/items", tmp_path / "other.parquet")
