"""Damage to the files of a run: it is refused, or it changes nothing that anybody is shown."""

import dataclasses
import json
import random
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from run_making import (
    RATE,
    ROWS,
    assert_same_run,
    make_measurement,
    make_plan,
    make_run,
    make_trial,
    write_sealed,
)

from commands import recallatk
from recallatk import load_run, save_run
from recallatk.core import Caution, Failure
from recallatk.errors import FormatError, UsageError
from recallatk.storage import RunFolder, list_runs
from recallatk.storage.checksums import column_checksum
from recallatk.testing import tiny_dataset

FLIPS = 1500
KEY = b"recallatk.trial"
ROW_LIST = pa.list_(pa.int64())


def rewrite(path, before, after, key=KEY):
    """Write a trial file again with another header."""
    table = pq.read_table(path)
    header = table.schema.metadata[KEY]
    assert before in header
    pq.write_table(table.replace_schema_metadata({key: header.replace(before, after)}), path)


@pytest.fixture
def saved(tmp_path):
    """A run with one of everything that is shown."""
    run = dataclasses.replace(
        make_plan(2),
        measurements=(make_measurement(1, others=2),),
        failures=(Failure(make_trial(0), "crash", "search", "signal SIGSEGV", "the end\nof the log"),),
        cautions=(Caution("drift", "the machine was noisy", 0.2, 0.1),),
        seconds={"building": 1.5},
    )
    save_run(run, tiny_dataset(ROWS, 3), tmp_path / "run")
    return tmp_path / "run", run


@pytest.mark.parametrize("name", ["run.json", "trial-2.parquet"])
def test_one_flipped_bit_anywhere_is_refused_or_changes_nothing(saved, name):
    folder, run = saved
    path = folder / name
    whole = path.read_bytes()
    drawn = random.Random(22)
    places = sorted(drawn.sample(range(len(whole)), min(FLIPS, len(whole))))
    same = 0
    for place in places:
        flipped = bytearray(whole)
        flipped[place] ^= 1 << drawn.randrange(8)
        path.write_bytes(flipped)
        try:
            found = load_run(folder)
        except (FormatError, UsageError):
            continue
        assert_same_run(found, run)
        same += 1
    assert same < len(places) / 2


@pytest.mark.parametrize(
    ("before", "after"),
    [(b"SIGSEGV", b"SIGSEGW"), (b'"format_version": 4', b'"format_version": 2'), (b"checksum", b"checksun")],
)
def test_changed_text_in_run_json_is_refused_by_every_command(saved, before, after):
    folder, _ = saved
    path = folder / "run.json"
    path.write_bytes(path.read_bytes().replace(before, after, 1))
    for command in ("show", "report", "audit"):
        ran = recallatk(command, folder)
        assert ran.returncode == 2
        assert "run.json: its checksum does not match its content. " in ran.stderr
        assert "`recallatk run` measures damaged trials again" in ran.stderr
    (listed,) = list_runs(folder)
    assert "checksum" in listed.problem


def test_changed_text_in_a_trial_file_is_refused_by_name(saved):
    folder, _ = saved
    rewrite(folder / "trial-2.parquet", b'"graph"', b'"grapf"')
    with pytest.raises(FormatError, match=r"trial-2\.parquet: its checksum does not match its content"):
        load_run(folder)


def test_other_values_in_a_column_are_refused_by_its_name(saved):
    folder, _ = saved
    path = folder / "trial-2.parquet"
    table = pq.read_table(path)
    place = table.column_names.index("value:recall@4")
    other = table.set_column(place, "value:recall@4", pa.array([1.0, 1.0, 1.0]))
    pq.write_table(other, path)
    with pytest.raises(FormatError, match=r"the checksum of column 'value:recall@4' does not match"):
        load_run(folder)


