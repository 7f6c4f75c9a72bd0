"""The bench file of a run folder that grew: all trials, in as few entries as measure nothing else."""

import tomllib

from recallatk.bench.grown_settings import settings_of_folder
from recallatk.bench.plan import make_plan
from recallatk.bench.settings import settings_from
from recallatk.testing import tiny_dataset

DATASET = tiny_dataset(60, 10, 8)


def settings(build, search):
    engine = {"name": "faiss-hnsw", "build": build, "search": search}
    return settings_from({"data": {"corpus": "c.npy", "metric": "l2"}, "engine": [engine]})


def trials(of):
    return set(make_plan(of, rows=60, dimension=8).trials)


def entries(found):
    return tomllib.loads(found.to_toml())["engine"]


def test_values_of_earlier_settings_join_the_entry_of_their_engine(tmp_path):
    before, now = settings({"M": 8}, {"ef": [20, 64]}), settings({"M": 8}, {"ef": 40})
    found = settings_of_folder(now, tmp_path, trials(before), DATASET)
    assert entries(found) == [{"name": "faiss-hnsw", "build": {"M": 8}, "search": {"ef": [20, 40, 64]}}]
    assert trials(found) == trials(before) | trials(now)
    assert tomllib.loads(found.to_toml())["output"]["folder"] == str(tmp_path)
    again = settings_of_folder(found, tmp_path, trials(found), DATASET)
    assert again == found


def test_trials_that_are_no_grid_with_the_others_have_their_own_entries(tmp_path):
    before, now = settings({"M": 8}, {"ef": [20, 64]}), settings({"M": 4}, {"ef": 40})
    found = settings_of_folder(now, tmp_path, trials(before), DATASET)
    assert {(each["build"]["M"], each["search"]["ef"]) for each in entries(found)} == {
        (4, 40),
        (8, 20),
        (8, 64),
    }
    assert trials(found) == trials(before) | trials(now)


def test_a_parameter_that_can_no_longer_be_written_is_left_out(tmp_path):
    (old,) = trials(settings({"M": 8}, {"ef": 20}))
    odd = type(old)(old.engine, (("M", "***"),), old.search)
    now = settings({"M": 8}, {"ef": 40})
    assert trials(settings_of_folder(now, tmp_path, [odd], DATASET)) == trials(now)
