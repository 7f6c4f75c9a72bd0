"""Runs on disk: whole or refused."""

import dataclasses
import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from run_making import assert_same_run, make_measurement, make_run, write_sealed

from commands import recallatk
from recallatk import load_run, make_corpus, make_queries, open_dataset, save_run
from recallatk.core import Load, Metric, Trial
from recallatk.errors import FormatError, MismatchError, UsageError
from recallatk.storage import RunFolder
from recallatk.testing import tiny_dataset


@pytest.mark.parametrize(("trials", "queries", "rounds", "k"), [(2, 3, 2, 4), (1, 1, 1, 1), (3, 5, 1, 2)])
def test_a_run_comes_back_as_it_was_saved(tmp_path, trials, queries, rounds, k):
    run = make_run(trials, queries, rounds, k)
    assert save_run(run, tiny_dataset(20, queries), tmp_path / "deep" / "run") == tmp_path / "deep" / "run"
    assert_same_run(load_run(tmp_path / "deep" / "run"), run)


@pytest.mark.parametrize("ids", [None, list(range(100, 120)), [f"row {i}" for i in range(20)]])
def test_answers_stand_in_the_file_by_the_ids_of_the_user(tmp_path, ids):
    corpus = make_corpus(np.ones((20, 2)), ids)
    dataset = open_dataset(corpus, make_queries(np.ones((3, 2)), ["a", "b", "c"]), metric="ip")
    run = make_run(dataset=dataset)
    save_run(run, dataset, tmp_path)
    table = pq.read_table(tmp_path / "trial-1.parquet")
    named = corpus.ids.to_pylist()
    expected = [
        [None if row < 0 else named[row] for row in answer] for answer in run.measurements[0].answers.tolist()
    ]
    assert table["neighbors"].to_pylist() == expected
    assert table["query_id"].to_pylist() == ["a", "b", "c"]


@pytest.fixture
def saved(tmp_path):
    save_run(make_run(), tiny_dataset(20, 3), tmp_path)
    return tmp_path


def test_run_json_is_plain_and_states_its_format(saved):
    header = json.loads((saved / "run.json").read_text(encoding="utf-8"))
    assert header["format_version"] == 4
    assert header["dataset"] == "tiny é"
    assert list(header) == [
        "format_version",
        "tool_version",
        "dataset",
        "metric",
        "fingerprints",
        "environment",
        "timed",
        "sampled_from",
        "settings",
        "begun",
        "planned",
        "trials",
        "failures",
        "cautions",
        "seconds",
        "checksum",
    ]
    first, second = header["trials"]
    assert first["memory_bytes"] is first["version"] is None
    assert (second["engine"], second["version"], second["build_threads"]) == ("faiss-hnsw", "faiss 1", 2)
    assert (second["build"], second["search"], second["k"]) == ({"M": 8}, {"ef": 20}, 4)
    assert set(second["measures"]) == {"recall@1", "recall@4"}
    assert set(second["measures"]["recall@4"]) == {"value", "low", "high", "ids", "n"}
    assert {each.name for each in saved.iterdir()} == {"run.json", "trial-1.parquet", "trial-2.parquet"}


def test_a_run_that_could_not_be_saved_leaves_nothing_of_the_older_one(saved, monkeypatch):
    def broken(table, path, **options):
        raise OSError("disk full")

    monkeypatch.setattr(pq, "write_table", broken)
    with pytest.raises(OSError, match="disk full"):
        save_run(make_run(), tiny_dataset(20, 3), saved)
    assert not (saved / "run.json").exists()
    assert all(not each.name.startswith(".") for each in saved.iterdir())
    with pytest.raises(UsageError, match=r"run\.json: no such file"):
        load_run(saved)


def test_a_newer_format_is_refused_with_the_way_out(saved):
    header = json.loads((saved / "run.json").read_text(encoding="utf-8"))
    (saved / "run.json").write_text(json.dumps({"format_version": 5, "experiments": header["trials"]}))
    with pytest.raises(FormatError, match=r"run format 5.*format 4 or older.*pip install --upgrade"):
        load_run(saved)


@pytest.mark.parametrize(
    "change",
    [
        lambda header: [header],
        lambda header: None,
        lambda header: {**header, "format_version": "one"},
        lambda header: {**header, "metric": "hamming"},
        lambda header: {**header, "trials": None},
        lambda header: {**header, "trials": [{}]},
        lambda header: {**header, "trials": [{**header["trials"][0], "file": "trial-7.parquet"}]},
        lambda header: {**header, "planned": [{"engine": "x"}]},
        lambda header: {**header, "failures": [{}]},
        lambda header: {**header, "fingerprints": {**header["fingerprints"], "truth": "another"}},
        lambda header: {name: value for name, value in header.items() if name != "environment"},
    ],
)
def test_a_damaged_header_is_refused(saved, change):
    header = json.loads((saved / "run.json").read_text(encoding="utf-8"))
    write_sealed(saved, change(header))
    with pytest.raises(FormatError, match=r"run\.json|trial-\d\.parquet"):
        load_run(saved)


