"""A run that is measured into a folder: begun, gone on with, and refused where it would be mixed."""

import dataclasses
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from run_making import (
    ROWS,
    assert_same_measurement,
    make_build,
    make_measurement,
    make_plan,
    make_trial,
    write_sealed,
)

from recallatk import load_run
from recallatk.core import Caution, Failure, Metric
from recallatk.errors import FormatError, MismatchError, UsageError
from recallatk.storage import RunFolder
from recallatk.storage import trial_file as trial_files
from recallatk.storage.listing import list_runs
from recallatk.testing import tiny_dataset

FAILURE = Failure(make_trial(1), "crash", "build", "signal SIGSEGV", "the end of the log")


@pytest.fixture
def dataset():
    return tiny_dataset(ROWS, 3)


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "deep" / "run"


@pytest.fixture
def begun(folder, dataset):
    """Four trials planned, the third and the first finished, the second failed."""
    with RunFolder.open(folder, make_plan(4), dataset) as opened:
        opened.add(make_measurement(2))
        opened.add(make_measurement(0))
        opened.fail(FAILURE)
        opened.update(cautions=(Caution("noise", "loud"),), seconds={"building": 2.0})
    return folder


def names(folder):
    return {each.name for each in folder.iterdir()}


def test_a_run_begins_with_what_is_planned(folder, dataset):
    plan = make_plan(2)
    with RunFolder.open(folder, plan, dataset) as opened:
        assert opened.missing() == plan.planned
        assert (dict(opened.finished), dict(opened.failed), opened.earlier_environment) == ({}, {}, None)
        assert load_run(folder).planned == plan.planned
        assert not load_run(folder).complete
    assert names(folder) == {"run.json"}


def lines_of(function):
    return sorted({number for _, _, number in function.__code__.co_lines() if number})[1:]


def interrupting(function, line_number):
    """What a trace function is: Ctrl-C at that line."""

    def trace(frame, event, _):
        if frame.f_code is not function.__code__:
            return None
        if event == "line" and frame.f_lineno == line_number:
            raise KeyboardInterrupt
        return trace

    return trace


@pytest.mark.parametrize("line_number", lines_of(RunFolder.add))
def test_control_c_at_any_line_of_adding_a_trial_leaves_a_run_to_go_on_with(folder, dataset, line_number):
    plan = make_plan(2)
    tracing = sys.gettrace()
    with RunFolder.open(folder, plan, dataset) as opened:
        opened.add(make_measurement(0))
        sys.settrace(interrupting(RunFolder.add, line_number))
        try:
            opened.add(make_measurement(1))
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(tracing)
        # What a run does while it ends.
        opened.update(seconds={"building": 1.0})
        assert len(opened.run().measurements) == len(opened.finished)
    with RunFolder.open(folder, plan, dataset) as again:
        for trial in again.missing():
            again.add(make_measurement(plan.planned.index(trial)))
        assert again.run().complete
        assert len(again.run().measurements) == 2


def test_every_trial_is_on_the_disk_as_soon_as_it_is_finished(folder, dataset):
    with RunFolder.open(folder, make_plan(3), dataset) as opened:
        for count, number in enumerate((1, 0, 2), 1):
            opened.add(make_measurement(number))
            assert (folder / f"trial-{number + 1}.parquet").exists()
            header = json.loads((folder / "run.json").read_text())
            assert len(header["trials"]) == len(load_run(folder).measurements) == count
        assert opened.missing() == ()
        found = opened.run()
    assert [each.trial for each in found.measurements] == [make_trial(number) for number in range(3)]
    assert found.complete
    for number, each in enumerate(found.measurements):
        assert_same_measurement(each, make_measurement(number))


def test_a_run_is_gone_on_with_where_it_was(begun, dataset):
    later = make_plan(4, begun="2027-01-01T00:00:00Z", environment={"processor": "two"})
    with RunFolder.open(begun, later, dataset) as opened:
        assert set(opened.finished) == {make_trial(0), make_trial(2)}
        assert dict(opened.failed) == {make_trial(1): FAILURE}
        assert opened.missing() == (make_trial(3),)
        assert opened.earlier_environment == {"processor": "one", "cores": 2, "load_average": None}
        assert opened.described.failures == (FAILURE,)
        assert opened.described.measurements == ()
        assert_same_measurement(opened.finished[make_trial(2)], make_measurement(2))
        opened.add(make_measurement(3))
        found = opened.run()
    assert found.begun == "2026-01-02T03:04:05Z"
    assert (found.seconds, found.cautions) == ({"building": 2.0}, (Caution("noise", "loud"),))
    assert found.failures == (FAILURE,)
    assert found.complete
    assert load_run(begun).complete


