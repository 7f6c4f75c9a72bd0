"""A folder that `tap` wrote, read by every command that takes queries or answers."""

import json

import faiss
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from recallatk import probe, tap, watch
from recallatk.cli import app
from recallatk.errors import MismatchError

ROWS, DIMENSION, K, CALLS = 1_000, 16, 10, 120
VECTORS = np.random.default_rng(0).normal(size=(ROWS, DIMENSION)).astype("float32")
QUERIES = np.random.default_rng(1).normal(size=(CALLS, DIMENSION)).astype("float32")
EFFORTS = (16, 32, 64)
BENCH = """
name = "shop"
data = {corpus = "items.parquet", queries = "other.npy", metric = "l2"}
engine = [{name = "exact"}]
"""


def exact(mask=None):
    """The true neighbors of every query by NumPy in float64."""
    far = np.linalg.norm(VECTORS[None].astype("f8") - QUERIES[:, None], axis=2)
    return np.argsort(far if mask is None else np.where(mask, far, np.inf), axis=1)[:, :K]


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """An index in production, its corpus, and logs of its calls: of one setting, and of three mixed."""
    folder = tmp_path_factory.mktemp("a shop with spaces")
    faiss.omp_set_num_threads(1)
    index = faiss.IndexHNSWFlat(DIMENSION, 6)
    index.add(VECTORS)
    faiss.write_index(index, str(folder / "items.faiss"))
    lists = pa.FixedSizeListArray.from_arrays(pa.array(VECTORS.ravel()), DIMENSION)
    pq.write_table(pa.table({"vector": lists, "price": list(range(ROWS))}), folder / "items.parquet")
    np.save(folder / "other.npy", QUERIES[:40] + 1)
    (folder / "bench.toml").write_text(BENCH)
    returned = {}

    def search(vector, k=K, ef=16, filter=None):
        index.hnsw.efSearch = ef
        found = index.search(vector[None], k)[1][0].tolist()
        returned[ef, vector.tobytes()] = found
        return found

    for name, efforts, where in (
        ("one log", EFFORTS[:1], None),
        ("mixed", EFFORTS, None),
        ("filtered", EFFORTS[:1], "price < 500"),
    ):
        tapped = tap(search, sample=1.0, to=folder / name)
        for number, query in enumerate(QUERIES):
            tapped(query, ef=efforts[number % len(efforts)], filter=where)
        assert tapped.log.close() and tapped.log.counts["written"] == CALLS
    return folder, returned


@pytest.fixture
def ran(shop, monkeypatch):
    monkeypatch.chdir(shop[0])
    return lambda *words: CliRunner().invoke(app, [str(each) for each in words])


def recall(returned, effort, places=range(CALLS), mask=None):
    """Recall of what the index returned at an effort."""
    lists = [returned[effort, QUERIES[place].tobytes()] for place in places]
    return np.mean([len(set(a) & set(b)) / K for a, b in zip(lists, exact(mask)[list(places)], strict=True)])


TARGET = "faiss://items.faiss?corpus=items.parquet"
PROBE = ("probe", TARGET, "--max-rate", "none", "--json", "--queries")


def test_a_probe_asks_the_queries_of_a_log(shop, ran):
    _, returned = shop
    done = ran(*PROBE, "one log/", "--by", "k")
    assert done.exit_code == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["settings"] == {"efSearch": "16"}
    assert found["recall"]["value"] == pytest.approx(recall(returned, 16))
    assert [(each["segment"], each["queries"]) for each in found["by"]["k"]] == [("10", CALLS)]
    one = ran(*PROBE, "mixed/?ef=32")
    assert json.loads(one.stdout)["queries"] == CALLS // 3
    wide = ran(*PROBE, "mixed", "--search", "efSearch=500")
    assert json.loads(wide.stdout)["queries"] == CALLS


