"""`recallatk run`: with a file, without one, before, after and again."""

import json
import time

import numpy as np
import pytest
from typer.testing import CliRunner

from commands import recallatk
from recallatk import load_run
from recallatk.cli import app
from recallatk.cli import progress as showing


@pytest.fixture
def files(tmp_path):
    folder = tmp_path / "my data"
    folder.mkdir()
    random = np.random.default_rng(0)
    for name, rows in (("corpus", 300), ("queries", 40)):
        np.save(folder / f"{name}.npy", random.normal(size=(rows, 8)).astype("float32"))
    return folder


def measured(*arguments, cwd):
    ran = recallatk(*arguments, "--json", cwd=cwd)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def test_two_files_and_an_engine_are_enough_and_the_file_they_imply_is_saved(files, tmp_path):
    plain = ("run", files / "corpus.npy", files / "queries.npy", "--metric", "l2", "--engine", "exact")
    found = measured(*plain, "--engine", "faiss-ivf-flat", "--at", "1,10", cwd=tmp_path)
    folder = tmp_path / "runs" / "corpus"
    assert found["out"] == "runs/corpus"
    assert {each["engine"] for each in found["trials"]} == {"exact", "faiss-ivf-flat"}
    for each in found["trials"]:
        assert each["status"] == "done"
        assert each["mode"] == "latency"
        assert set(each["measures"]) == {"recall@1", "recall@10"}
        assert each["latency_ms"]["p50"] > 0
        assert each["qps"] > 0
        assert each["build_seconds"] >= 0
        assert each["memory_bytes"] >= 0
    assert len(found["environment"]["load_average_during"]) == 2
    # The same command and the file that it implied are the same run.
    again = measured("run", folder / "bench.toml", "--out", folder, cwd=tmp_path)
    assert again["seconds"] == found["seconds"]
    assert [each["search"] for each in again["trials"]] == [each["search"] for each in found["trials"]]
    shown = recallatk("show", folder)
    assert "exact" in shown.stdout
    assert "Pareto front" in shown.stdout
    listed = json.loads(recallatk("runs", tmp_path, "--json").stdout)
    assert len(listed) == 1
    assert all(each["done"] == each["planned"] for each in listed)


