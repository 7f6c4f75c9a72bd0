"""What is written of a trial is what comes back, whatever the load was."""

import dataclasses
import json
import subprocess
import sys

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from run_making import (
    RATE,
    ROWS,
    WARM,
    assert_same_measurement,
    assert_same_run,
    make_build,
    make_calls,
    make_measurement,
    make_others,
    make_plan,
    make_run,
    make_trial,
    write_sealed,
)

from recallatk import ground_truth, load_run, save_run, save_truth
from recallatk.core import Caution, Failure, Load, Mean, Mode, Others, Via
from recallatk.datasets import read_answers
from recallatk.testing import tiny_dataset

seeds = st.integers(0, 2**32 - 1)


def came_back(measurement, folder):
    queries = len(measurement.answers)
    save_run(make_run(0, queries, measurements=(measurement,)), tiny_dataset(ROWS, queries), folder)
    return load_run(folder).measurements[0]


@given(
    seed=seeds,
    queries=st.integers(1, 9),
    rounds=st.integers(1, 4),
    clients=st.integers(1, 5),
    batch=st.integers(1, 10),
    k=st.integers(1, 5),
    others=st.integers(0, 6),
)
def test_closed_loops_come_back(tmp_path, seed, queries, rounds, clients, batch, k, others):
    load = Load(mode=Mode.THROUGHPUT, clients=clients, batch=batch, via=Via.PROCESSES)
    measurement = make_measurement(
        1,
        queries,
        k,
        seed,
        others,
        make_trial(1, load=load, repeat=2),
        rounds=rounds,
        clients=clients,
        batch=batch,
    )
    assert_same_measurement(came_back(measurement, tmp_path), measurement)


@given(
    seed=seeds,
    queries=st.integers(1, 9),
    rounds=st.integers(1, 3),
    arrivals=st.integers(0, 12),
    others=st.integers(0, 6),
)
def test_open_loops_come_back_with_the_queries_that_nobody_asked(
    tmp_path, seed, queries, rounds, arrivals, others
):
    measurement = make_measurement(
        1, queries, 3, seed, others, make_trial(1, load=RATE), rounds=rounds, arrivals=arrivals, clients=3
    )
    found = came_back(measurement, tmp_path)
    assert_same_measurement(found, measurement)
    table = pq.read_table(tmp_path / "trial-1.parquet").to_pylist()
    for query, row in enumerate(table):
        if (measurement.calls.query == query).any() or (measurement.answers[query] >= 0).any():
            assert len(row["neighbors"]) == 3
        else:
            assert row["neighbors"] is row["rows"] is None
            assert row["calls"] == row["latencies_ns"] == row["others"] == []


def test_everything_else_about_a_trial_comes_back(tmp_path):
    measurement = dataclasses.replace(
        make_measurement(1),
        build=make_build(cpu_seconds=2.5, peak_bytes=7, search_threads=3, call="HTTP round trip", repeat=1),
        warm_up=WARM,
        sentinel_ns=np.array([5, 6]),
        highest_rate=123.5,
    )
    score = dataclasses.replace(
        measurement.score,
        measures={"distance error@4": Mean(float("inf"), None, 3), "recall@4": Mean(0.5, 0.4, 3, 0.1, 0.9)},
        anomalies={"unknown": None, "repeated": 3},
        sampled_from=100,
        missing=("https://user@example.com/1?page=2", 7),
    )
    measurement = dataclasses.replace(measurement, score=score)
    assert_same_measurement(came_back(measurement, tmp_path), measurement)


def test_everything_else_about_a_run_comes_back(tmp_path):
    plan = make_plan(3)
    run = dataclasses.replace(
        plan,
        measurements=(make_measurement(2), make_measurement(0)),
        failures=(Failure(make_trial(1), "crash", "search", "signal SIGSEGV", "the end\nof the log"),),
        cautions=(Caution("drift", "the machine was noisy", 0.2, float("inf")), Caution("other", "é")),
        seconds={"building": 1.5, "searching": 2.0},
        sampled_from=1000,
    )
    save_run(run, tiny_dataset(ROWS, 3), tmp_path)
    # Trials stand in the order of the plan.
    expected = dataclasses.replace(run, measurements=(run.measurements[1], run.measurements[0]))
    assert_same_run(load_run(tmp_path), expected)
    assert {each.name for each in tmp_path.iterdir()} == {"run.json", "trial-1.parquet", "trial-3.parquet"}
    assert load_run(tmp_path).complete


def test_trials_that_are_the_same_or_not_planned_each_have_a_file(tmp_path):
    run = make_plan(2)
    measurements = (
        make_measurement(7),
        make_measurement(1),
        make_measurement(1, seed=5),
        make_measurement(0),
    )
    save_run(dataclasses.replace(run, measurements=measurements), tiny_dataset(ROWS, 3), tmp_path)
    found = load_run(tmp_path).measurements
    for one, other in zip(found, [measurements[each] for each in (3, 1, 0, 2)], strict=True):
        assert_same_measurement(one, other)


