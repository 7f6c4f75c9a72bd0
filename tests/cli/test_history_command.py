"""`recallatk history`: what the commands remember, the trend they show, and what they refuse."""

import json

import numpy as np
import pytest

from commands import recallatk

MODULE = """
import json, numpy as np

vectors = np.load("corpus.npy")

def search(queries, k):
    kept = json.load(open("kept.json"))
    scores = np.asarray(queries, "f4") @ vectors[:kept].T
    return np.argsort(-scores, axis=1, kind="stable")[:, :k].tolist()
"""
TARGET = "shop_search:search?metric=ip&corpus=corpus.npy"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Five probes, and a run that is shown again; rows are lost before the fourth probe."""
    found = tmp_path_factory.mktemp("a folder with spaces")
    random = np.random.default_rng(0)
    np.save(found / "corpus.npy", random.normal(size=(1000, 16)).astype("f4"))
    np.save(found / "queries.npy", random.normal(size=(300, 16)).astype("f4"))
    (found / "shop_search.py").write_text(MODULE)
    for kept in (1000, 1000, 1000, 700, 700):
        (found / "kept.json").write_text(json.dumps(kept))
        done = recallatk(
            "probe", TARGET, "--queries", "queries.npy", "--max-rate", "none", "--history", "runs/history.db",
            "--target", "p50 <= 1h", cwd=found,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
    words = ("run", "corpus.npy", "queries.npy", "--metric", "ip", "--engine", "exact", "--out", "runs/one")
    for _ in range(2):
        # No --history: there is one next to the run already.
        done = recallatk(*words, cwd=found)
        assert done.returncode == 0, done.stderr
    return found


def shown(folder, *words):
    done = recallatk("history", *words, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_probes_and_runs_are_followed_and_the_change_is_found(folder):
    found = json.loads(shown(folder, "--json", "--measure", "recall@10"))["trends"]
    probes, run = found
    assert [each["value"] for each in probes["entries"]][:3] == [1.0] * 3
    (change,) = probes["changes"]
    assert change["when"] == probes["entries"][3]["when"]
    assert change["before"] == 1.0
    assert change["after"] < 0.8
    assert probes["entries"][0]["verdict"] == "PASS"
    assert run["subject"].startswith("exact")
    assert len(run["entries"]) == 1


def test_the_terminal_shows_the_trend(folder):
    text = shown(folder, "--collection", "shop_search")
    assert "Change on" in text
    assert "5 entries" in text
    assert any(bar in text for bar in "▁█")


def test_a_page_and_a_table_are_written(folder):
    shown(folder, "--out", "history page.html", "--parquet", "history.parquet")
    page = (folder / "history page.html").read_text()
    assert "shop_search" in page
    assert "http-equiv" in page
    assert (folder / "history.parquet").stat().st_size > 0


def test_a_file_of_another_program_beside_a_run_is_left_alone(folder, tmp_path):
    foreign = tmp_path / "history.db"
    foreign.write_text("the history of a browser " * 100)
    words = ("run", folder / "corpus.npy", folder / "queries.npy", "--metric", "ip", "--engine", "exact")
    done = recallatk(*words, "--out", tmp_path / "run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "not recorded" in done.stderr
    assert foreign.read_text().startswith("the history of a browser")
    assert recallatk(*words, "--out", tmp_path / "run", "--history", foreign, cwd=tmp_path).returncode == 2


def test_what_cannot_be_shown_or_recorded_is_said(folder, tmp_path):
    assert recallatk("history", cwd=tmp_path).returncode == 2
    assert "--history" in recallatk("history", cwd=tmp_path).stderr
    wrong = recallatk("history", "--measure", "recall@3", cwd=folder)
    assert wrong.returncode == 2
    assert "recall@10" in wrong.stderr
    (tmp_path / "notes.txt").write_text("no history " * 100)
    before = {each.name for each in folder.iterdir()}
    refused = recallatk(
        "probe", TARGET, "--queries", "queries.npy", "--history", tmp_path / "notes.txt", cwd=folder
    )
    assert refused.returncode == 2
    assert "notes.txt" in refused.stderr
    assert {each.name for each in folder.iterdir()} == before
