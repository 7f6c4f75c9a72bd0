"""Whatever an engine does, it costs its own trial, and the run goes on and says so."""

import subprocess
import time

import psutil
import pytest

from recallatk import load_run, run
from recallatk.bench import read_settings
from recallatk.errors import EngineError, UsageError

MEASURE = """
    [measure]
    k = [1, 10]
    rounds = 2
"""


def engine(how, after=0):
    return f"""
        [[engine]]
        name = "faulty"
        [engine.search]
        how = ["fine", "{how}"]
        after = {after}
    """


def settled(found, how):
    """The trial that was fine, and the other's failure."""
    (measured,) = found.measurements
    (failure,) = found.failures
    assert dict(measured.trial.search)["how"] == "fine"
    assert dict(failure.trial.search)["how"] == how
    assert measured.score["recall@10"] == 1.0
    assert found.complete
    return failure


@pytest.mark.parametrize(
    ("how", "after", "kind", "said"),
    [
        ("segfault", 0, "crash", "the process ended with signal SIGSEGV"),
        ("kill", 100, "crash", "the process ended with signal SIGKILL"),
        ("exit", 0, "crash", "the process ended with code 3"),
        ("shapes", 0, "exception", "shape (1, 99)"),
        ("raise", 100, "exception", "ValueError: query 101 was too much"),
    ],
)
def test_a_trial_that_goes_wrong_costs_itself_alone(faulty, bench_file, how, after, kind, said):
    failure = settled(run(bench_file(MEASURE, engine(how, after))), how)
    assert failure.kind == kind
    assert said in failure.message
    assert failure.phase in ("warm-up", "search")


def test_what_a_process_said_last_is_kept(faulty, bench_file, tmp_path):
    failure = settled(run(bench_file(MEASURE, engine("segfault"))), "segfault")
    assert "about to touch what is not mine" in failure.log
    again = load_run(tmp_path / "runs" / "bench")
    assert again.failures == (failure,)
    assert "about to touch" in (tmp_path / "runs" / "bench" / "logs" / "build-1.txt").read_text()


def test_a_trial_that_hangs_is_ended_at_its_limit(faulty, bench_file):
    began = time.monotonic()
    failure = settled(run(bench_file(MEASURE, engine("hang"), '[limits]\ntrial = "3s"')), "hang")
    assert failure.kind == "time limit"
    assert "more than 3 s" in failure.message
    assert time.monotonic() - began < 120


def test_a_trial_that_takes_more_memory_than_it_may_is_ended(faulty, bench_file):
    limit = '[limits]\nmemory = "1GiB"'
    failure = settled(run(bench_file(MEASURE, engine("leak"), limit)), "leak")
    assert failure.kind == "memory limit"
    assert "the limit is 1,024 MiB" in failure.message


def test_what_an_engine_prints_is_no_word_of_ours(faulty, bench_file):
    found = run(bench_file(MEASURE, engine("garbage")))
    assert len(found.measurements) == 2
    assert not found.failures


@pytest.mark.parametrize(
    ("how", "kind", "limits"),
    [
        ("raise", "exception", ""),
        ("segfault", "crash", ""),
        ("leak", "memory limit", '[limits]\nmemory = "1GiB"'),
    ],
)
def test_a_build_that_goes_wrong_costs_its_own_trials(faulty, bench_file, how, kind, limits):
    table = f"""
        [[engine]]
        name = "faulty"
        [engine.build]
        build = ["{how}", "fine"]
        [engine.search]
        after = [1, 2]
    """
    found = run(bench_file(MEASURE, limits, table))
    assert [each.kind for each in found.failures] == [kind, kind]
    assert {each.phase for each in found.failures} == {"build"}
    assert len(found.measurements) == 2


def test_a_build_that_hangs_is_ended_at_its_limit(faulty, bench_file):
    table = """
        [[engine]]
        name = "faulty"
        [engine.build]
        build = "hang"
        [[engine]]
        name = "exact"
    """
    found = run(bench_file(MEASURE, '[limits]\nbuild = "5s"', table))
    (failure,) = found.failures
    assert (failure.kind, failure.phase) == ("time limit", "build")
    assert [each.trial.engine for each in found.measurements] == ["exact"]


def test_answers_that_change_from_call_to_call_all_count(faulty, bench_file):
    table = """
        [[engine]]
        name = "faulty"
        [engine.search]
        how = "forgetful"
    """
    (measured,) = run(bench_file("[measure]\nk = [1, 10]\nrounds = 8", table)).measurements
    assert measured.others is not None
    # Every second call names the best row last, so that about half of all calls miss it at k = 1.
    assert 0.3 < measured.score["recall@1"] < 0.7


def test_no_process_is_left_behind(faulty, bench_file):
    run(bench_file(MEASURE, engine("hang"), '[limits]\ntrial = "2s"'))
    assert not psutil.Process().children(recursive=True)


def test_nothing_that_could_be_measured_is_an_error_from_python(faulty, data):
    import recallatk

    dataset = recallatk.open_dataset(data / "corpus.parquet", data / "queries.parquet", metric="l2")
    with pytest.raises(EngineError, match=r"crash in .*: the process ended with signal SIGSEGV"):
        recallatk.measure("faulty", dataset, search={"how": "segfault"}, at=[1])


def test_a_place_that_cannot_be_written_is_refused_before_any_work(bench_file, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setattr(subprocess, "Popen", lambda *job, **options: pytest.fail("something was built"))
    with pytest.raises(UsageError, match="cannot be written"):
        run(bench_file(MEASURE, '[[engine]]\nname = "exact"'), out=tmp_path / "file" / "run")


def test_a_clock_that_goes_backwards_has_no_effect(bench_file, monkeypatch):
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now - 10_000 * time.perf_counter())
    found = run(bench_file(MEASURE, '[[engine]]\nname = "exact"'))
    (measured,) = found.measurements
    assert (measured.latencies_ns > 0).all()
    assert all(seconds >= 0 for seconds in found.seconds.values())


def test_the_settings_of_a_run_read_back(bench_file, tmp_path):
    path = bench_file(MEASURE, '[[engine]]\nname = "exact"')
    run(path)
    again = read_settings(tmp_path / "runs" / "bench" / "bench.toml")
    assert again.to_dict() == read_settings(path).to_dict()
