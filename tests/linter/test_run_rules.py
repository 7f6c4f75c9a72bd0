"""Rules about what was measured: effort, builds, timing, comparisons, and the choice by tuning."""

import dataclasses
import os
import time
from pathlib import Path

import numpy as np
import pytest
from faults import Forgetful, PostFiltering, Switching, Taking, clustered, found, neighbours, vectors

from recallatk import (
    load_run,
    make_corpus,
    make_queries,
    measure,
    open_dataset,
    parse_filter,
    split_queries,
)
from recallatk.bench.cautions import cautions_of
from recallatk.bench.environment import largest_cache
from recallatk.bench.settings import settings_from
from recallatk.core import Load
from recallatk.core.tuned import Tuned
from recallatk.errors import UsageError

FIRST_FORMAT = Path(__file__).parents[1] / "storage" / "format-1"


def test_an_index_that_does_not_answer_is_an_error(cosine):
    dataset = clustered(rows=200, queries=100)
    run = measure(Forgetful, dataset, search=[{"index": "used"}, {"index": "unused"}], at=(10,), rounds=1)
    (error,) = found("R22", run=run)
    assert error.severity == "error"
    assert "sequential scan" in error.message
    assert not found("R22", evidence=cosine)


def test_an_engine_that_filters_afterwards_returns_too_few_rows():
    dataset = clustered(rows=500, queries=60, metadata={"size": np.arange(500) % 100})
    filters = [parse_filter("size < 10")] * 30 + [parse_filter("size < 90")] * 20 + [None] * 10
    asked = open_dataset(dataset.corpus, make_queries(vectors(dataset.queries), filters=filters), metric="l2")
    late = measure(PostFiltering(asked.corpus, 40), asked, at=(10,), rounds=1)
    (error,) = found("R38", run=late, dataset=asked)
    assert error.severity == "error"
    assert 0.5 < error.measured < 0.7
    assert "of 50 filtered queries" in error.message
    whole = measure(PostFiltering(asked.corpus, 500), asked, at=(10,), rounds=1)
    assert not found("R38", run=whole, dataset=asked)
    assert not found("R38", run=late, dataset=dataset)


def test_an_engine_that_scans_under_selective_filters():
    dataset = clustered(rows=1_000, queries=80, metadata={"size": np.arange(1_000)})
    filters = [parse_filter("size < 500")] * 40 + [parse_filter("size < 50")] * 40
    asked = open_dataset(dataset.corpus, make_queries(vectors(dataset.queries), filters=filters), metric="l2")
    run = measure(Switching(asked.corpus, below=100), asked, at=(10,), rounds=1)
    (warning,) = found("R40", run=run)
    assert 0.3 < warning.measured < 0.7
    assert "1 to 10 % of the rows" in warning.message
    assert not found("R40", run=measure(Switching(asked.corpus, below=0), asked, at=(10,), rounds=1))


def test_filter_columns_of_a_database_without_indexes_are_noted():
    dataset = clustered(rows=300, queries=20, metadata={"size": np.arange(300)})
    narrow = open_dataset(dataset.corpus, dataset.queries, metric="l2", where="size < 200")
    run = measure("lancedb", narrow, at=(10,), rounds=1)
    (note,) = found("R41", run=run, dataset=narrow)
    assert (note.severity, note.measured) == ("note", 1)
    assert "size" in note.message
    assert not found("R41", run=run, dataset=dataset)
    assert not found("R41", run=measure("exact", narrow, at=(10,), rounds=1), dataset=narrow)


def test_rows_that_no_filter_admits_are_not_missing():
    dataset = clustered(rows=500, queries=30, metadata={"size": np.arange(500)})
    narrow = open_dataset(dataset.corpus, dataset.queries, metric="l2", where="size < 5")
    run = measure("exact", narrow, at=(10,), rounds=1)
    assert not found("R38", run=run, dataset=narrow)


def test_a_trial_without_evidence_is_a_warning():
    # It was not asked for when the format was new.
    (warning,) = found("R22", run=load_run(FIRST_FORMAT))
    assert (warning.severity, warning.measured) == ("warning", 1)
    assert "1 of 2 trials gives no evidence" in warning.message


def test_full_recall_at_the_least_effort_is_too_easy(easy, clean, exact):
    assert found("R23", run=easy)[0].measured >= 0.99
    for each in clean:
        assert not found("R23", evidence=each)
    assert not found("R23", run=exact)


def test_codes_that_are_too_short_have_a_ceiling(compressed, euclidean):
    (error,) = found("R24", run=compressed, targets=("recall@10 >= 0.95",))
    assert error.severity == "error"
    assert error.measured < error.threshold == 0.95
    assert not found("R24", run=compressed)
    assert not found("R24", run=compressed, targets=("recall@10 >= 0.05",))
    assert not found("R24", run=euclidean.run, targets=("recall@10 >= 0.9",))


def test_every_measure_that_a_run_has_can_have_a_ceiling():
    dataset = clustered(rows=300, queries=100)
    run = measure(
        "faiss-hnsw",
        dataset,
        build={"M": 2},
        search=[{"ef": 10}],
        measures=("robust(0.9)@10",),
        at=(10,),
        rounds=1,
    )
    (finding,) = found("R24", run=run, targets=("robust(0.9)@10 >= 0.9999",))
    assert "robust(0.9)@10" in finding.message