def test_reformatted_json_is_the_same_run(saved):
    folder, run = saved
    path = folder / "run.json"
    path.write_text(json.dumps(json.loads(path.read_text()), indent=1))
    assert_same_run(load_run(folder), run)


def test_a_damaged_trial_is_measured_again_and_a_damaged_run_json_is_written_again(saved):
    folder, run = saved
    dataset = tiny_dataset(ROWS, 3)
    plan = dataclasses.replace(run, measurements=(), failures=(), cautions=(), seconds={})
    path = folder / "run.json"
    path.write_bytes(path.read_bytes().replace(b"SIGSEGV", b"SIGSEGW"))
    with RunFolder.open(folder, plan, dataset) as opened:
        assert opened.missing() == (make_trial(0),)
    assert load_run(folder).checked
    rewrite(folder / "trial-2.parquet", b"faiss 1", b"faiss 9")
    with RunFolder.open(folder, plan, dataset) as opened:
        assert opened.missing() == (make_trial(0), make_trial(1))


def test_a_trial_file_without_its_record_at_a_planned_place_is_refused(saved):
    folder, _ = saved
    write_sealed(folder, {**json.loads((folder / "run.json").read_text()), "trials": []})
    assert len(load_run(folder).measurements) == 1
    rewrite(folder / "trial-2.parquet", b"", b"", key=b"recallatk.tria1")
    with pytest.raises(FormatError, match=r"trial-2\.parquet"):
        load_run(folder)


def test_every_querys_own_values_come_back_as_they_were(tmp_path):
    measurement = make_measurement(1, queries=9, arrivals=4, trial=make_trial(1, load=RATE))
    asked = int(measurement.asked.sum())
    assert 0 < asked < 9
    values = np.linspace(0, 1, asked)
    values[1] = np.nan
    per_query = {"recall@4": values, "robust(0.9)@4": np.full(asked, -0.0)}
    score = dataclasses.replace(measurement.score, per_query=per_query)
    run = make_run(0, 9, measurements=(dataclasses.replace(measurement, score=score),))
    save_run(run, tiny_dataset(ROWS, 9), tmp_path)
    found = load_run(tmp_path).measurements[0].score.per_query
    assert list(found) == list(per_query)
    for name, expected in per_query.items():
        assert found[name].tobytes() == expected.tobytes()
    column = pq.read_table(tmp_path / "trial-1.parquet")["value:recall@4"]
    assert column.type == pa.float64()
    assert column.null_count == 9 - asked
    assert np.isnan(column.drop_null().to_numpy()).sum() == 1


def test_a_score_that_has_no_values_of_single_queries_is_saved_without_them(tmp_path):
    folder = shutil.copytree(Path(__file__).parent / "format-2", tmp_path / "old")
    save_run(load_run(folder), tiny_dataset(ROWS, 3), tmp_path / "new")
    run = load_run(tmp_path / "new")
    assert run.checked
    assert run.measurements[0].score.per_query == {}


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1, None, -3], pa.int32()),
        ([0.5, None, float("nan")], pa.float64()),
        (["a", None, "", "é"], pa.string()),
        ([[1, 2], None, []], ROW_LIST),
        ([["a", None], [], None], pa.list_(pa.string())),
        ([[{"call": 1, "rows": [3]}], []], pa.list_(pa.struct({"call": pa.int64(), "rows": ROW_LIST}))),
    ],
)
def test_the_checksum_of_a_column_is_of_its_values_alone(values, kind):
    column = pa.chunked_array([pa.array(values, kind)])
    pieces = pa.chunked_array([pa.array([each], kind) for each in values])
    sliced = pa.chunked_array([pa.array([*values, values[0]], kind).slice(0, len(values))])
    assert column_checksum(column) == column_checksum(pieces) == column_checksum(sliced)
    others = [values[::-1], [*values, values[0]], values[1:], [None, *values[1:]]]
    for other in others:
        assert column_checksum(pa.chunked_array([pa.array(other, kind)])) != column_checksum(column)
