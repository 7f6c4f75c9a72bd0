"""k beyond the corpus: recall is over all rows, and every command says so in one line."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from commands import recallatk

SAID = "k = 10 exceeds the corpus of 5 rows: recall@10 is over 5 neighbors"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place, random = tmp_path_factory.mktemp("large-k"), np.random.default_rng(0)
    for name, rows in (("corpus", 5), ("queries", 60)):
        vectors = random.normal(size=(rows, 4)).astype("float32")
        pq.write_table(pa.table({"vector": list(vectors)}), place / f"{name}.parquet")
    answers = np.tile(np.arange(5), (60, 1))
    answers[:, 4] = -1
    np.save(place / "answers.npy", answers)
    return place


def here(folder, *words):
    ran = recallatk(*words, cwd=folder, env={"XDG_CACHE_HOME": str(folder / "cache"), "COLUMNS": "100"})
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


DATA = ("corpus.parquet", "queries.parquet", "--metric", "l2")


def test_scores_say_so(folder):
    here(folder, "truth", *DATA, "--depth", 10, "--out", "truth.parquet")
    given = ("score", "truth.parquet", "answers.npy", "--row-numbers")
    assert f"note: {SAID}" in here(folder, *given, "--at", "1,10").splitlines()
    assert "exceed" not in here(folder, *given, "--at", "1,5")
    described = json.loads(here(folder, *given, "--at", "10", "--json"))
    assert described["corpus_rows"] == 5 and described["measures"]["recall@10"]["value"] == 0.8


def test_runs_and_their_reports_say_so(folder):
    words = ("--engine", "exact", "--at", "1,10", "--rounds", 1, "--out", "run")
    for text in (here(folder, "run", *DATA, *words), here(folder, "show", "run")):
        assert text.count(SAID) == 1 and f"caution: {SAID}" in text.splitlines()
    for name in ("report.md", "report.html"):
        assert "exceeds the corpus of 5 rows" in (folder / "run" / name).read_text()
    assert "large k" in [
        each["kind"] for each in json.loads(here(folder, "show", "run", "--json"))["cautions"]
    ]
    small = here(folder, "run", *DATA, "--engine", "exact", "--at", "1,5", "--rounds", 1, "--out", "small")
    assert "exceed" not in small


def test_tunings_measure_it_and_say_so(folder):
    goal = ("--target", "recall@10 >= 0.5", "--engine", "exact", "--out", "tuned")
    text = here(folder, "tune", *DATA, *goal)
    assert f"caution: {SAID}" in text.splitlines()
    assert "R16" not in text and "recall@10 1.000" in " ".join(text.split())