def test_a_target_of_which_less_is_better_has_no_ceiling(cosine):
    run = measure(
        "faiss-hnsw",
        cosine.dataset,
        truth=cosine.truth,
        search=[{"ef": 100}],
        measures=("rde@10",),
        at=(10,),
        rounds=1,
    )
    assert run.measurements[0].score.measures["rde@10"].value < 0.5
    assert not found("R24", run=run, targets=("rde@10 <= 0.5",))


def test_an_engine_without_threads_of_its_own_is_not_said_to_be_built_with_several(bench):
    run = bench({"name": "sqlite-vec"}, threads={"build": 2})
    assert not found("R25", run=run)


def test_a_goal_on_a_segment_that_is_not_there_is_refused(cosine):
    with pytest.raises(UsageError, match="no query column 'nope'"):
        found("R24", dataset=cosine.dataset, targets=("recall@10 >= 0.9 in nope=a",))


def test_a_target_that_more_effort_may_reach_is_a_warning(cosine):
    low = [{"ef": 10}, {"ef": 20}]
    run = measure(
        "faiss-hnsw", cosine.dataset, truth=cosine.truth, build={"M": 6}, search=low, at=(10,), rounds=1
    )
    (warning,) = found("R24", run=run, targets=("recall@10 >= 0.999",))
    assert warning.severity == "warning"
    assert "higher efforts" in warning.remedy


def test_a_target_comes_from_the_outcome_of_a_tuning_too(compressed):
    assert found("R24", run=compressed, tuned=outcome(looks=1, targets=("recall@10 >= 0.95",)))


@pytest.mark.parametrize(("builds", "said"), [(1, ["warning"]), (2, [])])
def test_one_build_of_an_index_that_is_never_the_same(builds, said):
    dataset, graph = clustered(rows=300, queries=100), {"factory": "HNSW8"}
    run = measure("faiss-factory", dataset, build=graph, at=(10,), rounds=1, builds=builds)
    assert [each.severity for each in found("R25", run=run)] == said


@pytest.mark.parametrize(("threads", "said"), [(1, []), (2, ["note"])])
def test_one_build_of_an_index_that_is_the_same_with_one_thread(bench, threads, said):
    run = bench({"name": "hnswlib", "search": {"ef": 20}}, threads={"build": threads})
    assert [each.severity for each in found("R25", run=run)] == said


def test_one_build_of_an_exact_search_is_enough(exact):
    assert not found("R25", run=exact)


def test_one_build_is_said_before_it_is_made(tmp_path):
    values = {"data": {"corpus": "c.npy", "metric": "l2"}, "engine": [{"name": "faiss-factory"}]}
    assert found("R25", settings=settings_from(values))
    assert not found("R25", settings=settings_from({**values, "measure": {"builds": 3}}))


def test_the_tail_of_few_calls_is_not_known(few, cosine):
    assert found("R26", evidence=few)[0].measured == 30
    assert not found("R26", evidence=cosine)


def test_a_closed_loop_is_no_latency_under_load(crowded, euclidean, exact):
    (warning,) = found("R27", run=crowded)
    assert warning.measured == 2
    loads = [Load("throughput", clients=2), Load("rate", rate=200.0, seconds=0.2)]
    both = measure(
        "faiss-hnsw", euclidean.dataset, truth=euclidean.truth, search={"ef": 40}, load=loads, rounds=1
    )
    assert not found("R27", run=both)
    assert not found("R27", evidence=euclidean)
    assert not found("R27", run=exact)


def test_a_closed_loop_is_said_before_it_is_measured():
    values = {"data": {"corpus": "c.npy", "metric": "l2"}, "engine": [{"name": "exact"}]}
    closed = {"mode": "throughput", "clients": 4}
    assert found("R27", settings=settings_from({**values, "load": [closed]}))
    assert not found(
        "R27", settings=settings_from({**values, "load": [closed, {"mode": "rate", "rate": 9.0}]})
    )


def test_a_library_call_and_a_query_of_a_database_are_not_the_same(incomparable, comparable):
    (warning,) = found("R28", run=incomparable)
    assert "library call" in warning.message
    assert warning.measured == 2
    assert not found("R28", run=comparable)


def test_engines_without_a_common_recall_cannot_be_compared(incomparable, comparable, compressed):
    (warning,) = found("R29", run=incomparable)
    assert warning.measured > 0.01
    assert not found("R29", run=comparable)
    assert not found("R29", run=compressed)


def test_engines_with_other_threads_cannot_be_compared(crowded, exact, comparable):
    # A run of ours has the same threads for all; two runs in one table need not.
    table = dataclasses.replace(exact, measurements=(*crowded.measurements, *exact.measurements))
    said = found("R30", run=table)
    assert [each.message for each in said] == ["search threads: exact 1, faiss-hnsw 2"]
    assert not found("R30", run=comparable)


