"""Runs that format 3 wrote, before filters could be refused: read and resumed."""

import shutil
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from run_making import ROWS, assert_same_measurement, make_measurement, make_plan, make_run

from recallatk import load_run, save_run
from recallatk.core import Refusals, RefusedFilter
from recallatk.storage import RunFolder
from recallatk.storage.trial_file import read_header
from recallatk.testing import tiny_dataset

FORMAT_THREE = Path(__file__).parent / "format-3"


def test_a_run_of_format_3_is_read_without_refusals():
    run = load_run(FORMAT_THREE)
    assert len(run.measurements) == 2 and run.checked
    assert [each.refused for each in run.measurements] == [None, None]
    assert_same_measurement(run.measurements[1], make_measurement(1))


def test_a_run_of_format_3_is_resumed_in_the_new_format(tmp_path):
    folder = shutil.copytree(FORMAT_THREE, tmp_path / "run")
    with RunFolder.open(folder, make_plan(3), tiny_dataset(ROWS, 3)) as opened:
        assert len(opened.finished) == 2
        opened.add(make_measurement(2))
    versions = [read_header(folder / f"trial-{number}.parquet")["format_version"] for number in (1, 2, 3)]
    assert versions == [3, 3, 4]
    assert len(load_run(folder).measurements) == 3


@given(numbers=st.lists(st.integers(-1, 2), min_size=1, max_size=8))
def test_refusals_come_back(tmp_path_factory, numbers):
    from dataclasses import replace

    known = sorted({each for each in numbers if each >= 0})
    places = np.array([known.index(each) if each >= 0 else -1 for each in numbers], np.int32)
    filters = tuple(
        RefusedFilter(f"tag = 'é{each}'", int((places == place).sum()), f"no index on {each}")
        for place, each in enumerate(known)
    )
    refused = Refusals(places, filters) if filters else None
    made = replace(make_measurement(1, len(numbers)), refused=refused)
    folder = tmp_path_factory.mktemp("run")
    save_run(make_run(0, len(numbers), measurements=(made,)), tiny_dataset(ROWS, len(numbers)), folder)
    found = load_run(folder).measurements[0].refused
    if refused is None:
        assert found is None
    else:
        assert found.filters == refused.filters
        assert np.array_equal(found.numbers, refused.numbers)
        assert found.queries == sum(each >= 0 for each in numbers)
