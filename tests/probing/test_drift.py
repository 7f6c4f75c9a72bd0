"""Drift: triggers beside a recall test, which alone decides; and looks of a watch that triggers save."""

import json

import numpy as np
import pytest

import recallatk
from commands import recallatk as command
from recallatk import drift, measure, watch
from recallatk.adapters.attached_collection import FunctionCollection
from recallatk.errors import MismatchError, UsageError

ROWS, QUERIES, DIMENSION = 400, 160, 8


def made(count, seed, shift=0.0):
    return (np.random.default_rng(seed).normal(size=(count, DIMENSION)) + shift).astype("f4")


CORPUS = made(ROWS, 0)


def collection(kept=ROWS):
    def search(asked, k):
        return np.argsort(-np.asarray(asked) @ CORPUS[:kept].T, axis=1)[:, :k]

    return FunctionCollection.of(search, metric="ip", corpus=CORPUS)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("drift files")
    for name, vectors in {
        "corpus": CORPUS, "may": made(QUERIES, 1), "june": made(QUERIES, 2), "july": made(QUERIES, 3, 1.0),
        "narrow": made(QUERIES, 4)[:, :4], "few": made(9, 5), "none": made(0, 6),
    }.items():  # fmt: skip
        np.save(folder / f"{name}.npy", vectors)
    words = ("--engine", "exact", "--metric", "ip", "--at", "10", "--rounds", "1", "--out", "run")
    ran = command("run", "corpus.npy", "july.npy", *words, cwd=folder)
    assert ran.returncode == 0, ran.stderr
    return folder


def test_recall_decides_whatever_triggers_say():
    goals = ["recall@10 >= 0.9"]
    asked = {"max_rate": None, "metric": "ip", "goals": goals}
    same, other = made(QUERIES, 2), made(QUERIES, 3, 1.0)
    passed = drift(made(QUERIES, 1), other, target=collection(), **asked)
    assert passed.outcome == "PASS" and passed.shifts.fired
    failed = drift(made(QUERIES, 1), same, target=collection(ROWS // 2), **asked)
    assert failed.outcome == "FAIL" and not failed.shifts.fired
    assert failed.tested.probed.recall.value == failed.tested.recall.value < 0.7
    assert failed.to_dict()["verdict"]["met"] is False


def test_without_a_recall_test_there_is_no_verdict():
    found = drift(made(QUERIES, 1), made(QUERIES, 3, 1.0))
    assert found.outcome is None and found.tested is None and found.shifts.fired
    assert "recallatk probe TARGET" in found.next_step
    with pytest.raises(UsageError, match="a target needs a recall test"):
        drift(made(QUERIES, 1), made(QUERIES, 2), goals=["recall@10 >= 0.9"])


def test_a_run_of_the_current_queries_is_a_recall_test():
    current = made(QUERIES, 3, 1.0)
    run = measure("exact", CORPUS, current, metric="ip", at=[10], rounds=1)
    found = drift(made(QUERIES, 1), current, measured=run, goals=["recall@10 >= 0.9"])
    assert found.outcome == "PASS" and found.tested.recall.value == 1.0
    with pytest.raises(MismatchError, match="measured other queries"):
        drift(made(QUERIES, 1), made(QUERIES, 2), measured=run)
    with pytest.raises(UsageError, match="did not measure recall@20"):
        drift(made(QUERIES, 1), current, measured=run, goals=["recall@20 >= 0.9"])


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["may.npy", "june.npy"], 0, "No verdict"),
        (["may.npy", "july.npy", "--run", "run", "--target", "recall@10 >= 0.9"], 0, "PASS. recall@10 1.000"),
        (["run", "run", "--target", "recall@10 >= 0.9", "--metric", "ip"], 0, "growth"),
        (["may.npy", "narrow.npy"], 0, "4 dimensions, 8 in the baseline"),
        (["may.npy", "june.npy", "--target", "recall@10 >= 0.9"], 2, "needs a recall test"),
        (["may.npy", "june.npy", "--run", "run"], 2, "measured other queries"),
        (["may.npy", "few.npy"], 2, "few.npy: 9 queries are too few"),
        (["may.npy", "none.npy"], 2, "none.npy"),
        (["may.npy", "corpus.npy", "--corpora", "--metric", "hamming"], 2, "hamming"),
        (["may.npy", "june.npy", "--corpus", "narrow.npy"], 2, "dimension mismatch"),
    ],
)
def test_the_command_ends_as_the_recall_test_says(files, words, code, said):
    found = command("drift", *words, cwd=files)
    assert found.returncode == code, found.stderr
    assert said in " ".join((found.stdout if code == 0 else found.stderr).split())
    assert "Traceback" not in found.stderr


def test_the_command_writes_json_and_pages(files, tmp_path):
    page, comment = tmp_path / "drift.html", tmp_path / "drift.md"
    found = command(
        "drift", "may.npy", "july.npy", "--json", "--html", page, "--markdown", comment, cwd=files
    )
    told = json.loads(found.stdout)
    assert "queries: center" in told["fired"] and told["recall"] is None and told["verdict"] is None
    assert "<table" in page.read_text() and "fired" in comment.read_text()


def test_triggers_decide_which_looks_of_a_watch_are_worth_a_probe():
    asked = {"every": 0.01, "max_rate": None, "sleep": lambda _: None, "goals": ["recall@10 >= 0.5"]}
    looks = list(watch(collection(), made(QUERIES, 2), baseline=made(QUERIES, 1), looks=3, **asked))
    assert [each.skipped for each in looks] == [False, True, True]
    assert looks[0].shifts is None and looks[1].probed is None and not looks[1].shifts.fired
    looks = list(watch(collection(), made(QUERIES, 3, 1.0), baseline=made(QUERIES, 1), looks=2, **asked))
    assert not any(each.skipped for each in looks) and looks[1].shifts.fired
    [due] = watch(collection(), made(QUERIES, 2), baseline=made(QUERIES, 1), looks=1, **asked)
    assert due.skipped and due.outcome is None
    looks = list(
        watch(collection(), made(QUERIES, 2), baseline=made(QUERIES, 1), looks=2, at_least=1e-9, **asked)
    )
    assert not any(each.skipped for each in looks)


def test_a_watch_refuses_what_triggers_cannot_compare():
    with pytest.raises(UsageError, match="holds no queries"):
        next(watch(collection(), made(QUERIES, 2), baseline=recallatk.make_corpus(CORPUS)))
    with pytest.raises(UsageError, match="give --queries"):
        next(watch(collection(), None, baseline=made(QUERIES, 2), looks=1))
    with pytest.raises(UsageError, match="at least every 0 seconds"):
        next(watch(collection(), made(QUERIES, 2), baseline=made(QUERIES, 2), at_least=0))