def test_engines_that_cannot_be_told_their_threads_are_named(incomparable):
    (warning,) = found("R30", run=incomparable)
    assert warning.message.startswith("threads cannot be set for sqlite-vec")


@pytest.mark.parametrize(("seconds", "said"), [((0.0, 0.002), 1), ((0.008,), 0)])
def test_latencies_that_never_settle(seconds, said):
    dataset = clustered(rows=100, queries=40)
    run = measure(Taking(dataset.corpus, *seconds), dataset, at=(10,), rounds=1)
    warnings = found("R31", run=run)
    assert len(warnings) == said
    assert all("had not settled" in each.message for each in warnings)


def test_no_warm_up_at_all_is_said():
    # Nor had runs a warm-up when their format was new.
    (warning,) = found("R31", run=load_run(FIRST_FORMAT))
    assert "has no warm-up (and 1 more of 2 trials)" in warning.message


def test_a_machine_with_other_work_is_not_steady():
    dataset = clustered(rows=100, queries=40)
    with neighbours(blocks_left=12) as others:
        run = measure(Taking(dataset.corpus, 0), dataset, at=(10,), rounds=16, watch=others)
        assert [each for each in found("R32", run=run) if each.measured > each.threshold == 0.1]
        busy = 0.5 * run.environment["cores"]
        wait_until(lambda: os.getloadavg()[0] > busy)
        later = measure(Taking(dataset.corpus, 0), dataset, at=(10,), rounds=1)
    assert [each for each in found("R32", run=later) if each.measured > each.threshold == busy]


def wait_until(holds, seconds=60):
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.2)


def test_an_open_loop_that_is_not_kept_up_with():
    dataset = clustered(rows=100, queries=40)
    load = Load("rate", rate=400.0, seconds=0.3)
    run = measure(Taking(dataset.corpus, 0.02), dataset, at=(10,), load=load, rounds=1)
    assert [each for each in found("R32", run=run) if each.measured > each.threshold == 0.01]


def test_a_steady_machine_is_no_fault(cosine):
    # Quiet cannot be had to order, so the paces of one are given.
    paces = np.array([100, 101, 99], np.int64)
    steady = tuple(dataclasses.replace(each, sentinel_ns=paces) for each in cosine.run.measurements)
    assert not found("R32", run=dataclasses.replace(cosine.run, cautions=cautions_of(steady, [0.1], 2)))


@pytest.mark.skipif(largest_cache() is None, reason="this machine does not say how large its cache is")
def test_a_corpus_that_fits_the_cache(euclidean, crowded):
    assert found("R33", evidence=euclidean)[0].threshold == largest_cache()
    assert not found("R33", dataset=euclidean.dataset, run=crowded)
    rows = largest_cache() // 4 // 1024
    drawn = np.random.default_rng(0).integers(0, 255, (rows + 2, 1024), np.uint8)
    large = open_dataset(make_corpus(drawn[:rows]), make_queries(drawn[rows:]), metric="l2")
    assert not found("R33", dataset=large, run=measure(any_row, large, at=(1,), rounds=1))


def any_row(queries, k):
    return [[0] for _ in queries]


def test_a_run_of_a_machine_that_did_not_state_its_cache(euclidean):
    assert not found("R33", dataset=euclidean.dataset, run=load_run(FIRST_FORMAT))


def outcome(looks, targets=("recall@10 >= 0.9",)):
    return Tuned(
        targets=targets,
        budgets=(),
        prefer="p95",
        met=True,
        choice=None,
        validated={},
        looks=looks,
        snippet=None,
    )


def test_validation_queries_that_were_tuned_on():
    dataset = clustered(queries=200)
    tune, validate = split_queries(dataset.queries)
    held_out = dataclasses.replace(dataset, queries=validate)
    assert not found("R34", dataset=held_out, tuning_queries=tune)
    assert found("R34", dataset=held_out, tuning_queries=dataset.queries)[0].severity == "error"


def test_copies_of_a_query_on_both_sides_of_a_split_are_told():
    dataset = clustered(queries=200)
    asked = np.repeat(vectors(dataset.queries), 2, axis=0)
    tune, validate = split_queries(make_queries(asked))
    both = found("R34", dataset=dataclasses.replace(dataset, queries=validate), tuning_queries=tune)
    assert both[0].measured > 0.3


def test_a_target_comes_from_the_bench_file_too(compressed):
    values = {"data": {"corpus": "c.npy", "metric": "l2"}, "engine": [{"name": "exact"}]}
    wanted = settings_from({**values, "tune": {"target": "recall@10 >= 0.95"}})
    assert found("R24", run=compressed, settings=wanted)


def test_a_tuning_is_not_told_of_what_it_was_not_asked_for():
    values = {"data": {"corpus": "c.npy", "metric": "ip"}, "engine": [{"name": "exact"}]}
    closed = {"mode": "throughput", "clients": 4}
    settings = settings_from({**values, "measure": {"at": [10]}, "load": [closed]})
    assert found("R11", settings=settings) and found("R27", settings=settings)
    assert not found("R11", settings=settings, tuned=outcome(looks=1))
    assert not found("R27", settings=settings, tuned=outcome(looks=1))
