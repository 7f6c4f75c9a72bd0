"""Rules about what was measured: effort, builds, timing, comparisons, and the choice by tuning."""

import dataclasses

import numpy as np
import pytest
from faults import Forgetful, Unsteady, clustered, found, vectors

from recallatk import make_queries, measure, split_queries
from recallatk.audit import Evidence
from recallatk.audit.rules.fits_cache import largest_cache
from recallatk.bench.cautions import cautions_of
from recallatk.bench.settings import settings_from
from recallatk.core import Load, WarmUp
from recallatk.core.tuned import Candidate, Tuned


def test_an_index_that_does_not_answer_is_an_error(cosine):
    dataset = clustered(rows=200, queries=100)
    run = measure(Forgetful, dataset, search=[{"index": "used"}, {"index": "unused"}], at=(10,), rounds=1)
    (error,) = found("R22", run=run)
    assert error.severity == "error"
    assert "sequential scan" in error.message
    assert not found("R22", evidence=cosine)


def test_a_trial_without_evidence_is_a_warning(cosine):
    silent = tuple(dataclasses.replace(each, exercised=None) for each in cosine.run.measurements)
    (warning,) = found("R22", run=dataclasses.replace(cosine.run, measurements=silent))
    assert (warning.severity, warning.measured) == ("warning", 3)


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


def test_a_target_that_more_effort_may_reach_is_a_warning(cosine):
    first = dataclasses.replace(cosine.run, measurements=cosine.run.measurements[:2])
    (warning,) = found("R24", run=first, targets=("recall@10 >= 0.999",))
    assert warning.severity == "warning"
    assert "higher efforts" in warning.remedy


def test_a_target_comes_from_the_outcome_of_a_tuning_too(compressed):
    assert found("R24", run=compressed, tuned=outcome(looks=1, targets=("recall@10 >= 0.95",)))


def named(run, engine, **build):
    """The run as if another engine had been measured."""
    measured = tuple(
        dataclasses.replace(
            each,
            trial=dataclasses.replace(each.trial, engine=engine),
            build=dataclasses.replace(each.build, engine=engine, **build),
        )
        for each in run.measurements
    )
    return dataclasses.replace(run, measurements=measured)


def test_one_build_of_an_index_that_is_never_the_same(cosine, exact):
    assert found("R25", run=named(cosine.run, "qdrant"))[0].severity == "warning"
    assert not found("R25", run=named(cosine.run, "hnswlib", threads=1))
    assert found("R25", run=named(cosine.run, "hnswlib", threads=2))[0].severity == "note"
    assert not found("R25", run=exact)


def test_one_build_is_said_before_it_is_made(tmp_path):
    values = {"data": {"corpus": "c.npy", "metric": "l2"}, "engine": [{"name": "faiss-factory"}]}
    assert found("R25", settings=settings_from(values))
    assert not found("R25", settings=settings_from({**values, "measure": {"builds": 3}}))


def test_several_builds_are_no_fault():
    dataset = clustered(rows=300, queries=100)
    run = measure("faiss-hnsw", dataset, search={"ef": 20}, at=(10,), rounds=1, builds=2)
    assert not found("R25", run=named(run, "qdrant"))


def test_the_tail_of_few_calls_is_not_known(few, cosine):
    assert found("R26", evidence=few)[0].measured == 30
    assert not found("R26", evidence=cosine)


def test_a_closed_loop_is_no_latency_under_load(crowded, euclidean, together):
    (warning,) = found("R27", run=crowded)
    assert warning.measured == 2
    assert not found("R27", run=together(crowded, euclidean.run))
    assert not found("R27", evidence=euclidean)


def test_a_closed_loop_is_said_before_it_is_measured():
    values = {"data": {"corpus": "c.npy", "metric": "l2"}, "engine": [{"name": "exact"}]}
    closed = {"mode": "throughput", "clients": 4}
    assert found("R27", settings=settings_from({**values, "load": [closed]}))
    assert not found(
        "R27", settings=settings_from({**values, "load": [closed, {"mode": "rate", "rate": 9.0}]})
    )


def test_a_library_call_and_a_function_are_not_the_same(euclidean, exact, together):
    rows = vectors(euclidean.dataset.corpus)

    def search(queries, k):
        return np.argsort(np.linalg.norm(rows - queries, axis=1))[None, :k]

    other = measure(search, euclidean.dataset, euclidean.truth, rounds=1)
    (warning,) = found("R28", run=together(exact, other))
    assert "library call" in warning.message
    assert not found("R28", run=together(exact, euclidean.run))


def test_engines_without_a_common_recall_cannot_be_compared(compressed, exact, euclidean, together):
    (warning,) = found("R29", run=together(compressed, exact))
    assert warning.measured > 0.01
    assert not found("R29", run=together(exact, euclidean.run))
    assert not found("R29", run=compressed)