def test_a_probe_applies_the_filters_of_a_log(ran):
    done = ran(*PROBE, "filtered", "--search", "efSearch=500")
    assert done.exit_code == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["by"]["filter"][0]["segment"] == "filtered" and found["recall"]["value"] > 0.95
    assert found["by"]["selectivity"][0]["segment"] == "10 to 100 % of the rows"


def test_a_collection_is_tuned_by_a_log(shop, ran):
    goal = ("--target", "recall@10 >= 0.8", "--json", "--max-rate", "none")
    for words in (("--queries", "one log/"), ("one log",), ("mixed",)):
        done = ran("tune", TARGET, *words, *goal)
        assert done.exit_code == 0, done.stderr
        assert json.loads(done.stdout)["met"]


def test_an_index_to_build_is_tuned_by_a_log(ran):
    done = ran("tune", "items.parquet", "one log/", "--metric", "l2", "--engine", "faiss-hnsw",
               "--target", "recall@10 >= 0.8", "--out", "tuned", "--json", "--time", "4s")  # fmt: skip
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["met"] is True


def test_an_audit_compares_a_benchmark_with_a_log(ran):
    done = ran("audit", "bench.toml", "--production", "filtered/", "--json")
    assert done.exit_code == 0, done.stderr
    found = {each["rule"]: each for each in json.loads(done.stdout)["findings"]}
    assert "100.0% of the production queries have a filter" in json.dumps(found["R09"])


def test_a_score_is_that_of_what_production_returned(shop, ran):
    _, returned = shop
    done = ran("truth", "items.parquet", "mixed", "--metric", "l2", "--out", "mixed.parquet")
    assert done.exit_code == 0, done.stderr
    for place, effort in enumerate(EFFORTS):
        chosen = f"mixed/?ef={effort}"
        made = ran("truth", "items.parquet", chosen, "--metric", "l2", "--out", f"truth-{effort}.parquet")
        assert made.exit_code == 0, made.stderr
        done = ran("score", f"truth-{effort}.parquet", chosen, "--at", "10", "--json")
        assert done.exit_code == 0, done.stderr
        expected = recall(returned, effort, range(place, CALLS, 3))
        assert json.loads(done.stdout)["measures"]["recall@10"]["value"] == pytest.approx(expected)


def test_the_latest_calls_may_be_of_one_setting_in_a_log_of_several(shop, tmp_path, monkeypatch):
    monkeypatch.chdir(shop[0])
    tapped = tap(lambda vector, k=K, ef=16: [0], sample=1.0, to=tmp_path / "changed")
    for number, query in enumerate(QUERIES[:60]):
        tapped(query, ef=16 if number < 40 else 64)
    assert tapped.log.close()
    with pytest.raises(MismatchError, match="2 different parameter sets"):
        probe(TARGET, tmp_path / "changed", recent=30, max_rate=None)
    assert probe(TARGET, tmp_path / "changed", recent=20, max_rate=None).recall.n == 20
    # Waiting does not mend a mixed log, so a watch ends instead of looking again and again.
    looks = watch(TARGET, tmp_path / "changed", recent=30, max_rate=None)
    with pytest.raises(MismatchError, match="2 different parameter sets"):
        next(looks)


@pytest.mark.parametrize(
    "words",
    [("probe", TARGET, "--queries", "mixed"), ("score", "all.parquet", "mixed/")],
    ids=["probe", "score"],
)
def test_three_settings_in_one_log_are_named_with_what_to_type(ran, words):
    if words[0] == "score":
        assert ran("truth", "items.parquet", "mixed", "--metric", "l2", "--out", "all.parquet").exit_code == 0
    done = ran(*words)
    assert done.exit_code == 2
    said = " ".join(done.stderr.split())
    assert "3 different parameter sets: ef=16 (40 calls), ef=32 (40 calls), ef=64 (40 calls)" in said
    assert "for example: 'mixed/?ef=16'" in said
    assert ("state it: --search NAME=VALUE" in said) == (words[0] == "probe")