def test_nothing_is_said_of_the_truth_once_it_is_there(files, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ["run", str(files / "corpus.npy"), str(files / "queries.npy"), "--metric", "l2", "--at", "10"]
    assert CliRunner().invoke(app, [*words, "--engine", "exact"]).exit_code == 0
    # The truth is read at once now, and the run takes longer than a line waits before it appears.
    monkeypatch.setattr(showing, "_SILENT_SECONDS", 0.3)
    began = time.monotonic()
    ran = CliRunner().invoke(app, [*words, "--engine", "exact", "--fresh"])
    assert time.monotonic() - began > 0.4
    assert ran.exit_code == 0
    assert "1 of 1: exact" in ran.stderr
    assert "truth" not in ran.stderr


def test_a_dry_run_prints_the_plan_and_measures_nothing(files, tmp_path):
    plain = ("run", files / "corpus.npy", files / "queries.npy", "--metric", "l2", "--engine", "faiss-hnsw")
    ran = recallatk(*plain, "--dry-run", cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert "6 trials on 1 build, about" in ran.stdout
    assert not (tmp_path / "runs").exists()
    plan = json.loads(recallatk(*plain, "--dry-run", "--json", cwd=tmp_path).stdout)
    assert plan["trials"] == 6
    assert plan["builds"][0]["build_seconds"] > 0
    assert plan["builds"][0]["memory_bytes"] > 0


def test_every_load_and_repeated_builds_stand_in_one_run(files, tmp_path):
    (tmp_path / "bench.toml").write_text(
        f"""
        [data]
        corpus = "{files / "corpus.npy"}"
        queries = "{files / "queries.npy"}"
        metric = "l2"
        [measure]
        at = [10]
        rounds = 2
        builds = 2
        affinity = [0]
        [[load]]
        mode = "latency"
        [[load]]
        mode = "throughput"
        clients = 2
        batch = [1, 16]
        [[load]]
        mode = "throughput"
        clients = 2
        via = "processes"
        [[load]]
        mode = "rate"
        rate = 200
        seconds = 0.5
        [[engine]]
        name = "faiss-hnsw"
        [engine.build]
        M = 4
        ef_construction = 20
        [engine.search]
        ef = 12
        """
    )
    found = measured("run", "bench.toml", cwd=tmp_path)
    assert len(found["trials"]) == 10
    by_load = {}
    for each in found["trials"]:
        assert each["status"] == "done", each["failure"]
        by_load.setdefault((each["mode"], each["repeat"]), set()).add(each["measures"]["recall@10"]["value"])
    # The same index answers the same whatever the load; another order of insertion is another index.
    assert by_load["latency", 0] == by_load["throughput", 0]
    assert by_load["latency", 1] == by_load["throughput", 1]
    assert by_load["latency", 0] != by_load["latency", 1]
    run = load_run(tmp_path / found["out"])
    batches = [each for each in run.measurements if each.trial.load.batch == 16]
    for each in batches:
        assert each.calls.size.tolist() == [16, 16, 8] * 2
        assert each.times.tolist() == [2] * 40
    assert "Throughput" in recallatk("show", found["out"], cwd=tmp_path).stdout


def test_one_client_of_an_open_loop_is_one_and_the_run_records_how_many_there_were(files, tmp_path):
    (tmp_path / "bench.toml").write_text(
        f"""
        data = {{corpus = "{files / "corpus.npy"}", queries = "{files / "queries.npy"}", metric = "l2"}}
        measure = {{k = 10, rounds = 1}}
        [[load]]
        mode = "rate"
        rate = 2000
        clients = [1, 3]
        [[load]]
        mode = "rate"
        rate = 2000
        [[engine]]
        name = "exact"
        """
    )
    found = measured("run", "bench.toml", cwd=tmp_path)
    assert [each["load"]["clients"] for each in found["trials"]] == [1, 3, None]
    assert [each["clients"] for each in found["trials"]] == [1, 3, 16]
    run = load_run(tmp_path / found["out"])
    assert [each.calls.clients for each in run.measurements] == [1, 3, 16]
    assert not run.measurements[0].calls.client.any()
    shown = recallatk("show", found["out"], "--by", "load", cwd=tmp_path).stdout
    for name, clients in (("rate(rate=2000)", "16"), ("rate(clients=1, rate=2000)", "1")):
        header, row = shown.partition(f"\n{name}\n")[2].splitlines()[:2]
        assert row.split()[header.split().index("clients")] == clients


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nothing.toml"], "no such file. Write one: recallatk init"),
        (["bench.toml", "--metric", "l2"], "--metric cannot be combined with a bench file"),
        (["nothing.npy", "--engine", "exact", "--metric", "l2"], "nothing.npy"),
        (["bench.toml", "--resume"], "no run to resume"),
        (["corpus.npy", "--engine", "hnsw", "--metric", "l2"], "Did you mean"),
    ],
)
def test_what_cannot_be_run_is_said_in_one_line(files, tmp_path, arguments, said):
    (files / "bench.toml").write_text(
        'data = {corpus = "corpus.npy", queries = "queries.npy", metric = "l2"}\n[[engine]]\nname = "exact"\n'
    )
    ran = recallatk("run", *arguments, cwd=files)
    assert ran.returncode == 2
    assert said in ran.stderr
    assert "Traceback" not in ran.stderr


def test_all_problems_of_a_file_are_said_at_once_each_on_its_line(files):
    (files / "bad.toml").write_text(
        'data = {corpus = "corpus.npy", qeries = "queries.npy", metric = "l3"}\n'
        "[measure]\nrounds = 0\n[[engine]]\nname = 'faiss-hnsw'\n[engine.search]\nef = 0\n"
    )
    ran = recallatk("run", "bad.toml", cwd=files)
    assert ran.returncode == 2
    lines = ran.stderr.splitlines()
    for path in ("data.qeries", "data.metric", "measure.rounds", "engine[0].search.ef"):
        assert any(line.strip().startswith(path) for line in lines)
