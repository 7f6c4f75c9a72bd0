"""Stages of paths beside their trials: read as they were written, refused if they are impossible."""

import dataclasses

import numpy as np
import pyarrow.parquet as pq
import pytest
from run_making import ROWS, make_measurement, make_run

from recallatk import load_run, save_run
from recallatk.core import Truth
from recallatk.core.stages import MeasuredStage, MeasuredStages
from recallatk.errors import FormatError
from recallatk.testing import tiny_dataset

LISTS = np.array([[3, 1, 2, -1], [-1, -1, -1, -1], [4, 5, 6, 7]])
SHARES = np.array([0.5, np.nan, 1.0])
STAGES = MeasuredStages(
    4,
    (MeasuredStage("ann", LISTS, SHARES, None), MeasuredStage("rerank", LISTS[:, :2], SHARES, SHARES)),
    np.array([[10, 20], [30, 40], [50, 60], [7, 8]]),
    Truth(LISTS, np.where(LISTS < 0, np.nan, -1.0 * LISTS), None, None),
    {"ann": 1 - SHARES},
)


def reloaded(folder, **changes):
    stages = dataclasses.replace(STAGES, **changes)
    measurement = dataclasses.replace(make_measurement(1), stages=stages)
    save_run(make_run(measurements=(measurement,)), tiny_dataset(ROWS, 3), folder)
    return load_run(folder).measurements[0].stages


def test_stages_are_read_as_they_were_written(tmp_path):
    found = reloaded(tmp_path / "run")
    assert found.k == 4 and [each.name for each in found.stages] == ["ann", "rerank"]
    np.testing.assert_array_equal(found.stages[0].rows, LISTS)
    assert found.stages[0].recall is None
    np.testing.assert_array_equal(found.stages[1].recall, SHARES)
    np.testing.assert_array_equal(found.stages[1].contained, SHARES)
    np.testing.assert_array_equal(found.spans_ns, STAGES.spans_ns)
    np.testing.assert_array_equal(found.truth.rows, LISTS)
    np.testing.assert_array_equal(found.truth.scores, STAGES.truth.scores)
    np.testing.assert_array_equal(found.lost["ann"], 1 - SHARES)


def test_a_path_by_vectors_has_no_truth_of_its_own(tmp_path):
    assert reloaded(tmp_path / "run", truth=None, lost={}).truth is None


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"k": 0}, "k is not a whole number"),
        ({"spans_ns": STAGES.spans_ns - 100}, "a stage took less than no time"),
        ({"lost": {"ann": SHARES * 4}}, "a share is not between 0 and 1"),
        (
            {"truth": Truth(LISTS, np.where(LISTS == 3, np.nan, 1.0), None, None)},
            "other numbers of rows and scores",
        ),
        ({"stages": (MeasuredStage("ann", LISTS[:2], SHARES[:2], None),)}, "one time per stage|3 queries"),
    ],
)
def test_impossible_stages_are_refused_by_file(tmp_path, changes, said):
    if "stages" in changes:
        changes = {**changes, "truth": None, "lost": {}}
    with pytest.raises(FormatError, match=rf"stages-1\.parquet.*({said})"):
        reloaded(tmp_path / "run", **changes)


def test_stages_of_another_trial_are_refused(tmp_path):
    reloaded(tmp_path / "one")
    reloaded(tmp_path / "two", k=3)
    (tmp_path / "one" / "stages-1.parquet").write_bytes((tmp_path / "one" / "spans-1.parquet").read_bytes())
    # A file of another kind is not one of stages, so that the run is shown without them.
    assert load_run(tmp_path / "one").measurements[0].stages is None


def test_damaged_stages_are_refused(tmp_path):
    reloaded(tmp_path / "run")
    path = tmp_path / "run" / "stages-1.parquet"
    table = pq.read_table(path)
    shares = table["contained 0"].to_numpy().copy()
    shares[0] = 0.25
    changed = table.set_column(table.column_names.index("contained 0"), "contained 0", [shares])
    pq.write_table(changed.replace_schema_metadata(table.schema.metadata), path)
    with pytest.raises(FormatError, match=r"stages-1\.parquet.*checksum"):
        load_run(tmp_path / "run")