def test_other_folders_are_no_runs(tmp_path, saved):
    with pytest.raises(UsageError, match=r"nowhere: no such file"):
        load_run(tmp_path / "nowhere")
    (saved / "run.json").write_bytes(b"\xff{")
    with pytest.raises(FormatError, match=r"run\.json: cannot be read as run: "):
        load_run(saved)


def test_damaged_trials_are_refused_by_name(saved):
    whole = (saved / "trial-2.parquet").read_bytes()
    chunks = pq.read_metadata(saved / "trial-2.parquet").row_group(0).to_dict()["columns"]
    latencies = next(each for each in chunks if each["path_in_schema"].startswith("latencies_ns"))
    start = latencies["dictionary_page_offset"] or latencies["data_page_offset"]
    # The last byte of the latencies, which only a checksum would miss.
    last = start + latencies["total_compressed_size"] - 1
    flipped = whole[:last] + bytes([whole[last] ^ 0xFF]) + whole[last + 1 :]
    other = (saved / "run.json").read_bytes()
    for data in (b"", whole[:100], whole[:-5], flipped, other):
        (saved / "trial-2.parquet").write_bytes(data)
        with pytest.raises(FormatError, match=r"trial-2\.parquet"):
            load_run(saved)
    pq.write_table(pq.read_table(saved / "trial-1.parquet", columns=["query_id"]), saved / "trial-2.parquet")
    with pytest.raises(FormatError, match=r"trial-2\.parquet"):
        load_run(saved)


def test_a_shorter_run_over_a_longer_one_is_the_shorter_one_and_nothing_is_left(saved):
    run = make_run(trials=1)
    (saved / "notes.txt").write_text("mine")
    save_run(dataclasses.replace(run, dataset="second"), tiny_dataset(20, 3), saved)
    found = load_run(saved)
    assert found.dataset == "second"
    assert len(found.measurements) == 1
    assert {each.name for each in saved.iterdir()} == {"run.json", "trial-1.parquet", "notes.txt"}


def test_a_run_is_not_saved_with_the_ids_of_other_data(saved):
    before = {each.name: each.read_bytes() for each in saved.iterdir()}
    run, dataset = make_run(), tiny_dataset(20, 3)
    vectors = dataset.corpus.vectors.read(0, 20)
    renamed = open_dataset(make_corpus(vectors), dataset.queries, metric=dataset.metric)
    for other, parts in [
        (tiny_dataset(20, 3, seed=1), "vectors, queries"),
        (tiny_dataset(20, 4), "queries"),
        (renamed, "ids"),
        (
            open_dataset(dataset.corpus, dataset.queries, metric="cosine", where="size > 5"),
            "queries, metadata",
        ),
    ]:
        with pytest.raises(MismatchError, match=f"measured on different data: {parts} differ"):
            save_run(run, other, saved)
        with pytest.raises(MismatchError):
            save_run(run, other, saved / "fresh")
    assert {each.name: each.read_bytes() for each in saved.iterdir()} == before


def test_an_answer_that_names_no_row_stands_as_null_beside_its_number(tmp_path):
    run, dataset = make_run(trials=1), tiny_dataset(20, 3)
    answers = np.array([[19, 20, -1, 0], [2**62, 5, -7, 3], [20, 21, 22, 23]])
    measurement = dataclasses.replace(run.measurements[0], answers=answers)
    save_run(dataclasses.replace(run, measurements=(measurement,)), dataset, tmp_path)
    table = pq.read_table(tmp_path / "trial-1.parquet")
    assert table["neighbors"].to_pylist() == [
        ["row-19", None, None, "row-0"],
        [None, "row-5", None, "row-3"],
        [None] * 4,
    ]
    assert table["rows"].to_pylist() == answers.tolist()
    assert (load_run(tmp_path).measurements[0].answers == answers).all()


FORMAT_ONE = Path(__file__).parent / "format-1"


def test_runs_of_format_1_are_still_read():
    run = load_run(FORMAT_ONE)
    assert (run.dataset, run.metric) == ("tiny é", Metric.COSINE)
    assert run.timed == "one library call for the top 4, 1 search thread; build on 2 threads"
    assert (run.sampled_from, run.planned, run.settings, run.begun) == (117659, None, {}, None)
    first, second = run.measurements
    assert second.trial == Trial("faiss-hnsw", (("M", 8),), (("ef", 20),), Load(), 0)
    assert (second.build.version, second.build.threads, second.build.memory_bytes) == ("faiss 1", 2, 2**40)
    assert first.answers.tolist() == [[4, 19, 6, -1], [11, 16, 4, 7], [7, 11, 19, 10]]
    assert first.calls.query.tolist() == [0, 1, 2, 0, 1, 2]
    assert first.calls.round.tolist() == [0, 0, 0, 1, 1, 1]
    assert first.latencies_ns.tolist() == [84015344, 377138897, 832644147, 400847334, 787098307, 316466175]
    assert first.calls.sent_ns.tolist() == [0, 84015344, 461154241, 0, 400847334, 1187945641]
    assert first.calls.round_ns.tolist() == [1293798388, 1504411816]
    assert second.score["recall@4"] == pytest.approx(1 / 6)
    assert (first.exercised, second.exercised) == (None, "graph")


