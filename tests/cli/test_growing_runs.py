"""`recallatk run` into a folder that has a run: it grows by what is new, also after a kill."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from commands import recallatk
from recallatk import load_run


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    random = np.random.default_rng(0)
    for name, rows in (("corpus", 300), ("queries", 40)):
        np.save(folder / f"{name}.npy", random.normal(size=(rows, 8)).astype("float32"))
    return folder


def plain(files, folder):
    data = (str(files / f"{name}.npy") for name in ("corpus", "queries"))
    return ["run", *data, "--metric", "l2", "--at", "10", "--rounds", "2", "--out", str(folder)]


@pytest.fixture
def words(files, tmp_path):
    return plain(files, tmp_path / "run")


@pytest.fixture(scope="module")
def begun(files, tmp_path_factory):
    exact = [*plain(files, tmp_path_factory.mktemp("begun")), "--engine", "exact"]
    assert recallatk(*exact).returncode == 0
    return exact


def grown(*arguments):
    ran = recallatk(*arguments, "--json")
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def efforts(found):
    return [each["search"].get("ef") for each in found["trials"]]


def timings(folder):
    return {str(each.trial): each.calls.latency_ns.tolist() for each in load_run(folder).measurements}


def test_one_more_value_engine_or_none_of_the_old_ones_grows_the_run(words, tmp_path):
    hnsw = [*words, "--engine", "faiss-hnsw", "--build", "M=8"]
    assert efforts(grown(*hnsw, "--search", "ef=10,20")) == [10, 20]
    before = timings(tmp_path / "run")
    found = grown(*hnsw, "--search", "ef=10,15,20")
    assert efforts(found) == [10, 15, 20] and found["complete"] and found["kept"] == []
    after = timings(tmp_path / "run")
    # What was there was not measured again.
    assert {name: after[name] for name in before} == before
    # Another engine, and a value that the settings no longer name.
    found = grown(
        *hnsw, "--engine", "exact", "--search", "faiss-hnsw.ef=15,20", "--target", "recall@10 >= 0.5"
    )
    assert [(each["engine"], each["search"].get("ef")) for each in found["trials"]] == [
        ("faiss-hnsw", 15),
        ("faiss-hnsw", 20),
        ("exact", None),
        ("faiss-hnsw", 10),
    ]
    assert (found["planned"], found["kept"]) == (3, [4])
    assert after.items() <= timings(tmp_path / "run").items()
    shown = recallatk("show", tmp_path / "run").stdout
    assert "Kept from earlier settings of this run: faiss-hnsw ef=10." in shown
    assert "3 of 3, 1 kept" in recallatk("runs", tmp_path).stdout
    # The folder's own bench file repeats all of it, into the same folder.
    again = grown("run", tmp_path / "run" / "bench.toml")
    assert (again["planned"], again["kept"], again["out"]) == (4, [], str(tmp_path / "run"))
    assert {str(each["search"]): each["latency_ms"] for each in again["trials"]} == {
        str(each["search"]): each["latency_ms"] for each in found["trials"]
    }


@pytest.mark.parametrize(
    ("more", "named"),
    [
        (["--rounds", "3"], "the setting measure.rounds (stored 2, requested 3)"),
        (["--at", "5"], "the setting measure.at (stored [10], requested [5])"),
        (["--metric", "cosine"], "the metric (stored l2, requested cosine)"),
        (["--sample", "20"], "the data (queries); the truth"),
    ],
)
def test_what_changes_a_measurement_is_refused_by_name(begun, more, named):
    refused = recallatk(*begun, "--engine", "faiss-hnsw", *more)
    assert refused.returncode == 2
    assert named in refused.stderr and "--fresh" in refused.stderr


def test_a_run_that_was_killed_while_it_grew_goes_on_growing(words, tmp_path):
    hnsw = [*words, "--engine", "faiss-hnsw", "--build", "M=8"]
    grown(*hnsw, "--search", "ef=10,20")
    before = timings(tmp_path / "run")
    environment = {**os.environ, "OMP_WAIT_POLICY": "PASSIVE"}
    longer = [*hnsw, "--build", "ef_construction=40,41,42", "--search", "ef=10,15,20"]
    process = subprocess.Popen(
        [sys.executable, "-m", "recallatk", *longer],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment, start_new_session=True,
    )  # fmt: skip
    try:
        deadline = time.monotonic() + 120
        while len(list((tmp_path / "run").glob("trial-*.parquet"))) < 3:
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.01)
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    halfway = timings(tmp_path / "run")
    assert before.items() <= halfway.items()
    found = grown(*longer)
    assert found["complete"] and found["planned"] == 9
    assert halfway.items() <= timings(tmp_path / "run").items()
