"""A run as JSON has every trial, and nothing that JSON does not have."""

import dataclasses
import json

import numpy as np
import pytest
from made_runs import HOSTILE, large_run, make_measurement, make_run, varied_run

from recallatk.core import Build, Mean, Metric, Mode, Trial
from recallatk.reporting import run_to_dict
from recallatk.reporting.as_dict import plain


def strict(run):
    """What a program reads that knows JSON and nothing else."""

    def refuse(word):
        raise AssertionError(word)

    return json.loads(json.dumps(run_to_dict(run), allow_nan=False), parse_constant=refuse)


def test_every_trial_is_there_with_its_status_in_the_planned_order():
    run = varied_run()
    found = strict(run)
    assert [trial["status"] for trial in found["trials"]] == ["done"] * 11 + ["failed", "missing"]
    assert found["planned"] == 13
    assert found["complete"] is False


def test_a_done_trial_has_its_numbers():
    trial = strict(varied_run())["trials"][1]
    assert (trial["engine"], trial["mode"], trial["repeat"]) == ("faiss-hnsw", "latency", 0)
    assert trial["build"] == {"M": 16, "ef_construction": 200}
    assert trial["search"] == {"ef": 40}
    assert trial["measures"]["recall@10"] == {
        "value": 0.93,
        "low": pytest.approx(0.88),
        "high": pytest.approx(0.98),
        "n": 100,
        "ids": 0.93,
    }
    assert trial["latency_ms"] == {"p50": 1.0, "p90": 1.8, "p95": 1.9, "p99": 1.98, "p99.9": None}
    low, high = trial["latency_intervals_ms"]["p50"].values()
    assert low < 1.0 < high
    assert trial["qps_low"] < trial["qps"] < trial["qps_high"]
    assert (trial["build_seconds"], trial["memory_bytes"], trial["size_bytes"]) == (
        12.345,
        56_700_000,
        34_500_000,
    )
    assert (trial["version"], trial["evidence"]) == ("library 1.2.3", "graph")
    assert (trial["calls"], trial["rounds"], trial["queries"], trial["asked"]) == (200, 2, 100, 100)
    assert trial["anomalies"] == {"short": 3, "padding": 1200}
    assert trial["failure"] is None


def test_a_failed_trial_has_its_reason_and_no_numbers():
    failed, missing = strict(varied_run())["trials"][-2:]
    assert failed["failure"] == {
        "kind": "crash",
        "phase": "build",
        "message": "ended with signal SIGSEGV",
        "log": "a stack\nof lines",
    }
    assert missing["failure"] is None
    for trial in (failed, missing):
        assert trial["measures"] == {}
        assert trial["qps"] is trial["latency_ms"] is trial["build_seconds"] is None
        assert trial["pareto"] is False


def test_all_trials_have_the_same_keys():
    assert len({frozenset(trial) for trial in strict(varied_run())["trials"]}) == 1


def test_loads_lateness_and_warm_up_are_told():
    trials = strict(varied_run())["trials"]
    rate, looked_for = trials[9], trials[10]
    assert rate["load"]["rate"] == 500.0
    assert rate["late"] == {"share": 1.0, "p99_ms": 2.0, "worst_ms": 2.0}
    assert rate["warm_up"] == {"calls": 500, "settled": False, "cold_ns": None}
    assert (rate["changed_answers"], rate["queries"], rate["asked"]) == (1, 120, 100)
    assert looked_for["highest_rate"] == 812.5
    assert trials[0]["late"] is None
    assert [trial["pareto"] for trial in trials[:6]] == [True, False, False, True, False, True]


def test_the_run_says_what_it_is_and_no_secret():
    found = strict(varied_run())
    assert (found["dataset"], found["metric"]) == ("data", "cosine")
    assert found["timed"] == "one library call for the top 10, 1 search thread; build on 2 threads"
    assert found["cautions"][0]["value"] == 0.234
    assert found["seconds"]["building"] == 30.0
    assert found["environment"]["cores"] == 2
    assert found["settings"]["data"]["corpus"] == "corpus.parquet"
    assert "geheim" not in json.dumps(found)


def test_what_json_has_not_is_null_or_text():
    made = make_measurement(Trial("engine", (("rate", float("inf")),), ((HOSTILE, np.float32(0.5)),)))
    broken = dataclasses.replace(
        made,
        build=Build("engine", None, (), 1, float("nan"), np.int64(5), None),
        score=dataclasses.replace(made.score, measures={"recall@10": Mean(float("nan"), None, 0)}),
    )
    found = strict(make_run([broken], dataset="\ud800", environment={1: {2, 1}, "x": np.arange(2)}))
    (trial,) = found["trials"]
    assert trial["build_seconds"] is None
    assert trial["memory_bytes"] == 5
    assert trial["measures"]["recall@10"]["value"] is None
    assert trial["search"] == {HOSTILE: 0.5}
    assert found["environment"] == {"1": [1, 2], "x": [0, 1]}


def test_words_of_ours_become_plain_text():
    assert type(plain(Metric.L2)) is str
    assert plain({"mode": Mode.RATE}) == {"mode": "rate"}
    assert plain(object()).startswith("<object")


def test_a_trial_that_was_measured_twice_is_there_twice():
    trial = Trial("engine", (), ())
    run = make_run([make_measurement(trial, 0.5), make_measurement(trial, 0.6)])
    assert [each["measures"]["recall@10"]["value"] for each in strict(run)["trials"]] == [0.5, 0.6]


def test_a_large_run_is_whole():
    found = strict(large_run())
    assert len(found["trials"]) == 400
    assert all(trial["pareto"] for trial in found["trials"])
    assert strict(make_run([]))["trials"] == []
