"""Every kind of target through the typed command: the numbers of NumPy, exit codes, and what is refused."""

import hashlib
import json
import shlex

import numpy as np
import pytest
from every_target import COLORS, EVERY, QUERIES, ROWS, K
from typer.testing import CliRunner

from recallatk.cli import app

KEYS = {
    *("target", "rows", "k", "queries", "exact_queries", "recall", "verdict", "truth_source", "discarded"),
    *("index_used", "short", "latency_ms", "settings"),
}


@pytest.fixture(scope="module", params=EVERY)
def store(request, tmp_path_factory):
    """A folder with a space in its name, the kind of its target, and the target as typed there."""
    kind, folder = EVERY[request.param], tmp_path_factory.mktemp("a folder with spaces")
    kind.make(folder)
    np.save(folder / "queries.npy", QUERIES)
    np.save(folder / "one.npy", QUERIES[:1])
    np.save(folder / "narrow.npy", QUERIES[:, :5])
    with kind.serve() as port:
        yield folder, kind, kind.text.format(port=port)


@pytest.fixture
def ran(store, monkeypatch):
    """Runs a command on the target in its folder; its exit code and what it wrote."""
    folder, _, target = store
    monkeypatch.chdir(folder)

    def run(command, *more, queries="queries.npy"):
        asked = () if queries is None else ("--queries", queries)
        return CliRunner().invoke(app, [command, target, *asked, "--max-rate", "none", *map(str, more)])

    return run