def test_failures_are_tried_again_when_that_is_asked_for(begun, dataset):
    with RunFolder.open(begun, make_plan(4), dataset, retry_failed=True) as opened:
        assert opened.missing() == (make_trial(1), make_trial(3))
        opened.fail(dataclasses.replace(FAILURE, kind="time limit"))
        assert opened.failed[make_trial(1)].kind == "time limit"
        opened.add(make_measurement(1))
        assert dict(opened.failed) == {}
    assert load_run(begun).failures == ()


def test_a_failure_that_was_mended_just_before_a_kill_is_no_failure(begun, dataset):
    before = (begun / "run.json").read_bytes()
    with RunFolder.open(begun, make_plan(4), dataset, retry_failed=True) as opened:
        opened.add(make_measurement(1))
    (begun / "run.json").write_bytes(before)
    assert load_run(begun).failures == ()
    with RunFolder.open(begun, make_plan(4), dataset) as opened:
        assert dict(opened.failed) == {}
        assert opened.missing() == (make_trial(3),)


@pytest.mark.parametrize("damage", ["lost", "stale", "torn"])
def test_trial_files_are_the_truth_of_what_is_finished(begun, dataset, damage):
    if damage == "lost":
        (begun / "run.json").unlink()
    elif damage == "torn":
        (begun / "run.json").write_bytes((begun / "run.json").read_bytes()[:50])
    else:
        header = json.loads((begun / "run.json").read_text())
        write_sealed(begun, {**header, "trials": []})
    with RunFolder.open(begun, make_plan(4), dataset) as opened:
        assert set(opened.finished) == {make_trial(0), make_trial(2)}
        assert opened.run().begun == "2026-01-02T03:04:05Z"
    header = json.loads((begun / "run.json").read_text())
    assert [each["file"] for each in header["trials"]] == ["trial-1.parquet", "trial-3.parquet"]


