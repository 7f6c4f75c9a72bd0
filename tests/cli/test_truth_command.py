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


SWAPPED = "warning: the corpus has {} and there are {} queries. Are corpus and queries swapped?"


def test_swapped_files_are_warned_of_by_every_command_that_makes_or_uses_a_truth(folder):
    np.save("rows.npy", CORPUS)
    swapped = ("queries.npy", "rows.npy")
    said = SWAPPED.format("21 rows", 300)
    truth = ("--metric", "l2", "--depth", 5, "--store", "store", "--out", "truth.parquet")
    ran = recallatk("truth", *swapped, *truth)
    assert ran.returncode == 0
    assert said in ran.stderr
    assert said in recallatk("truth", "verify", "truth.parquet", *swapped).stderr
    np.save("answers.npy", np.zeros((300, 5), np.int64))
    assert said in recallatk("score", "truth.parquet", "answers.npy").stderr
    assert said in recallatk("run", *swapped, "--metric", "l2", "--engine", "exact", "--dry-run").stderr
    right = recallatk("truth", *reversed(swapped), *truth)
    assert "swapped" not in right.stderr


def test_a_depth_beyond_the_rows_of_the_corpus_is_said_plainly(folder):
    options = ("truth", "corpus.parquet", "queries.npy", "--metric", "l2", "--store", "store")
    lines = recallatk(*options, "--depth", 400).stdout.splitlines()
    assert ": the best 300 of 300 rows for 21 queries" in lines[0]
    assert lines[-1] == (
        "  the depth of 400 exceeds the 300 rows of the corpus: every query lists all of its eligible rows"
    )
    found = json.loads(recallatk(*options, "--depth", 400, "--json").stdout)
    assert (found["depth"], found["longest_list"], found["corpus_rows"]) == (400, 300, 300)
    assert "exceeds" not in recallatk(*options, "--depth", 300).stdout


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
    assert "a sample of 300 rows: recall on a sample does not transfer" in words.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["corpus.parquet", "queries.npy"], "(--metric)"),
        (["corpus.parquet", "queries.npy", "--metric", "dot"], "no metric 'dot'"),
        (["corpus.parquet", "queries.npy", "--metric", "l2", "--depth", "0"], "a depth of 0"),
        (["corpus.parquet", "queries.npy", "--metric", "l2", "--memory", "1MiB"], "256 MiB or more"),
        (["corpus.parquet", "queries.npy", "--metric", "l2", "--memory", "much"], "'much' is not a size"),
        (["corpus.parquet", "queries.npy", "--metric", "l2", "--threads", "0"], "0 threads"),
        (["corpus.parquet", "queries.npy", "--metric", "l2", "--backend", "gpu"], "blas or faiss"),
        (["corpus.parquet", "queries.npy", "--metric", "l2", "--where", "size = 1"], "no column 'size'"),
        (["corpus.parquet", "queries.npy", "--metric", "l2", "--out", "."], "is a folder"),
        (["corpus.parquet", "--metric", "l2"], "has vectors but no queries"),
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
    assert "was computed for different data: ids, vectors" in ran.stderr


def test_a_wrong_neighbour_in_somebody_elses_file_is_named(folder):
    nearest, distances = exact_l2()
    neighbours = nearest[:, :10].astype("int32")
    neighbours[4, 6] = nearest[4, 20]
    write_hdf5(neighbours, distances[:, :10])
    ran = recallatk("truth", "verify", "bench.hdf5", "bench.hdf5", "--json")
    assert ran.returncode == 1, ran.stderr
    (wrong,) = json.loads(ran.stdout)["wrong"]
    assert (wrong["query"], wrong["rank"], wrong["fault"]) == (4, 7, "not among the best")
    assert wrong["neighbor"] == nearest[4, 20]
    assert wrong["gap"] > 0


def exact_l2():
    distances = np.linalg.norm(QUERIES.astype("float64")[:, None] - CORPUS.astype("float64")[None], axis=2)
    return np.argsort(distances, axis=1, kind="stable"), np.sort(distances, axis=1)


def write_hdf5(neighbours, distances):
    with h5py.File("bench.hdf5", "w") as file:
        file.attrs.update({"distance": "euclidean", "type": "dense", "dimension": 8, "point_type": "float"})
        file["train"], file["test"], file["neighbors"] = CORPUS, QUERIES, neighbours.astype("int32")
        file["distances"] = distances.astype("float32")


def test_distances_in_somebody_elses_file_that_are_not_theirs_are_named(folder):
    nearest, distances = exact_l2()
    write_hdf5(nearest[:, :10], distances[:, :10])
    assert recallatk("truth", "verify", "bench.hdf5", "bench.hdf5").returncode == 0
    # Equal distances are ties, and among ties any answer is right.
    distances[5] = distances[5, 9]
    write_hdf5(nearest[:, :10], distances[:, :10])
    ran = recallatk("truth", "verify", "bench.hdf5", "bench.hdf5")
    assert ran.returncode == 1
    lines = ran.stdout.splitlines()
    assert lines[0].startswith(f"query 5, rank 1: wrong score: scores of {nearest[5, 0]} is ")
    assert all(line.startswith("query 5, ") for line in lines[:-1])


def changed_column(name, change):
    """The truth file with one column of its table changed, as any Parquet tool can do it."""
    table = pq.read_table("truth.parquet")
    values = table[name].to_pylist()
    change(values)
    place = table.column_names.index(name)
    column = pa.array(values, table.schema.field(name).type)
    pq.write_table(table.set_column(place, table.schema.field(name), column), "truth.parquet")