def content(folder):
    return {
        path: (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns)
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_recall_is_that_of_numpy_and_no_file_changes(store, ran):
    folder, kind, target = store
    before = content(folder)
    done = ran("probe", "--search", f"{kind.effort}={kind.low}", "--json")
    assert done.exit_code == 0, done.stderr
    found = json.loads(done.stdout)
    expected = kind.recall(folder, kind.low)
    assert 0.3 < np.mean(expected) < 0.97
    assert found["recall"]["value"] == pytest.approx(np.mean(expected))
    assert found["recall"]["low"] < np.mean(expected) < found["recall"]["high"]
    assert found["recall"]["bound"] < np.mean(expected)
    assert set(found) >= KEYS
    assert (found["k"], found["queries"], found["exact_queries"]) == (K, len(QUERIES), len(QUERIES))
    assert found["rows"] in (ROWS, None) and found["index_used"] in (1.0, None)
    assert (found["discarded"], found["short"], found["sampled_rows_as_queries"]) == (0, 0, False)
    assert found["target"] == target
    assert found["verdict"] == {"outcome": None, "met": None, "trial": None, "goals": []}
    assert found["latency_ms"]["p50"] > 0 and str(kind.low) in found["settings"].values()
    assert content(folder) == before


def test_the_exit_code_is_the_verdict(store, ran):
    folder, kind, _ = store
    low, mean = ("--search", f"{kind.effort}={kind.low}"), np.mean(kind.recall(folder, kind.low))
    for value, code, outcome in ((mean / 2, 0, "PASS"), (0.999, 1, "FAIL"), (mean, 3, "UNDECIDED")):
        done = ran("probe", *low, "--target", f"recall@10 >= {value:.4f}", "--json")
        assert done.exit_code == code, done.stderr
        verdict = json.loads(done.stdout)["verdict"]
        assert verdict["outcome"] == outcome
        assert verdict["met"] is {0: True, 1: False, 3: None}[code]
        (goal,) = verdict["goals"]
        assert (goal["low"] >= value, goal["high"] <= value) == (code == 0, code == 1)
        if outcome == "FAIL":
            (step,) = json.loads(done.stdout)["next_steps"]
            typed = shlex.split(step["command"].replace("FILE", "queries.npy"))
            assert CliRunner().invoke(app, [*typed[1:], "--max-rate", "none"]).exit_code in (0, 1)
    shown = ran("probe", *low, "--target", "recall@10 >= 0.999")
    assert shown.exit_code == 1 and shown.stdout.startswith("FAIL. recall@10")


def test_it_is_gated_alone_and_against_its_own_baseline(store, ran, tmp_path):
    folder, kind, _ = store
    low, mean = ("--search", f"{kind.effort}={kind.low}"), np.mean(kind.recall(folder, kind.low))
    for value, code, outcome in ((mean / 2, 0, "PASS"), (0.999, 1, "FAIL")):
        done = ran("gate", *low, "--target", f"recall@10 >= {value:.4f}", "--json")
        assert done.exit_code == code, done.stderr
        assert json.loads(done.stdout)["verdict"]["outcome"] == outcome
    file = ("--baseline", tmp_path / "accepted.json")
    done = ran("gate", *low, *file, "--accept")
    assert done.exit_code == 0, done.stderr
    # A time asks all queries.
    goals = ("--target", "recall@10 >= baseline - 0.3", "--budget", "p50 <= 60s")
    done = ran("gate", *low, *file, *goals, "--json")
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["goals"][0]["baseline"] == pytest.approx(mean)
    if "?corpus=items.parquet" in kind.text:
        bare = kind.text.replace("corpus=items.parquet", "").rstrip("?").replace("?&", "?")
        words = (
            "gate",
            bare,
            "--corpus",
            "items.parquet",
            "--queries",
            "queries.npy",
            "--max-rate",
            "none",
            *low,
        )
        done = CliRunner().invoke(app, [*words, "--target", f"recall@10 >= {mean / 2:.4f}"])
        assert done.exit_code == 0, done.stderr


def test_one_query_decides_nothing(store, ran):
    low = ("--search", f"{store[1].effort}={store[1].low}")
    done = ran("probe", *low, "--target", "recall@10 >= 0.5", "--json", queries="one.npy")
    assert done.exit_code == 3, done.stderr
    assert json.loads(done.stdout)["queries"] == 1


def test_rows_as_queries_are_labelled_and_never_pass(store, ran):
    low = ("--search", f"{store[1].effort}={store[1].low}")
    goal = ("--sample", 40, *low, "--target", "recall@10 >= 0.01")
    done = ran("probe", *goal, "--json", queries=None)
    assert done.exit_code == 3, done.stderr
    found = json.loads(done.stdout)
    assert found["sampled_rows_as_queries"] and found["verdict"]["outcome"] == "UNDECIDED"
    shown = ran("probe", *goal, queries=None)
    assert shown.stdout.startswith("UNDECIDED") and "Optimistic: rows of the collection" in shown.stdout
    failed = ran("probe", "--sample", 40, *low, "--target", "recall@10 >= 0.9999", queries=None)
    assert failed.exit_code == 1, failed.stdout


def test_a_proxy_needs_exact_neighbors_for_a_tenth_of_the_queries(store, ran):
    folder, kind, _ = store
    done = ran("probe", "--search", f"{kind.effort}={kind.low}", "--proxy", "--json")
    assert done.exit_code == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["queries"], found["exact_queries"]) == (len(QUERIES), len(QUERIES) // 10)
    assert found["recall"]["low"] <= np.mean(kind.recall(folder, kind.low)) <= found["recall"]["high"]
    assert f"proxy: answers at {kind.effort}=" in found["truth_source"]
    assert str(kind.low) in found["settings"].values()
    missed = ran(
        "probe", "--search", f"{kind.effort}={kind.low}", "--proxy", "--target", "recall@10 >= 0.999"
    )
    assert ("recallatk tune" in missed.stdout) == (missed.exit_code == 1)


def test_filters_run_natively_or_are_refused_in_words(store, ran):
    _folder, kind, target = store
    done = ran("probe", "--where", "color = 'red'", "--json")
    if kind.refused is not None:
        assert done.exit_code == 2
        assert f"the collection refuses the filters of 40: {kind.refused}" in " ".join(done.stderr.split())
        return
    assert done.exit_code == 0, done.stderr
    found = json.loads(done.stdout)
    from recallatk.adapters.target_schemes import open_collection
    from recallatk.filters import parse_filter
    from recallatk.probing.references import made_from

    red = np.array([each == "red" for each in COLORS])
    with open_collection(target) as collection:
        made_from(collection, None)
        lists = [collection.answer(query, K, parse_filter("color = 'red'")).ids for query in QUERIES]
    passing = {kind.ids[row] for row in np.flatnonzero(red)}
    assert all(set(each) <= passing for each in lists)
    truths = [kind.right(query, chosen=red) for query in QUERIES]
    expected = [len(set(a) & set(b)) / K for a, b in zip(lists, truths, strict=True)]
    assert found["recall"]["value"] == pytest.approx(np.mean(expected))
    assert {each["segment"] for each in found["by"]["filter"]} == {"filtered"}
    unknown = ran("probe", "--where", "colour = 'red'")
    assert unknown.exit_code == 2 and "colour" in unknown.stderr


def test_k_beyond_the_collection_counts_all_rows(store, ran):
    folder, kind, _ = store
    k, effort = ROWS + 50, 100 if kind.effort == "ef" else 1000
    done = ran("probe", "--at", k, "--search", f"{kind.effort}={effort}", "--json", queries="one.npy")
    assert done.exit_code == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["k"] == k
    assert found["recall"]["value"] == pytest.approx(kind.recall(folder, effort, QUERIES[:1], k)[0])


def test_wrong_calls_say_what_to_type(ran):
    for more, said in (
        ({"queries": "narrow.npy"}, "dimension mismatch"),
        ({"queries": "none.npy"}, "none.npy"),
    ):
        done = ran("probe", **more)
        assert (done.exit_code, said in done.stderr, "Traceback" in done.stderr) == (2, True, False)
    for more, said in (
        ({"queries": None}, "--queries FILE"),
        ({"queries": "one.npy"}, "1 query can be asked: too few"),
    ):
        done = ran("tune", "--target", "recall@10 >= 0.9", **more)
        assert (done.exit_code, said in " ".join(done.stderr.split())) == (2, True)


def test_the_effort_that_would_do_is_found(store, ran):
    folder, kind, _ = store
    low, high = (np.mean(kind.recall(folder, effort)) for effort in (kind.low, 100))
    goal = low + 0.4 * (high - low)
    done = ran("tune", "--target", f"recall@10 >= {goal:.3f}", "--json")
    assert done.exit_code == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["met"] and str(found["search"][kind.effort]) in found["snippet"]
    assert np.mean(kind.recall(folder, found["search"][kind.effort])) >= goal