@pytest.mark.parametrize("damage", [b"", b"PAR1", "half", "flipped"])
def test_damaged_trials_are_measured_again(begun, dataset, damage):
    path = begun / "trial-3.parquet"
    whole = path.read_bytes()
    if damage == "half":
        damage = whole[: len(whole) // 2]
    elif damage == "flipped":
        damage = whole[:60] + bytes([whole[60] ^ 0xFF]) + whole[61:]
    path.write_bytes(damage)
    with RunFolder.open(begun, make_plan(4), dataset) as opened:
        assert opened.missing() == (make_trial(2), make_trial(3))
        opened.add(make_measurement(2))
    assert len(load_run(begun).measurements) == 2


def test_what_a_killed_process_left_half_written_is_removed(begun, dataset):
    scraps = [".trial-4.ab12.parquet", ".run.x_y.json"]
    for name in [*scraps, ".mine.json"]:
        (begun / name).write_text("half")
    RunFolder.open(begun, make_plan(4), dataset).close()
    assert names(begun) == {"run.json", "trial-1.parquet", "trial-3.parquet", ".mine.json"}


def test_a_plan_in_another_order_brings_the_files_to_their_places(begun, dataset):
    plan = make_plan(4)
    turned = dataclasses.replace(plan, planned=tuple(reversed(plan.planned)))
    with RunFolder.open(begun, turned, dataset) as opened:
        assert opened.missing() == (make_trial(3),)
        assert_same_measurement(opened.finished[make_trial(0)], make_measurement(0))
    assert names(begun) == {"run.json", "trial-2.parquet", "trial-4.parquet"}
    assert [each.trial for each in load_run(begun).measurements] == [make_trial(2), make_trial(0)]
    # Each stands where the other was.
    swapped = dataclasses.replace(plan, planned=tuple(map(make_trial, (3, 0, 1, 2))))
    with RunFolder.open(begun, swapped, dataset) as opened:
        assert set(opened.finished) == {make_trial(0), make_trial(2)}
    assert [each.trial for each in load_run(begun).measurements] == [make_trial(0), make_trial(2)]


def test_a_file_that_was_on_its_way_when_the_process_was_killed_comes_to_its_place(begun, dataset):
    (begun / "trial-3.parquet").rename(begun / "trial-9.parquet")
    (begun / "run.json").unlink()
    assert [each.trial for each in load_run(begun).measurements] == [make_trial(0), make_trial(2)]
    with RunFolder.open(begun, make_plan(4), dataset) as opened:
        assert set(opened.finished) == {make_trial(0), make_trial(2)}
    assert names(begun) == {"run.json", "trial-1.parquet", "trial-3.parquet"}


def test_a_trial_that_is_there_twice_is_refused(begun, dataset):
    shutil.copy(begun / "trial-1.parquet", begun / "trial-2.parquet")
    said = r"trial-1\.parquet and trial-2\.parquet both hold the trial .*\[ef=10\]\. Remove one"
    with pytest.raises(MismatchError, match=said):
        RunFolder.open(begun, make_plan(4), dataset)


@pytest.mark.parametrize("part", ["fingerprints", "environment", "settings"])
def test_a_header_without_a_part_is_refused_by_name(begun, dataset, part):
    header = json.loads((begun / "run.json").read_text())
    del header[part]
    write_sealed(begun, header)
    with pytest.raises(FormatError, match=r"run\.json: cannot be read as run"):
        RunFolder.open(begun, make_plan(4), dataset)


def test_run_json_and_trial_files_say_what_was_timed_as_the_builds_do(folder, dataset):
    def timed(name="run.json"):
        if name == "run.json":
            return json.loads((folder / name).read_text())["timed"]
        return json.loads(pq.read_schema(folder / name).metadata[b"recallatk.trial"])["run"]["timed"]

    with RunFolder.open(folder, make_plan(4), dataset) as opened:
        assert timed() is None
        opened.add(make_measurement(0))
        rest = "for the top 4, 1 search thread; build on 2 threads"
        assert timed() == f"one library call {rest}"
        there = make_measurement(1)
        opened.add(dataclasses.replace(there, build=dataclasses.replace(there.build, call="round trip")))
        assert timed() == f"one library call (faiss-hnsw), round trip (faiss-hnsw) {rest}"
        assert timed("trial-2.parquet") == f"one round trip {rest}"
        assert opened.run().timed == timed()
    assert load_run(folder).timed == timed()


def test_what_an_older_version_guessed_about_timing_is_not_read_back(tmp_path):
    shutil.copytree(Path(__file__).parent / "format-2", tmp_path / "old")
    header = json.loads((tmp_path / "old" / "run.json").read_text())
    (tmp_path / "old" / "run.json").write_text(json.dumps({**header, "timed": "a guess"}))
    assert load_run(tmp_path / "old").timed.startswith("one library call for the top")


def test_a_longer_plan_goes_on_with_a_shorter_one(begun, dataset):
    with RunFolder.open(begun, make_plan(6), dataset) as opened:
        assert opened.missing() == tuple(make_trial(number) for number in (3, 4, 5))


def test_finished_trials_that_are_not_planned_any_more_are_kept_behind_the_plan(begun, dataset):
    with RunFolder.open(begun, make_plan(2), dataset, retry_failed=True) as opened:
        assert opened.missing() == (make_trial(1),)
        opened.add(make_measurement(1))
        found = opened.run()
    assert [each.trial for each in found.measurements] == [make_trial(0), make_trial(1), make_trial(2)]
    assert found.complete and found.kept == (make_trial(2),)
    assert load_run(begun).kept == (make_trial(2),)
    (listed,) = list_runs(begun)
    assert (listed.done, listed.planned, listed.kept) == (2, 2, 1)
    # A plan that names it again takes it back to its place, and other people's files stay.
    pq.write_table(pa.table({"mine": [1]}), begun / "trial-6.parquet")
    mine = (begun / "trial-6.parquet").read_bytes()
    with RunFolder.open(begun, make_plan(5), dataset) as opened:
        assert opened.missing() == (make_trial(3), make_trial(4))
        assert opened.run().kept == ()
    plan = make_plan(5)
    with RunFolder.open(begun, dataclasses.replace(plan, planned=plan.planned[3:]), dataset) as opened:
        assert opened.run().kept == (make_trial(0), make_trial(1), make_trial(2))
    assert (begun / "trial-6.parquet").read_bytes() == mine
    assert {f"trial-{number}.parquet" for number in (3, 4, 5)} <= names(begun)


def test_a_kept_trial_that_is_damaged_is_removed(begun, dataset):
    RunFolder.open(begun, make_plan(1), dataset).close()
    assert names(begun) == {"run.json", "trial-1.parquet", "trial-2.parquet"}
    (begun / "trial-2.parquet").write_bytes(b"torn")
    with RunFolder.open(begun, make_plan(1), dataset) as opened:
        assert list(opened.finished) == [make_trial(0)]
    assert names(begun) == {"run.json", "trial-1.parquet"}


@pytest.mark.parametrize(
    "changed",
    [
        {"engine": [{"name": "exact", "build": {}, "search": {}}]},
        {"measure": {"by": ["category"], "builds": 3}},
        {"tune": {"target": ["recall@10 >= 0.9"]}, "cost": {"per_hour": 0.3}},
    ],
)
def test_settings_that_change_no_measurement_may_change(folder, dataset, changed):
    stored = {"engine": [{"name": "hnswlib", "search": {"ef": [10, 20]}}], "measure": {"by": [], "builds": 1}}
    with RunFolder.open(folder, make_plan(2, settings=stored), dataset) as opened:
        opened.add(make_measurement(0))
    with RunFolder.open(folder, make_plan(3, settings={**stored, **changed}), dataset) as opened:
        assert opened.missing() == (make_trial(1), make_trial(2))
    assert load_run(folder).settings == {**stored, **changed}
    # The first trial still has the settings of its time.
    with RunFolder.open(folder, make_plan(3, settings=stored), dataset) as opened:
        assert len(opened.finished) == 1


def test_without_a_plan_whatever_is_there_is_kept_and_more_is_added(folder, dataset):
    plan = make_plan(planned=None)
    with RunFolder.open(folder, plan, dataset) as opened:
        assert opened.missing() == ()
        opened.add(make_measurement(5))
        opened.fail(FAILURE)
    with RunFolder.open(folder, plan, dataset) as opened:
        assert list(opened.finished) == [make_trial(5)]
        assert list(opened.failed) == [make_trial(1)]
        opened.add(make_measurement(3))
        assert [each.trial for each in opened.run().measurements] == [make_trial(5), make_trial(3)]
    assert names(folder) == {"run.json", "trial-1.parquet", "trial-2.parquet"}


def test_nothing_is_measured_twice_or_beside_the_plan(begun, dataset):
    with RunFolder.open(begun, make_plan(4), dataset) as opened:
        with pytest.raises(UsageError, match="already finished; trials are not measured twice"):
            opened.add(make_measurement(0))
        with pytest.raises(UsageError, match="already finished, so it cannot fail"):
            opened.fail(dataclasses.replace(FAILURE, trial=make_trial(0)))
        with pytest.raises(UsageError, match="not part of the plan of"):
            opened.add(make_measurement(9))
    with pytest.raises(UsageError, match="the run folder is closed"):
        opened.add(make_measurement(3))
    opened.close()


def different(**changes):
    plan = make_plan(4)
    return dataclasses.replace(
        plan, **{name: change(getattr(plan, name)) for name, change in changes.items()}
    )


@pytest.mark.parametrize(
    ("run", "said"),
    [
        (different(fingerprints=lambda found: {**found, "truth": "other"}), r"Different: the truth\. "),
        (
            different(metric=lambda _: Metric.IP),
            r"Different: the metric \(stored cosine, requested ip\)\. ",
        ),
        (
            different(settings=lambda found: {**found, "rounds": 3, "seed": 1}),
            r"rounds \(stored 2, requested 3\); the setting seed \(stored absent, requested 1\)\. ",
        ),
        (
            different(settings=lambda _: {"engines": [{"name": "exact", "search": {"ef": [10]}}]}),
            r"the setting rounds \(stored 2, requested absent\); the setting engines\[0\]\.name "
            r"\(stored \"faiss-hnsw\", requested \"exact\"\); the setting engines\[0\]\.search\.ef "
            r"\(stored \[10, 20\], requested \[10\]\)\. ",
        ),
        (
            different(
                fingerprints=lambda found: {**found, "truth": "other"},
                metric=lambda _: Metric.L2,
                settings=lambda found: {**found, "rounds": 9},
            ),
            r"Different: the truth; the metric \(stored cosine, requested l2\); the setting rounds",
        ),
    ],
)
@pytest.mark.parametrize("has_run_file", [True, False])
def test_another_run_is_refused_with_every_difference_and_the_way_out(
    begun, dataset, run, said, has_run_file
):
    if not has_run_file:
        (begun / "run.json").unlink()
    before = {each.name: each.read_bytes() for each in begun.iterdir()}
    with pytest.raises(MismatchError, match=said) as refusal:
        RunFolder.open(begun, run, dataset)
    assert "another folder (--out), or start over in this one (--fresh)" in str(refusal.value)
    assert {each.name: each.read_bytes() for each in begun.iterdir()} == before


def test_other_data_is_refused_by_name(begun):
    other = tiny_dataset(ROWS, 3, seed=1)
    with pytest.raises(MismatchError, match=r"Different: the data \(vectors, queries\)\. "):
        RunFolder.open(begun, make_plan(4, dataset=other), other)
    with pytest.raises(MismatchError, match="measured on different data: vectors, queries differ"):
        RunFolder.open(begun, make_plan(4), other)


def test_settings_that_only_look_different_are_the_same(begun, dataset):
    settings = {"engines": ({"search": {"ef": (10.0, 20)}, "name": "faiss-hnsw"},), "rounds": 2}
    with RunFolder.open(begun, make_plan(4, settings=settings), dataset) as opened:
        assert len(opened.finished) == 2


def test_a_trial_of_another_run_among_these_is_refused(begun, dataset, tmp_path):
    other = tiny_dataset(ROWS, 4)
    with RunFolder.open(tmp_path / "other", make_plan(4, queries=4, dataset=other), other) as opened:
        opened.add(make_measurement(1, queries=4))
    shutil.copy(tmp_path / "other" / "trial-2.parquet", begun)
    with pytest.raises(MismatchError, match=r"trial-2\.parquet belongs to a different run.*\(queries\)"):
        RunFolder.open(begun, make_plan(4), dataset)


def test_fresh_removes_the_old_run_and_nothing_else(begun, dataset):
    (begun / "notes.txt").write_text("mine")
    (begun / "logs").mkdir()
    (begun / "logs" / "build-1.txt").write_text("said")
    (begun / "logs" / "mine.txt").write_text("mine")
    (begun / "trial-2.parquet").write_bytes(b"torn")
    pq.write_table(pa.table({"mine": [1]}), begun / "trial-9.parquet")
    with RunFolder.open(begun, different(metric=lambda _: Metric.IP), dataset, fresh=True) as opened:
        assert len(opened.missing()) == 4
        assert opened.earlier_environment is None
    assert names(begun) == {"run.json", "notes.txt", "logs", "trial-9.parquet"}
    assert names(begun / "logs") == {"mine.txt"}
    (begun / "logs" / "mine.txt").rename(begun / "logs" / "build-2.txt")
    RunFolder.open(begun, make_plan(4), dataset, fresh=True).close()
    assert names(begun) == {"run.json", "notes.txt", "trial-9.parquet"}


@pytest.mark.parametrize("fresh", [False, True])
@pytest.mark.parametrize(
    ("name", "content"), [("run.json", b"[1]"), ("run.json", b"torn {"), ("trial-4.parquet", b"mine")]
)
def test_a_folder_of_other_people_is_refused_where_a_file_would_be_written_over(
    folder, dataset, name, content, fresh
):
    folder.mkdir(parents=True)
    (folder / name).write_bytes(content)
    (folder / "notes.txt").write_text("mine")
    with pytest.raises(
        UsageError, match=rf"{name}: not a file of a run, but the run would overwrite it.*--out"
    ):
        RunFolder.open(folder, make_plan(4), dataset, fresh=fresh)
    assert (folder / name).read_bytes() == content
    assert names(folder) == {name, "notes.txt"}


def test_a_folder_of_other_people_is_taken_where_nothing_is_written_over(folder, dataset):
    folder.mkdir(parents=True)
    (folder / "notes.txt").write_text("mine")
    (folder / "trial-5.parquet").write_bytes(b"mine")
    for fresh in (False, True, False):
        RunFolder.open(folder, make_plan(4), dataset, fresh=fresh).close()
        assert load_run(folder).measurements == ()
        assert names(folder) >= {"notes.txt", "run.json"}
    assert (folder / "trial-5.parquet").read_bytes() == b"mine"


def test_a_newer_format_is_refused_and_stays(begun, dataset):
    header = json.loads((begun / "run.json").read_text())
    (begun / "run.json").write_text(json.dumps({**header, "format_version": 5}))
    with pytest.raises(FormatError, match=r"run format 5.*format 4 or older.*pip install --upgrade"):
        RunFolder.open(begun, make_plan(4), dataset)
    assert json.loads((begun / "run.json").read_text())["format_version"] == 5


def test_versions_of_an_engine_are_not_mixed(begun, dataset):
    with RunFolder.open(begun, make_plan(4), dataset) as opened:
        for engine, version in [("faiss-hnsw", "faiss 1"), ("faiss-hnsw", None), ("exact", "exact 2")]:
            opened.require_version(engine, version)
        with pytest.raises(MismatchError, match=r"trial-3\.parquet was measured with faiss 1, but"):
            opened.require_version("faiss-hnsw", "faiss 2")
        opened.add(dataclasses.replace(make_measurement(3), build=make_build(version=None)))
        opened.require_version("faiss-hnsw", "faiss 1")


def test_a_url_is_no_place_for_a_run(dataset):
    with pytest.raises(UsageError, match=r"s3://bucket/run: runs can be written only to local folders"):
        RunFolder.open("s3://user:password@bucket/run", make_plan(4), dataset)


def test_a_place_that_cannot_be_written_is_refused_before_any_work(tmp_path, dataset):
    (tmp_path / "file").write_text("mine")
    for place in (tmp_path / "file", tmp_path / "file" / "run"):
        with pytest.raises(UsageError, match=r"cannot be written: (File exists|Not a directory)"):
            RunFolder.open(place, make_plan(4), dataset)


WAITING = """
import sys
sys.path.insert(0, {making!r})
from run_making import ROWS, make_plan
from recallatk.storage import RunFolder
from recallatk.testing import tiny_dataset
with RunFolder.open({folder!r}, make_plan(4), tiny_dataset(ROWS, 3)) as opened:
    print("open", flush=True)
    sys.stdin.read()
"""


def test_two_processes_do_not_measure_into_one_folder(folder, dataset):
    code = WAITING.format(making=str(Path(__file__).parent), folder=str(folder))
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "open\n"
        with pytest.raises(UsageError, match=rf"process {other.pid} is writing a run there.*--out"):
            RunFolder.open(folder, make_plan(4), dataset)
        with pytest.raises(UsageError, match="is writing a run there"):
            RunFolder.open(folder, make_plan(4), dataset, fresh=True)
        assert load_run(folder).planned == make_plan(4).planned
        other.kill()
        other.wait()
    # The system lets go of what a killed process held.
    with RunFolder.open(folder, make_plan(4), dataset) as opened:
        assert len(opened.missing()) == 4
        with pytest.raises(UsageError, match="is writing a run there"):
            RunFolder.open(folder, make_plan(4), dataset)
    assert names(folder) == {"run.json"}


def test_no_trial_is_read_again_while_others_are_added(folder, dataset, monkeypatch):
    plan = make_plan(50)
    with RunFolder.open(folder, plan, dataset) as opened:
        monkeypatch.setattr(trial_files.pq, "read_table", None)
        monkeypatch.setattr(trial_files.pq, "read_schema", None)
        for number in range(50):
            opened.add(make_measurement(number))
        assert opened.missing() == ()
