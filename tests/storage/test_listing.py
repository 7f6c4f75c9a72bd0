"""Every run below a folder, and the command that lists them."""

import json

import pytest
import typer
from run_making import ROWS, make_measurement, make_plan, make_run, make_trial
from typer.testing import CliRunner

from recallatk import save_run
from recallatk.cli.exits import guarded
from recallatk.cli.runs import runs
from recallatk.core import Failure
from recallatk.errors import UsageError
from recallatk.storage import RunFolder, list_runs
from recallatk.storage.trial_file import FORMAT_VERSION
from recallatk.testing import tiny_dataset


@pytest.fixture
def folder(tmp_path):
    dataset = tiny_dataset(ROWS, 3)
    with RunFolder.open(tmp_path / "deep" / "one", make_plan(4), dataset) as opened:
        opened.add(make_measurement(2))
        opened.fail(Failure(make_trial(0), "crash", "build", "gone"))
    save_run(make_run(2), dataset, tmp_path / "two")
    (tmp_path / "two" / "logs").mkdir()
    (tmp_path / "two" / "logs" / "build-1.txt").write_text("said")
    (tmp_path / "no run").mkdir()
    return tmp_path


def asked(*arguments):
    app = typer.Typer()
    app.command()(guarded(runs))
    return CliRunner().invoke(app, [str(each) for each in arguments])


def size(folder):
    return sum(each.stat().st_size for each in folder.rglob("*") if each.is_file())


def test_runs_are_listed_with_how_far_they_have_come(folder):
    one, two = list_runs(folder)
    assert (one.name, one.dataset, one.engines) == ("deep/one", "tiny é", ("faiss-hnsw",))
    assert (one.done, one.planned, one.failed, one.begun) == (1, 4, 1, "2026-01-02T03:04:05Z")
    assert (two.name, two.done, two.planned, two.failed, two.begun) == ("two", 2, None, 0, None)
    assert (one.size_bytes, two.size_bytes) == (size(folder / "deep"), size(folder / "two"))
    assert (one.format_version, one.metric, one.problem) == (FORMAT_VERSION, "cosine", None)


def test_a_folder_that_is_a_run_is_listed_itself(folder):
    (only,) = list_runs(folder / "two")
    assert only.name == "two"


def test_a_run_without_run_json_is_told_from_its_trials(folder):
    (folder / "deep" / "one" / "run.json").unlink()
    one, _ = list_runs(folder)
    assert (one.dataset, one.engines, one.done, one.planned) == ("tiny é", ("faiss-hnsw",), 1, None)


@pytest.mark.parametrize("content", ["torn {", '{"format_version": 2}', "[]"])
def test_a_damaged_run_is_listed_with_its_problem_and_stops_nobody(folder, content):
    (folder / "two" / "run.json").write_text(content)
    one, two = list_runs(folder)
    assert one.problem is None
    assert "cannot be read as run" in two.problem
    assert (two.dataset, two.engines, two.done) == (None, (), 2)
    said = asked(folder)
    assert said.exit_code == 0
    assert f"two: {folder}/two/run.json: cannot be read as run" in said.stdout


def test_files_of_other_people_are_no_runs(tmp_path):
    (tmp_path / "run.json").write_text("{}")
    (tmp_path / ".hidden").mkdir()
    save_run(make_run(1), tiny_dataset(ROWS, 3), tmp_path / ".hidden" / "run")
    assert [each.problem is None for each in list_runs(tmp_path)] == [False]
    with pytest.raises(UsageError, match="nowhere: no such folder"):
        list_runs(tmp_path / "nowhere")


def test_the_command_prints_a_table(folder):
    said = asked(folder)
    assert said.exit_code == 0
    head, one, two = said.stdout.splitlines()
    assert head.split() == ["run", "dataset", "engines", "trials", "begun", "size"]
    assert one.startswith("deep/one  tiny é   faiss-hnsw  1 of 4, 1 failed  2026-01-02T03:04:05Z  ")
    assert two.startswith("two       tiny é   faiss-hnsw  2                 -  ")
    assert len(head) == len(one) == len(two)
    assert one.endswith("kB")


def test_the_command_prints_a_list_of_objects(folder):
    found = json.loads(asked(folder, "--json").stdout)
    assert [each["name"] for each in found] == ["deep/one", "two"]
    assert set(found[0]) == {
        "name",
        "folder",
        "dataset",
        "metric",
        "engines",
        "done",
        "planned",
        "failed",
        "begun",
        "size_bytes",
        "format_version",
        "problem",
        "kept",
    }


def test_the_command_says_that_there_is_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said = asked()
    assert (said.exit_code, said.stderr) == (2, "recallatk: runs: no such folder\n")
    (tmp_path / "runs").mkdir()
    assert asked().stdout == "no runs in runs or its subfolders\n"
    assert json.loads(asked("--json").stdout) == []


def test_names_of_folders_cannot_write_to_the_terminal(tmp_path):
    save_run(make_run(1), tiny_dataset(ROWS, 3), tmp_path / "a\x1b[31m\nb")
    assert "a\\x1b[31m\\nb" in asked(tmp_path).stdout
