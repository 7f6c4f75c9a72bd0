"""Runs that format 2 wrote, in which an open loop of 1 client may have had 16."""

import shutil
from pathlib import Path

import pytest
from run_making import RATE, make_plan, make_trial

from recallatk import load_run
from recallatk.core import Load
from recallatk.errors import MismatchError
from recallatk.storage import RunFolder
from recallatk.testing import tiny_dataset

FORMAT_TWO = Path(__file__).parent / "format-2-open-loop"
FOUR = Load("rate", rate=100.0, clients=4)


def planned(load):
    """What the stored run planned, where this load was the one whose clients were not given."""
    trials = (make_trial(0), make_trial(1, load=load), make_trial(2, load=load), make_trial(3, load=FOUR))
    return make_plan(planned=trials, settings=load_run(FORMAT_TWO).settings)


def test_the_clients_of_an_open_loop_that_were_not_given_are_not_known():
    run = load_run(FORMAT_TWO)
    assert [each.trial.load for each in run.measurements] == [Load(), RATE, FOUR]
    assert [each.calls.clients for each in run.measurements] == [1, None, 4]
    assert run.planned == planned(RATE).planned
    assert [each.trial.load for each in run.failures] == [RATE]
    assert [each["clients"] for each in run.settings["load"]] == [1, None]


def test_without_run_json_the_trial_files_say_the_same(tmp_path):
    folder = shutil.copytree(FORMAT_TWO, tmp_path / "run")
    (folder / "run.json").unlink()
    assert [each.calls.clients for each in load_run(folder).measurements] == [1, None, 4]


def test_a_run_of_format_2_is_not_resumed(tmp_path):
    folder = shutil.copytree(FORMAT_TWO, tmp_path / "run")
    with pytest.raises(MismatchError, match=r"run format 2 can be read but not resumed.*--out.*--fresh"):
        RunFolder.open(folder, planned(RATE), tiny_dataset(20, 3), retry_failed=True)
    assert len(load_run(folder).measurements) == 3
