"""Runs with a judge of answers behind HTTP: each retrieval is paid for once, in one run and in later ones."""

import os
import sys
import threading
import time

import numpy as np
import psutil
import pytest

from commands import forked, recallatk, run_bench_file
from judge_service import JudgeService
from recallatk import Quality, ground_truth, load_run, measure, open_dataset, run

TABLES = (
    """
    [measure]
    at = [1, 5]
    rounds = 1
    """,
    """
    [[engine]]
    name = "faiss-hnsw"
    build = { M = 4 }
    search = { ef = [5, 200] }
    """,
)
QUALITY = """
[quality]
function = "judge_service:judge"
version = "1"
retries = 0
clients = 2
cache = "judged"
"""


@pytest.fixture
def service(monkeypatch):
    service = JudgeService()
    threading.Thread(target=service.serve_forever, daemon=True).start()
    monkeypatch.setenv("JUDGE_URL", service.url)
    yield service
    service.ended.set()
    service.shutdown()
    service.server_close()


@pytest.fixture
def dataset(data):
    return open_dataset(data / "corpus.parquet", data / "queries.parquet", metric="l2")


def scores(rows):
    """What the service says about (queries, k) rows."""
    return [sum(row / rank for rank, row in enumerate(each[each >= 0], 1)) / 100 for each in rows]


def retrievals(found, exact):
    """The distinct retrievals of a run and of exact search."""
    lists = [*(each.answers for each in found.measurements), exact[:, :5]]
    return {(query, *row) for rows in lists for query, row in enumerate(rows.tolist())}


def without_value(found):
    return [np.flatnonzero(np.isnan(each.judged.values["quality"])).tolist() for each in found.measurements]


def test_a_run_has_the_values_of_every_setting_and_of_exact_search(service, bench_file, dataset):
    found = run(bench_file(*TABLES, QUALITY))
    exact = ground_truth(dataset, depth=10).rows
    for each in found.measurements:
        assert each.judged.values["quality"].tolist() == pytest.approx(scores(each.answers))
        assert each.judged.exact["quality"].tolist() == pytest.approx(scores(exact[:, :5]))
    paid = retrievals(found, exact)
    assert len(service.requests) == len(paid) < 3 * 60
    # The same command pays for nothing, and a run in another folder for new retrievals only.
    assert run(bench_file(*TABLES, QUALITY)).complete
    assert len(service.requests) == len(paid)
    other = run(bench_file(*TABLES, QUALITY, name="other"))
    assert len(service.requests) == len(paid | retrievals(other, exact))


def test_a_finished_run_is_judged_later_and_by_another_judge(service, bench_file, tmp_path):
    first = run(bench_file(*TABLES))
    files = {each: each.stat().st_mtime_ns for each in (tmp_path / "runs" / "bench").glob("trial-*")}
    for version in ("1", "2"):
        before = len(service.requests)
        found = run(bench_file(*TABLES, QUALITY.replace('"1"', f'"{version}"')))
        assert without_value(found) == [[], []]
        assert len(service.requests) > before
    assert {each: each.stat().st_mtime_ns for each in files} == files
    recalls = [[each.score["recall@5"] for each in of.measurements] for of in (first, found)]
    assert recalls[0] == recalls[1]


def test_a_failing_query_is_left_out_and_counted_and_asked_again_by_the_next_run(service, bench_file):
    service.failures = {"q7": 1_000}
    found = run(bench_file(*TABLES, QUALITY))
    assert without_value(found) == [[7], [7]]
    for each in found.measurements:
        assert np.isnan(each.judged.exact["quality"][7])
        assert any("HTTP Error 503" in note and "(query q7)" in note for note in each.judged.notes)
    service.failures = {}
    before = len(service.requests)
    assert without_value(run(bench_file(*TABLES, QUALITY))) == [[], []]
    assert set(service.queries[before:]) == {"q7"}


def run_judged(path, plugins, url):
    """Run a bench file with the judge at this address: a forked process has the environment of its server."""
    os.environ["JUDGE_URL"] = url
    run_bench_file(path, plugins)


def test_a_run_that_is_killed_while_it_judges_pays_once(service, bench_file):
    path = bench_file(*TABLES, QUALITY)
    service.hangs = {"q30"}
    process = forked(run_judged, path, os.pathsep.join(sys.path), service.url)
    until = time.monotonic() + 120
    while "q30" not in service.queries:
        assert time.monotonic() < until and process.is_alive()
        time.sleep(0.01)
    family = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    process.join()
    psutil.wait_procs(family, 30)
    service.hangs = set()
    found = run(path)
    assert found.complete
    asked = [(each["query"]["id"], *(row["id"] for row in each["retrieved"])) for each in service.requests]
    # Only the calls under way, at most one for each client, are paid for twice.
    assert len(asked) - len(set(asked)) <= 2
    assert without_value(found) == [[], []]


def test_an_index_is_measured_with_a_judge(dataset, tmp_path):
    def best(query, retrieved):
        return retrieved[0].id == "c1"

    quality = Quality(best, k=3, version="1", cache=tmp_path / "judged")
    found = measure("exact", dataset, at=5, rounds=1, quality=quality)
    nearest = ground_truth(dataset, depth=1).rows[:, 0]
    assert found.measurements[0].judged.values["quality"].tolist() == (nearest == 1).astype(float).tolist()


def test_progress_says_how_far_the_judge_is(dataset, tmp_path):
    phases = []
    measure(
        "exact",
        dataset,
        at=5,
        rounds=1,
        quality=Quality(lambda *_: 1.0, version="1", cache=tmp_path / "judged"),
        watch=lambda progress: phases.append(progress.phase),
    )
    assert [each for each in phases if each.startswith("judging")] == [
        f"judging, {number} of 60" for number in range(1, 61)
    ]


def test_the_command_finds_a_judge_in_the_current_folder(bench_file, tmp_path):
    (tmp_path / "own_judge.py").write_text("def judge(query, retrieved):\n    return retrieved[0].rank\n")
    path = bench_file(*TABLES)
    refused = recallatk("run", path, "--quality", "no_judge:judge", cwd=tmp_path)
    assert refused.returncode == 2
    assert "quality: no_judge:judge cannot be imported" in refused.stderr
    ran = recallatk("run", path, "--quality", "own_judge:judge", cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    found = load_run(tmp_path / "runs" / "bench")
    assert {value for each in found.measurements for value in each.judged.values["quality"]} == {1.0}
    # Whoever reads the folder elsewhere imports nothing.
    shown = recallatk("show", tmp_path / "runs" / "bench", cwd="/")
    assert shown.returncode == 0, shown.stderr