def set_entry(query, value, rank=None):
    def change(values):
        if rank is None:
            values[query] = value
        else:
            values[query][rank] = value

    return change


FORGED = {
    "decided, less than was needed": ("decided", set_entry(20, "float32"), "decided is float32, not exact"),
    "decided, more than was needed": ("decided", set_entry(3, "exact"), "decided is exact, not float"),
    "decided, another float": ("decided", set_entry(3, "float64"), "decided is float64, not float32"),
    "bound": ("bound", set_entry(3, 1e-30), "bound is 1e-30, not "),
    "no bound": ("bound", set_entry(3, None), "bound is None, not "),
    "next_row": ("next_row", set_entry(3, 0), "next_row is 0, not "),
    "tied_count": ("tied_count", set_entry(20, 99), "tied_count is 99, not 6"),
    "eligible": ("eligible", set_entry(3, 17), "eligible is 17, not 300"),
    "tied": ("tied", set_entry(3, True, 2), "tied of row "),
    "scores": ("scores", set_entry(3, 0.25, 2), "scores of row "),
}


@pytest.mark.parametrize("forged", FORGED)
def test_a_forged_column_of_our_truth_is_named_with_its_query(folder, forged):
    name, change, said = FORGED[forged]
    computed("--metric", "l2", "--depth", 7, "--out", "truth.parquet")
    changed_column(name, change)
    ran = recallatk("truth", "verify", "truth.parquet", "corpus.parquet", "queries.npy")
    assert ran.returncode == 1, ran.stderr
    fault, summary = ran.stdout.splitlines()
    query = 20 if "20" in fault.split(":")[0] else 3
    assert fault.startswith(f"query {query}")
    assert said in fault
    assert "1 fault in 1 query" in summary


CONTRADICTIONS = {
    "gap": ("gap", set_entry(3, 0.125), "query 3: gap is 0.125"),
    "next_score": ("next_score", set_entry(3, 9.0), "query 3: gap is "),
    "rows": ("rows", set_entry(3, 7, 2), "query 3: row 7 is listed with the id "),
    "neighbors": ("neighbors", set_entry(3, "row 7", 2), "is listed with the id row 7"),
    "tied_rows": ("tied_rows", set_entry(20, 1, 2), "query 20: row 1 is listed with the id "),
    "a longer list": ("scores", lambda lists: lists[3].append(1.0), "query 3: 7 rows and 8 scores"),
    "a shifted list": (
        "scores",
        lambda lists: lists[5].insert(0, lists[4].pop()),
        "query 4: 7 rows and 6 scores",
    ),
}


@pytest.mark.parametrize("contradiction", CONTRADICTIONS)
def test_a_truth_that_contradicts_itself_is_refused_by_the_query_that_is_wrong(folder, contradiction):
    name, change, said = CONTRADICTIONS[contradiction]
    computed("--metric", "l2", "--depth", 7, "--out", "truth.parquet")
    changed_column(name, change)
    ran = recallatk("truth", "verify", "truth.parquet", "corpus.parquet", "queries.npy")
    assert ran.returncode == 2
    assert "truth.parquet, query " in ran.stderr
    assert said in ran.stderr


def test_one_changed_row_number_is_blamed_on_its_own_query_where_ids_are_row_numbers(folder):
    np.save("plain.npy", CORPUS)
    out = ("--metric", "l2", "--depth", 7, "--out", "truth.parquet")
    assert recallatk("truth", "plain.npy", "queries.npy", *out).returncode == 0
    rows = load_truth("truth.parquet").rows
    # A row that a later query lists: its id there would be taken from the changed entry.
    shared = next(row for row in rows[9] if row not in rows[:9])
    changed_column("rows", set_entry(2, int(shared), 3))
    ran = recallatk("truth", "verify", "truth.parquet", "plain.npy", "queries.npy")
    assert f"query 2: row {shared} is listed with the id {rows[2, 3]}" in ran.stderr
    assert "query 9" not in ran.stderr + ran.stdout


def test_a_changed_corpus_row_is_blamed_on_the_queries_whose_lists_it_changes(folder):
    computed("--metric", "l2", "--depth", 7, "--out", "truth.parquet")
    moved = CORPUS.copy()
    moved[200] = QUERIES[6]
    table = pq.read_table("corpus.parquet")
    pq.write_table(table.set_column(1, "vector", pa.array(list(moved))), "moved.parquet")
    new = ("truth", "moved.parquet", "queries.npy", "--metric", "l2", "--depth", 7, "--out", "new.parquet")
    assert recallatk(*new).returncode == 0
    before, after = load_truth("truth.parquet"), load_truth("new.parquet")
    lists = np.flatnonzero((before.rows != after.rows).any(axis=1))
    ran = recallatk("truth", "verify", "truth.parquet", "moved.parquet", "queries.npy", "--json")
    wrong = json.loads(ran.stdout)["wrong"]
    assert {each["query"] for each in wrong if each["rank"] is not None} == set(lists.tolist())
    pushed_out = [each for each in wrong if each["query"] == 6 and each["rank"] is not None]
    assert [(each["rank"], each["fault"]) for each in pushed_out] == [(7, "not among the best")]


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
    assert "Resume with: recallatk truth big.npy many.npy --metric l2 --threads 1" in errors


def test_one_query_is_one_query(folder):
    np.save("one.npy", QUERIES[:1])
    red = ("--where", "colour = 'red'")
    ran = recallatk("truth", "corpus.parquet", "one.npy", "--metric", "l2", "--depth", 200, *red)
    assert "of 300 rows for 1 query, l2\n" in ran.stdout
    assert "1 query has fewer than 200 eligible rows" in ran.stdout
