"""Whatever an engine does, it costs its own trial, and the run goes on and says so."""

import json
import subprocess
import tempfile
import time

import psutil
import pytest

from commands import command, recallatk
from recallatk import load_run, run
from recallatk.bench import read_settings
from recallatk.bench.messages import in_words
from recallatk.errors import EngineError, UsageError

MEASURE = """
    [measure]
    at = [1, 10]
    rounds = 2
"""


def descendants():
    return {each.pid for each in psutil.Process().children(recursive=True)}


def engine(how):
    return f"""
        [[engine]]
        name = "faulty"
        [engine.search]
        how = ["fine", "{how}"]
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


WRONG = {
    "segfault": ("crash", "the process ended with signal SIGSEGV"),
    "exit": ("crash", "the process ended with code 3"),
    "shapes": ("exception", "shape (1, 99)"),
    "kill": ("crash", "the process ended with signal SIGKILL"),
    "raise": ("exception", "ValueError: query 101 was too much"),
}


def test_trials_that_go_wrong_cost_themselves_alone(faulty, bench_file, tmp_path):
    """At once or after 100 queries, in one run, beside what is fine and what prints as if it were us."""
    tables = """
        [[engine]]
        name = "faulty"
        [engine.search]
        how = ["fine", "segfault", "exit", "garbage", "shapes"]
        [[engine]]
        name = "faulty"
        [engine.search]
        how = ["kill", "raise", "fine"]
        after = 100
    """
    found = run(bench_file(MEASURE, tables))
    assert found.complete
    measured = [dict(each.trial.search)["how"] for each in found.measurements]
    assert sorted(measured) == ["fine", "fine", "garbage"]
    assert all(each.score["recall@10"] == 1.0 for each in found.measurements)
    failures = {dict(each.trial.search)["how"]: each for each in found.failures}
    assert len(found.failures) == len(failures)
    assert set(failures) == set(WRONG)
    for how, (kind, said) in WRONG.items():
        assert failures[how].kind == kind
        assert said in failures[how].message
        assert failures[how].phase in ("warm-up", "search")
    # What a process said last is kept.
    assert "about to touch what is not mine" in failures["segfault"].log
    folder = tmp_path / "runs" / "bench"
    assert load_run(folder).failures == found.failures
    assert b"about to touch" in (folder / "logs" / "build-1.txt").read_bytes()


def test_a_trial_that_hangs_is_ended_at_its_limit(faulty, bench_file):
    began, before = time.monotonic(), psutil.Process().children(recursive=True)
    failure = settled(run(bench_file(MEASURE, engine("hang"), '[limits]\ntrial = "3s"')), "hang")
    assert failure.kind == "time limit"
    assert "more than 3 s" in failure.message
    assert time.monotonic() - began < 120
    assert set(psutil.Process().children(recursive=True)) <= set(before), "no process is left behind"


def test_trials_and_builds_that_take_more_memory_than_they_may_are_ended(faulty, bench_file):
    table = """
        [limits]
        memory = "1GiB"
        [[engine]]
        name = "faulty"
        [engine.build]
        build = ["leak", "fine"]
        [engine.search]
        how = ["fine", "leak"]
    """
    found = run(bench_file(MEASURE, table))
    assert {each.kind for each in found.failures} == {"memory limit"}
    phases = {
        (dict(each.trial.build)["build"], dict(each.trial.search)["how"]): each.phase
        for each in found.failures
    }
    assert phases.pop(("fine", "leak")) in ("warm-up", "search")
    assert phases == {("leak", "fine"): "build", ("leak", "leak"): "build"}
    assert all("the limit is 1,024 MiB" in each.message for each in found.failures)
    (measured,) = found.measurements
    assert measured.score["recall@10"] == 1.0
    assert found.complete


def test_builds_that_go_wrong_cost_their_own_trials(faulty, bench_file):
    table = """
        [[engine]]
        name = "faulty"
        [engine.build]
        build = ["raise", "segfault", "fine"]
        [engine.search]
        after = [1, 2]
    """
    found = run(bench_file(MEASURE, table))
    failed = sorted((dict(each.trial.build)["build"], each.kind, each.phase) for each in found.failures)
    assert failed == [("raise", "exception", "build")] * 2 + [("segfault", "crash", "build")] * 2
    assert [dict(each.trial.build)["build"] for each in found.measurements] == ["fine", "fine"]


def test_an_engine_that_cannot_say_what_a_call_is_costs_its_own_trials(faulty, bench_file, tmp_path):
    table = """
        [[engine]]
        name = "faulty"
        [engine.build]
        build = ["mute", "fine"]
        [[engine]]
        name = "exact"
    """
    ran = recallatk("run", bench_file(MEASURE, table), "--json")
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    statuses = [(each["engine"], each["build"].get("build"), each["status"]) for each in found["trials"]]
    assert statuses == [("faulty", "mute", "failed"), ("faulty", "fine", "done"), ("exact", None, "done")]
    assert found["trials"][0]["failure"]["message"] == "faulty: no index is built"
    assert found["timed"].startswith("one faulty call (faulty), library call (exact) for the top 10,")


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
    (measured,) = run(bench_file("[measure]\nat = [1, 10]\nrounds = 8", table)).measurements
    assert measured.others is not None
    # Every second call names the best row last, so that about half of all calls miss it at k = 1.
    assert 0.3 < measured.score["recall@1"] < 0.7


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


def test_what_a_library_left_in_the_temporary_folder_goes_with_the_run(
    faulty, bench_file, tmp_path, monkeypatch
):
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    monkeypatch.setattr(tempfile, "tempdir", None)
    (tmp_path / "temporary").mkdir()
    assert settled(run(bench_file(MEASURE, engine("litter"))), "litter").kind == "crash"
    assert list((tmp_path / "temporary").iterdir()) == []


def shown(path, *options):
    """The lines that the command prints while it measures."""
    ran = subprocess.run(command("run", path, *options), capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return [line for line in ran.stderr.splitlines() if " of " in line]


def test_progress_shows_the_trial_that_failed_with_its_reason(faulty, bench_file):
    """And not the last good one once more."""
    path = bench_file(MEASURE, engine("raise"))
    first, second = sorted(shown(path))
    failed, fine = (first, second) if "failed" in first else (second, first)
    assert failed.endswith(": failed: exception in warm-up: ValueError: query 1 was too much")
    assert "how=raise" in failed
    assert "how=fine" in fine and "recall@10 1.0000" in fine
    assert first.startswith("1 of 2: ") and second.startswith("2 of 2: ")


def test_progress_of_a_resumed_run_begins_where_the_other_ended(faulty, bench_file):
    path = bench_file(MEASURE, engine("raise"))
    shown(path)
    assert shown(path) == [], "nothing is left to be measured"
    again = shown(path, "--retry-failed")
    assert again[0] == "1 of 2 trials were finished before"
    assert again[1].startswith("2 of 2: faulty(") and "failed: exception" in again[1]


def test_a_full_disk_that_a_library_tells_of_is_said_with_the_folder():
    # As LanceDB says it: an error of its own, with a place in its sources and no file of the user.
    said = in_words(
        RuntimeError("LanceError(IO): No space left on device (os error 28), structural.rs:258:9")
    )
    assert said.endswith(f"temporary files of engines go to {tempfile.gettempdir()}")
    assert "temporary" not in in_words(RuntimeError("something else"))