def test_engines_with_other_threads_cannot_be_compared(crowded, exact, euclidean, together):
    said = found("R30", run=together(crowded, exact))
    assert [each.message for each in said] == ["threads that search: exact 1, faiss-hnsw 2"]
    assert not found("R30", run=together(euclidean.run, exact))


def test_engines_that_cannot_be_told_their_threads_are_named(euclidean, exact, together):
    (warning,) = found("R30", run=together(named(euclidean.run, "lancedb"), exact))
    assert warning.message.startswith("lancedb cannot be told")


def test_latencies_that_never_settle():
    dataset = clustered(rows=100, queries=120)
    run = measure(Unsteady(dataset.corpus), dataset, at=(10,), rounds=1)
    (warning,) = found("R31", run=run)
    assert "had not settled" in warning.message


def test_no_warm_up_at_all_is_said_and_a_settled_one_is_not(cosine):
    for warm_up, said in ((None, 1), (WarmUp(64, settled=True), 0)):
        measured = tuple(dataclasses.replace(each, warm_up=warm_up) for each in cosine.run.measurements)
        assert len(found("R31", run=dataclasses.replace(cosine.run, measurements=measured))) == said


def test_a_machine_with_other_work_is_not_steady(cosine):
    paces = np.array([100, 101, 99, 180, 175, 178], np.int64)
    measured = tuple(dataclasses.replace(each, sentinel_ns=paces) for each in cosine.run.measurements)
    noisy = cautions_of(measured, [1.9], 2)
    said = found("R32", run=dataclasses.replace(cosine.run, cautions=noisy))
    assert [each.threshold for each in said] == [0.1, 1.0]
    steady = tuple(dataclasses.replace(each, sentinel_ns=paces[:3]) for each in cosine.run.measurements)
    quiet = cautions_of(steady, [0.1], 2)
    assert not found("R32", run=dataclasses.replace(cosine.run, cautions=quiet))


def test_a_corpus_that_fits_the_cache(euclidean, crowded):
    size = 4_000 * 24 * 4
    run = euclidean.run
    for cache, said in ((size + 1, 1), (size, 0)):
        known = dataclasses.replace(run, environment={**run.environment, "cache_bytes": cache})
        assert len(found("R33", dataset=euclidean.dataset, run=known)) == said
    elsewhere = dataclasses.replace(run, environment={"processor": "another", "cores": 2})
    assert not found("R33", dataset=euclidean.dataset, run=elsewhere)


def test_the_largest_cache_is_the_last_one(tmp_path):
    for number, text in enumerate(["32K", "1024K", "32768K", "odd"]):
        (tmp_path / f"index{number}").mkdir()
        (tmp_path / f"index{number}" / "size").write_text(f"{text}\n")
    assert largest_cache(tmp_path) == 32 << 20
    assert largest_cache(tmp_path / "nowhere") is None


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


@pytest.mark.parametrize(("looks", "said"), [(1, 0), (3, 1)])
def test_more_than_one_look_at_the_validation_queries(looks, said):
    assert len(found("R34", evidence=Evidence(tuned=outcome(looks)))) == said


def test_loads_of_one_client_are_no_closed_loop(euclidean):
    plain = dataclasses.replace(euclidean.run, measurements=euclidean.run.measurements[:1])
    assert plain.measurements[0].trial.load == Load()
    assert not found("R27", run=plain)


def test_a_target_comes_from_the_bench_file_too(compressed):
    values = {"data": {"corpus": "c.npy", "metric": "l2"}, "engine": [{"name": "exact"}]}
    wanted = settings_from({**values, "tune": {"target": "recall@10 >= 0.95"}})
    assert found("R24", run=compressed, settings=wanted)


def test_the_choice_of_a_tuning_is_one_build():
    assert not found("R25", tuned=outcome(looks=1))
    choice = Candidate("qdrant", (), ())
    (warning,) = found("R25", tuned=dataclasses.replace(outcome(looks=1), choice=choice))
    assert "qdrant" in warning.message and "recallatk run" in warning.remedy
    steady = Candidate("hnswlib", (), ())
    assert not found("R25", tuned=dataclasses.replace(outcome(looks=1), choice=steady))


def test_a_tuning_is_not_told_of_what_it_was_not_asked_for():
    values = {"data": {"corpus": "c.npy", "metric": "ip"}, "engine": [{"name": "exact"}]}
    closed = {"mode": "throughput", "clients": 4}
    settings = settings_from({**values, "measure": {"k": [10]}, "load": [closed]})
    assert found("R11", settings=settings) and found("R27", settings=settings)
    assert not found("R11", settings=settings, tuned=outcome(looks=1))
    assert not found("R27", settings=settings, tuned=outcome(looks=1))
