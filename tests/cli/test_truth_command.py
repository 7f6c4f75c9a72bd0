"""`recallatk truth` end to end, in processes of their own."""

import json
import os
import signal
import subprocess
import time

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from commands import command, recallatk
from recallatk import load_truth

RANDOM = np.random.default_rng(3)
CORPUS = RANDOM.normal(size=(300, 8)).astype("float32")
CORPUS[40:52] = CORPUS[7]
QUERIES = np.concatenate([RANDOM.normal(size=(20, 8)).astype("float32"), CORPUS[7:8]])
KEYS = {
    "queries",
    "depth",
    "certified",
    "ties",
    "eligible_min",
    "seconds",
    "reused",
    "out",
    "fingerprint",
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    place = tmp_path / "my data"
    place.mkdir()
    monkeypatch.chdir(place)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    ids = [f"row {number}" for number in range(len(CORPUS))]
    colours = [["red", "green", "blue"][number % 3] for number in range(len(CORPUS))]
    pq.write_table(pa.table({"id": ids, "vector": list(CORPUS), "colour": colours}), "corpus.parquet")
    np.save("queries.npy", QUERIES)
    return place


def computed(*options):
    ran = recallatk("truth", "corpus.parquet", "queries.npy", "--json", *options)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def test_the_object_has_what_was_promised_and_the_second_time_is_reused(folder, tmp_path):
    first = computed("--metric", "cosine", "--depth", 10)
    assert set(first) >= KEYS
    assert (first["queries"], first["depth"], first["certified"], first["reused"]) == (21, 10, 21, False)
    assert first["eligible_min"] == 300
    assert first["ties"] == {"1": 1, "10": 1}
    assert str(tmp_path / "cache") in first["out"]
    again = computed("--metric", "cosine", "--depth", 10)
    assert again["reused"] is True
    assert {**again, "seconds": 0, "reused": 0, "way": 0, "scanned_rows": 0, "redone_queries": 0} == {
        **first,
        "seconds": 0,
        "reused": 0,
        "way": 0,
        "scanned_rows": 0,
        "redone_queries": 0,
    }


def test_reused_is_said_in_words(folder):
    options = ("truth", "corpus.parquet", "queries.npy", "--metric", "l2", "--store", "a store")
    assert "computed in" in recallatk(*options).stdout
    assert "reused from a store" in recallatk(*options).stdout


def test_options_may_come_first_and_the_command_may_be_named(folder):
    bare = ("corpus.parquet", "queries.npy", "--metric", "ip", "--json")
    prints = {
        json.loads(recallatk("truth", *arguments).stdout)["fingerprint"]
        for arguments in (bare, ("compute", *bare), ("--json", "--metric", "ip", *bare[:2]))
    }
    assert len(prints) == 1


def test_memory_threads_backend_and_format_change_no_byte(folder):
    np.save("corpus.npy", CORPUS)
    files = []
    for number, options in enumerate(
        [
            ("--memory", "256MiB"),
            ("--memory", "1GiB", "--threads", 1),
            ("--backend", "faiss", "--threads", 2),
        ]
    ):
        computed("--metric", "l2", "--store", f"store {number}", "--out", f"{number}.parquet", *options)
        files.append((folder / f"{number}.parquet").read_bytes())
    assert len(set(files)) == 1


def test_a_filter_is_obeyed_and_counted(folder):
    found = computed("--metric", "cosine", "--depth", 5, "--where", "colour = 'red'", "--out", "red.parquet")
    assert found["eligible_min"] == 100
    truth = load_truth(folder / "red.parquet")
    assert (truth.rows % 3 == 0).all()
    assert truth.ids_of(truth.rows[0, :1]).to_pylist() == [f"row {truth.rows[0, 0]}"]


def test_a_grown_corpus_is_brought_up_to_date(folder):
    computed("--metric", "cosine", "--store", "store")
    more = np.concatenate([CORPUS, RANDOM.normal(size=(9, 8)).astype("float32")])
    np.save("more.npy", more)
    ran = recallatk("truth", "more.npy", "queries.npy", "--metric", "cosine", "--store", "store", "--json")
    found = json.loads(ran.stdout)
    assert (found["way"], found["scanned_rows"], found["redone_queries"]) == ("updated", 9, 0)


def test_a_sample_is_marked(folder):
    found = computed("--metric", "cosine", "--corpus-sample", 50, "--depth", 5, "--out", "part.parquet")
    assert found["sampled_from"] == 300
    assert load_truth(folder / "part.parquet").sampled_from == 300
    words = recallatk("truth", "corpus.parquet", "queries.npy", "--metric", "cosine", "--corpus-sample", 50)
    assert "a sample of 300 rows: recall on it does not carry over" in words.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["corpus.parquet", "queries.npy"], "State it: cosine, ip or l2"),
        (["corpus.parquet", "queries.npy", "--metric", "dot"], "no metric 'dot'"),
        (["corpus.parquet", "queries.npy", "--metric", "l2", "--depth", "0"], "a depth of 0"),
        (["corpus.parquet", "queries.npy", "--metric", "l2", "--memory", "1MiB"], "256 MiB or more"),
        (["corpus.parquet", "queries.npy", "--metric", "l2", "--memory", "much"], "a size of 'much'"),
        (["corpus.parquet", "queries.npy", "--metric", "l2", "--threads", "0"], "0 threads"),
        (["corpus.parquet", "queries.npy", "--metric", "l2", "--backend", "gpu"], "blas or faiss"),
        (["corpus.parquet", "queries.npy", "--metric", "l2", "--where", "size = 1"], "no column 'size'"),
        (["corpus.parquet", "queries.npy", "--metric", "l2", "--out", "."], "is a folder"),
        (["corpus.parquet", "--metric", "l2"], "holds one matrix and no queries"),
        (["nothing.parquet", "queries.npy", "--metric", "l2"], "no such file"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(folder, arguments, message):
    ran = recallatk("truth", *arguments)
    assert ran.returncode == 2
    assert ran.stdout == ""
    assert message in ran.stderr
    assert ran.stderr.count("\n") == 1


def test_our_truth_is_proved_and_a_changed_corpus_is_noticed(folder):
    computed("--metric", "l2", "--depth", 7, "--out", "truth.parquet")
    ran = recallatk("truth", "verify", "truth.parquet", "corpus.parquet", "queries.npy", "--json")
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["right"] is True
    np.save("other.npy", CORPUS[::-1])
    ran = recallatk("truth", "verify", "truth.parquet", "other.npy", "queries.npy", "--sample", 5)
    assert ran.returncode == 1
    assert "was made from other data: ids, vectors" in ran.stderr


def test_a_wrong_neighbour_in_somebody_elses_file_is_named(folder):
    nearest = np.argsort(((QUERIES[:, None] - CORPUS[None]).astype("float64") ** 2).sum(-1), kind="stable")
    neighbours = nearest[:, :10].astype("int32")
    neighbours[4, 6] = nearest[4, 20]
    with h5py.File("bench.hdf5", "w") as file:
        file.attrs.update({"distance": "euclidean", "type": "dense", "dimension": 8, "point_type": "float"})
        file["train"], file["test"], file["neighbors"] = CORPUS, QUERIES, neighbours
        file["distances"] = np.zeros(neighbours.shape, "float32")
    ran = recallatk("truth", "verify", "bench.hdf5", "bench.hdf5", "--json")
    assert ran.returncode == 1, ran.stderr
    wrong = json.loads(ran.stdout)["wrong"]
    first = wrong[0]
    assert (first["query"], first["rank"], first["fault"]) == (4, 7, "not among the best")
    assert first["neighbor"] == nearest[4, 20]
    assert first["gap"] > 0


def test_control_c_says_how_to_go_on_and_the_same_command_does(folder):
    random = np.random.default_rng(0)
    np.save("big.npy", random.normal(size=(400_000, 64)).astype("float32"))
    np.save("many.npy", random.normal(size=(9_000, 64)).astype("float32"))
    words = ("truth", "big.npy", "many.npy", "--metric", "l2", "--threads", "1")
    process = subprocess.Popen(command(*words), stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    time.sleep(2.5)
    os.kill(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "To go on: recallatk truth big.npy many.npy --metric l2 --threads 1" in errors


def test_one_query_is_one_query(folder):
    np.save("one.npy", QUERIES[:1])
    ran = recallatk("truth", "corpus.parquet", "one.npy", "--metric", "l2", "--depth", 400)
    assert "of 300 rows for 1 query, l2\n" in ran.stdout
    assert "1 query has fewer than 400 eligible rows" in ran.stdout
