"""Probes of a function and of an HTTP service: the same numbers as an oracle, and errors that help."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import recallatk as package
from recallatk.adapters.attached_collection import FunctionCollection
from recallatk.errors import RecallError
from recallatk.probing import probe, tune_effort

from commands import recallatk  # isort: skip

ROWS, DIMENSION, K = 1_000, 16, 10
MODULE = """
import numpy as np, pyarrow.parquet as pq

table = pq.read_table("corpus.parquet")
ids = table["id"].to_pylist()
vectors = np.stack(table["vector"].to_pylist()).astype("f4")

def search(queries, k, ef=100):
    found = []
    for query in np.asarray(queries, "f4"):
        # The answer is right among the first rows alone: the more of them, the better.
        scores = vectors[: ef * 10] @ query / np.linalg.norm(vectors[: ef * 10], axis=1)
        found.append([ids[row] for row in np.argsort(-scores, kind="stable")[:k]])
    return found

def broken(queries, k):
    raise RuntimeError("no index today")
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A folder with a corpus, queries with a column, and a module that searches."""
    folder = tmp_path_factory.mktemp("a folder with spaces")
    random = np.random.default_rng(3)
    vectors, queries = (random.normal(size=(count, DIMENSION)).astype("f4") for count in (ROWS, 120))
    ids = [f"{row}" for row in range(ROWS)]
    pq.write_table(pa.table({"id": ids, "vector": list(vectors)}), folder / "corpus.parquet")
    kinds = [f"kind {number % 3}" for number in range(120)]
    pq.write_table(pa.table({"vector": list(queries), "kind": kinds}), folder / "queries.parquet")
    (folder / "shop_search.py").write_text(MODULE)
    return folder, vectors, queries


def oracle(vectors, queries, ef):
    """Recall of each query, by float64."""
    wide = vectors.astype("f8") / np.linalg.norm(vectors.astype("f8"), axis=1, keepdims=True)
    scores = wide @ queries.astype("f8").T
    right = np.argsort(-scores, axis=0)[:K].T
    found = np.argsort(-scores[: ef * 10], axis=0)[:K].T
    return np.array([len(set(a) & set(b)) / K for a, b in zip(right, found, strict=True)])


TARGET = "shop_search:search?metric=cosine&corpus=corpus.parquet&effort=ef:1..100"
ASK = ("--queries", "queries.parquet", "--max-rate", "none")


def test_a_function_is_probed_by_the_command(data):
    folder, vectors, queries = data
    done = recallatk("probe", TARGET, *ASK, "--search", "ef=60", "--by", "kind", "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    expected = oracle(vectors, queries, 60)
    assert found["recall"]["value"] == pytest.approx(expected.mean())
    assert (found["queries"], found["exact_queries"], found["k"]) == (120, 120, K)
    assert found["index_used"] is None
    parts = {each["segment"]: each["recall"] for each in found["by"]["kind"]}
    for kind in range(3):
        assert parts[f"kind {kind}"] == pytest.approx(expected[kind::3].mean())


@pytest.mark.parametrize(("ef", "code"), [(100, 0), (30, 1)])
def test_the_exit_code_is_the_verdict(data, ef, code):
    goal = ("--target", "recall@10 >= 0.9", "--search", f"ef={ef}")
    assert recallatk("probe", TARGET, *ASK, *goal, cwd=data[0]).returncode == code


def test_its_effort_is_tuned(data):
    folder, vectors, queries = data
    done = recallatk("tune", TARGET, *ASK, "--target", "recall@10 >= 0.6", "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    effort = found["search"]["ef"]
    assert oracle(vectors, queries, effort).mean() >= 0.6
    assert oracle(vectors, queries, effort // 2).mean() < 0.6


def test_rows_of_the_corpus_serve_as_queries(data, monkeypatch):
    folder = data[0]
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(folder)
    found = probe(TARGET, sample=50, max_rate=None, search={"ef": 100}, goals=["recall@10 >= 0.5"])
    assert found.recall.value == 1
    assert found.sampled
    assert found.verdict.outcome == "UNDECIDED"


def test_a_function_in_this_program_is_probed(data):
    _, vectors, queries = data

    def search(asked, k, ef=50):
        scores = (
            vectors[: ef * 10] @ np.asarray(asked).T / np.linalg.norm(vectors[: ef * 10], axis=1)[:, None]
        )
        return np.argsort(-scores, axis=0)[:k].T

    collection = FunctionCollection.of(search, metric="cosine", corpus=vectors, effort="ef:1..100")
    found = probe(collection, queries, max_rate=None)
    assert found.recall.value == pytest.approx(oracle(vectors, queries, 50).mean())
    best = tune_effort(collection, queries, ["recall@10 >= 0.9"], max_rate=None)
    assert best.search["ef"] >= 90


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("shop_search:search?metric=cosine", "--corpus FILE"),
        ("shop_search:serch?corpus=corpus.parquet", "cannot be imported"),
        ("shop_search:search?corpus=corpus.parquet", "metric is unknown"),
        ("shop_search:search?metric=cosine&effort=ef", "NAME:LOW..HIGH"),
        ("shop_search:broken?metric=cosine&corpus=corpus.parquet", "no index today"),
        ("shop_search:search?metric=cosine&corpus=none.parquet", "none.parquet"),
    ],
)
def test_a_wrong_function_target_says_what_to_type(data, target, said):
    done = recallatk("probe", target, *ASK, cwd=data[0])
    assert done.returncode != 0
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_target_without_an_effort_cannot_be_tuned(data):
    target = "shop_search:search?metric=cosine&corpus=corpus.parquet"
    done = recallatk("tune", target, *ASK, "--target", "recall@10 >= 0.6", cwd=data[0])
    assert done.returncode == 2
    assert "Add effort=ef:10..500 to the target" in done.stderr


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.tokens.add(self.headers.get("X-Token"))
        vectors, rows = self.server.vectors, body.get("ef", 100) * 10
        scores = vectors[:rows] @ np.asarray(body["q"], "f4") / np.linalg.norm(vectors[:rows], axis=1)
        said = {"hits": [{"id": int(row)} for row in np.argsort(-scores, kind="stable")[: body["k"]]]}
        text = json.dumps(said).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass


@pytest.fixture
def service(data):
    """A search service whose ids are numbers, where the corpus has texts."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.vectors, server.tokens, server.daemon_threads = data[1], set(), True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    (data[0] / "service.toml").write_text(
        'body = \'{"q": "$vector", "k": "$k", "ef": "$ef"}\'\nids = "hits[].id"\n'
        'headers = \'{"X-Token": "${SHOP_TOKEN}"}\'\nmetric = "cosine"\ncorpus = "corpus.parquet"\n'
        'effort = "ef:1..100"\n'
    )
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_service_is_probed_and_tuned_by_the_command(data, service, monkeypatch):
    folder, vectors, queries = data
    monkeypatch.setenv("SHOP_TOKEN", "secret-of-the-shop")
    url = f"http://127.0.0.1:{service.server_port}/search?config=service.toml"
    done = recallatk("probe", url, *ASK, "--search", "ef=60", "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["recall"]["value"] == pytest.approx(oracle(vectors, queries, 60).mean())
    assert service.tokens == {"secret-of-the-shop"}
    assert "secret-of-the-shop" not in done.stdout + done.stderr
    tuned = recallatk("tune", url, *ASK, "--target", "recall@10 >= 0.6", "--json", cwd=folder)
    assert tuned.returncode == 0, tuned.stderr
    assert oracle(vectors, queries, json.loads(tuned.stdout)["search"]["ef"]).mean() >= 0.6


def test_a_service_that_is_not_there_is_named(data, service):
    service.shutdown()
    service.server_close()
    url = f"http://127.0.0.1:{service.server_port}/search?metric=cosine&corpus=corpus.parquet"
    done = recallatk("probe", url, *ASK, cwd=data[0])
    assert done.returncode != 0
    assert "cannot be reached" in done.stderr


def test_a_log_of_three_settings_is_refused_unless_one_is_stated(data, tmp_path):
    _, vectors, queries = data

    def search(query, k=10, ef=50):
        return list(range(k))

    logged = package.tap(search, sample=1.0, to=tmp_path / "log")
    for number, query in enumerate(queries[:60]):
        logged(query, k=10, ef=(10, 20, 30)[number % 3])
    logged.log.close()

    def wide(asked, k, ef=100):
        scores = vectors @ np.asarray(asked).T / np.linalg.norm(vectors, axis=1)[:, None]
        return np.argsort(-scores, axis=0)[:k].T

    collection = FunctionCollection.of(wide, metric="cosine", corpus=vectors)
    with pytest.raises(RecallError, match="3 different parameter sets"):
        probe(collection, tmp_path / "log", max_rate=None)
    assert probe(collection, f"{tmp_path}/log/?ef=20", max_rate=None).recall.n == 20
    assert probe(collection, tmp_path / "log", search={"ef": 100}, max_rate=None).recall.n == 60


def test_rows_of_a_corpus_that_an_option_names_serve_as_queries(data):
    folder, _, _ = data
    words = ("--sample", "40", "--max-rate", "none", "--json")
    stated = recallatk(
        "probe", "shop_search:search?metric=cosine", "--corpus", "corpus.parquet", *words, cwd=folder
    )
    assert stated.returncode == 0, stated.stderr
    named = recallatk("probe", "shop_search:search?metric=cosine&corpus=corpus.parquet", *words, cwd=folder)
    found, other = json.loads(stated.stdout), json.loads(named.stdout)
    assert found["sampled_rows_as_queries"] and found["queries"] == 40
    assert found["recall"] == other["recall"]