def test_the_search_threads_of_format_1_are_read_from_its_words(tmp_path):
    for each in FORMAT_ONE.iterdir():
        shutil.copy(each, tmp_path)
    header = json.loads((tmp_path / "run.json").read_text())
    header["timed"] = "one library call per query, one client, 3 search thread; build on 2 threads"
    (tmp_path / "run.json").write_text(json.dumps(header))
    assert load_run(tmp_path).timed == "one library call for the top 4, 3 search threads; build on 2 threads"


def test_runs_of_format_1_can_be_saved_in_the_new_one(tmp_path):
    run = load_run(FORMAT_ONE)
    save_run(run, tiny_dataset(20, 3), tmp_path)
    assert_same_run(load_run(tmp_path), dataclasses.replace(run, checked=True))


FORMAT_TWO = Path(__file__).parent / "format-2"


def test_runs_of_format_2_are_still_read_without_values_of_single_queries():
    run = load_run(FORMAT_TWO)
    assert (run.dataset, run.begun, len(run.planned)) == ("tiny é", "2026-01-02T03:04:05Z", 3)
    assert (run.failures[0].log, run.cautions[0].kind) == ("the end\nof the log", "drift")
    first, second = run.measurements
    assert first.trial == make_measurement(0).trial
    assert len(second.others) == 2
    assert second.answers.tolist() == make_measurement(2).answers.tolist()
    assert second.score.per_query == {}


@pytest.mark.parametrize("number", [1, 2])
def test_what_older_formats_do_not_check_is_said_by_commands(number, tmp_path):
    folder = shutil.copytree(Path(__file__).parent / f"format-{number}", tmp_path / "run")
    assert not load_run(folder).checked
    shown = recallatk("show", folder)
    assert shown.stdout.count("has no checksums") == 1
    assert json.loads(recallatk("show", folder, "--json").stdout)["checked"] is False
    assert recallatk("report", folder).returncode == 0
    assert "has no checksums" in (folder / "report.html").read_text()
    save_run(make_run(), tiny_dataset(20, 3), tmp_path / "new")
    assert "has no checksums" not in recallatk("show", tmp_path / "new").stdout
    assert json.loads(recallatk("show", tmp_path / "new", "--json").stdout)["checked"] is True


@pytest.mark.parametrize("number", [1, 2])
def test_a_run_of_an_older_format_is_replaced_but_not_resumed(number, tmp_path):
    folder = shutil.copytree(Path(__file__).parent / f"format-{number}", tmp_path / "run")
    run = dataclasses.replace(make_run(trials=0), planned=(make_measurement(0).trial,))
    before = {each.name: each.read_bytes() for each in folder.iterdir()}
    said = rf"run\.json: run format {number} can be read but not resumed.*--out.*--fresh"
    with pytest.raises(MismatchError, match=said):
        RunFolder.open(folder, run, tiny_dataset(20, 3))
    data = tmp_path / "data.npy"
    np.save(data, np.eye(30, dtype="float32"))
    ran = recallatk("run", data, data, "--metric", "l2", "--engine", "exact", "--at", 1, "--out", folder)
    assert ran.returncode == 2
    assert f"run.json: run format {number} can be read but not resumed. " in ran.stderr
    assert {each.name: each.read_bytes() for each in folder.iterdir()} == before
    with RunFolder.open(folder, run, tiny_dataset(20, 3), fresh=True) as opened:
        assert len(opened.finished) == 0
    assert [each.name for each in folder.iterdir()] == ["run.json"]


def test_files_of_other_people_are_not_written_over(tmp_path):
    run, dataset = make_run(), tiny_dataset(20, 3)
    (tmp_path / "run.json").write_text('{"my": "own"}')
    with pytest.raises(UsageError, match=r"run\.json: not a file of a run, but the run would overwrite it"):
        save_run(run, dataset, tmp_path)
    (tmp_path / "run.json").unlink()
    pq.write_table(pa.table({"mine": [1]}), tmp_path / "trial-2.parquet")
    with pytest.raises(UsageError, match=r"trial-2\.parquet: not a file of a run"):
        save_run(run, dataset, tmp_path)
    save_run(make_run(1), dataset, tmp_path)
    assert len(load_run(tmp_path).measurements) == 1
    assert pq.read_table(tmp_path / "trial-2.parquet").to_pydict() == {"mine": [1]}


def test_trials_of_another_run_are_not_read_with_this_one(tmp_path):
    save_run(make_run(queries=3), tiny_dataset(20, 3), tmp_path / "one")
    save_run(make_run(queries=4), tiny_dataset(20, 4), tmp_path / "other")
    shutil.copy(tmp_path / "other" / "trial-2.parquet", tmp_path / "one" / "trial-3.parquet")
    with pytest.raises(FormatError, match=r"trial-3\.parquet: the file belongs to another run"):
        load_run(tmp_path / "one")