def test_calls_stand_with_their_first_query_in_the_order_in_which_they_were_sent(tmp_path):
    measurement = make_measurement(1, queries=5, rounds=3, batch=2, clients=2, others=4)
    came_back(measurement, tmp_path)
    table = pq.read_table(tmp_path / "trial-1.parquet").to_pylist()
    calls, others = measurement.calls, measurement.others
    for query, row in enumerate(table):
        own = np.flatnonzero(calls.query == query)
        assert row["calls"] == own.tolist()
        assert row["latencies_ns"] == calls.latency_ns[own].tolist()
        assert row["sent_ns"] == calls.sent_ns[own].tolist()
        assert row["late_ns"] == calls.late_ns[own].tolist()
        assert row["rounds"] == calls.round[own].tolist()
        assert row["clients"] == calls.client[own].tolist()
        differing = np.flatnonzero(others.query == query)
        assert row["others"] == [
            {"call": others.call[each], "rows": others.rows[each].tolist()} for each in differing
        ]
    assert [len(row["calls"]) for row in table] == [3, 0, 3, 0, 3]
    assert all(len(row["neighbors"]) == 4 for row in table)


def test_answers_that_differed_come_back_in_the_order_of_their_calls(tmp_path):
    random = np.random.default_rng(3)
    calls = make_calls(random, 4, rounds=3, batch=2)
    others = make_others(random, calls, 4, 4, 9)
    shuffled = random.permutation(len(others))
    mixed = Others(others.call[shuffled], others.query[shuffled], others.rows[shuffled])
    measurement = dataclasses.replace(make_measurement(1, queries=4), calls=calls, others=mixed)
    expected = dataclasses.replace(measurement, others=others)
    assert_same_measurement(came_back(measurement, tmp_path), expected)


def test_a_trial_file_says_all_about_itself_to_pyarrow_and_pandas(tmp_path):
    run = make_plan(2, measurements=(make_measurement(1),))
    save_run(run, tiny_dataset(ROWS, 3), tmp_path)
    path = tmp_path / "trial-2.parquet"
    header = json.loads(pq.read_schema(path).metadata[b"recallatk.trial"])
    assert header["format_version"] == 4
    assert header["trial"] == {
        "engine": "faiss-hnsw",
        "build": {"M": 8},
        "search": {"ef": 20},
        "load": {
            "mode": "latency",
            "clients": 1,
            "batch": 1,
            "via": "threads",
            "rate": None,
            "p99_ms": None,
            "seconds": None,
        },
        "repeat": 0,
    }
    assert header["build"]["memory_bytes"] == 2**40
    assert set(header["score"]["measures"]) == {"recall@1", "recall@4"}
    assert header["run"]["fingerprints"] == run.fingerprints
    assert header["run"]["settings"] == run.settings
    assert len(header["run"]["identity"]) == 32
    pandas = pytest.importorskip("pandas")
    assert list(pandas.read_parquet(path).columns) == [
        "query_id",
        "neighbors",
        "rows",
        "times",
        "calls",
        "latencies_ns",
        "sent_ns",
        "late_ns",
        "rounds",
        "clients",
        "sizes",
        "others",
        "value:recall@1",
        "value:recall@4",
    ]


def test_trial_files_are_answers_in_which_an_unasked_query_has_none(tmp_path):
    measurement = make_measurement(1, queries=9, arrivals=3, trial=make_trial(1, load=RATE))
    came_back(measurement, tmp_path)
    answers = read_answers(tmp_path / "trial-1.parquet")
    assert answers.query_ids.to_pylist() == [f"query-{each}" for each in range(9)]
    asked = np.isin(np.arange(9), measurement.calls.query) | (measurement.answers >= 0).any(axis=1)
    assert not asked.all()
    assert (np.diff(answers.offsets) == np.where(asked, 4, 0)).all()


@pytest.mark.parametrize("lost", ["run.json", "the end of it"])
def test_without_run_json_the_trials_still_say_what_was_measured(tmp_path, lost):
    run = make_plan(3, measurements=(make_measurement(0), make_measurement(2)))
    save_run(run, tiny_dataset(ROWS, 3), tmp_path)
    if lost == "run.json":
        (tmp_path / "run.json").unlink()
        expected = dataclasses.replace(run, planned=None)
    else:
        header = json.loads((tmp_path / "run.json").read_text())
        write_sealed(tmp_path, {**header, "trials": header["trials"][:1]})
        expected = run
    assert_same_run(load_run(tmp_path), expected)


def test_trial_files_can_be_scored_by_the_command(tmp_path):
    dataset = tiny_dataset(ROWS, 9)
    truth = ground_truth(dataset, depth=4)
    save_truth(truth, tmp_path / "truth.parquet")
    measurement = make_measurement(1, queries=9, arrivals=3, trial=make_trial(1, load=RATE))
    asked = np.isin(np.arange(9), measurement.calls.query)
    answers = np.where(asked[:, None], truth.rows, -1)
    came_back(dataclasses.replace(measurement, answers=answers), tmp_path)
    command = [sys.executable, "-m", "recallatk", "score", tmp_path / "truth.parquet"]
    command += [tmp_path / "trial-1.parquet", "--at", "4", "--json"]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    found = json.loads(ran.stdout)["measures"]["recall@4"]
    # Null is no answer: queries that nobody asked score 0.
    assert (found["value"], found["n"]) == (pytest.approx(asked.mean()), 9)
