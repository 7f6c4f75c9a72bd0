"""What is exported can be read by others, and says the same."""

import csv
import dataclasses
import json

import h5py
import numpy as np
import pyarrow.parquet as pq
import pytest
from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader
from hypothesis import given
from hypothesis import strategies as st
from made_runs import HOSTILE, large_run, make_calls, make_measurement, make_run, scored_run, varied_run

from recallatk.analysis import score
from recallatk.core import Load, Metric, Trial
from recallatk.datasets import read_answers
from recallatk.errors import MismatchError, UsageError
from recallatk.reporting import export, run_to_dict
from recallatk.reporting.exports.hdrhistogram import _bucketed
from recallatk.reporting.exports.tabular import inert


def csv_rows(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def hostile_run():
    trial = Trial(f"=1+1{HOSTILE}", (("@x", "-2+3"),), (("\ud800", "+cmd|' /C calc'!A0"),))
    return make_run([make_measurement(trial, evidence="\t=1", version="=1")], dataset=HOSTILE)


def test_an_unknown_format_is_refused_with_the_known_ones(tmp_path):
    with pytest.raises(UsageError, match="parquet"):
        export(varied_run(), "xlsx", tmp_path / "run.xlsx")


@pytest.mark.parametrize("to", ["csv", "json", "parquet", "hdrhistogram"])
def test_an_export_replaces_its_file_and_leaves_nothing_else(to, tmp_path):
    out = tmp_path / "out" / "file"
    for _ in range(2):
        assert export(varied_run(), to, out).files == (out,)
    assert [each.name for each in out.parent.iterdir()] == ["file"]


@pytest.mark.parametrize("make", [lambda: large_run(1), large_run, varied_run, lambda: make_run([])])
def test_csv_has_a_row_for_each_trial(make, tmp_path):
    run = make()
    export(run, "csv", tmp_path / "run.csv")
    rows = csv_rows(tmp_path / "run.csv")
    trials = run_to_dict(run)["trials"]
    assert len(rows) == len(trials)
    for row, trial in zip(rows, trials, strict=True):
        assert (row["engine"], row["status"]) == (trial["engine"], trial["status"])
        if trial["status"] == "done":
            assert float(row["recall@10"]) == trial["measures"]["recall@10"]["value"]
            assert float(row["p50_ms"]) == trial["latency_ms"]["p50"]
            assert row["p99.9_ms"] == ""
            assert float(row["qps"]) == trial["qps"]
            assert row["pareto"] == str(trial["pareto"]).lower()
        else:
            assert row["recall@10"] == row["qps"] == ""


def test_csv_tells_loads_and_failures(tmp_path):
    export(varied_run(), "csv", tmp_path / "run.csv")
    rows = csv_rows(tmp_path / "run.csv")
    assert (rows[6]["load.clients"], rows[6]["load.via"]) == ("4", "processes")
    assert rows[11]["failure_message"] == "ended with signal SIGSEGV"
    assert rows[3]["build.M"] == "32"


def test_no_cell_of_csv_is_a_formula(tmp_path):
    export(hostile_run(), "csv", tmp_path / "run.csv")
    with (tmp_path / "run.csv").open(newline="", encoding="utf-8") as file:
        header, row = csv.reader(file)
    texts = dict(zip(header, row, strict=True))
    assert not [cell for cell in [*header, *row] if cell.lstrip().startswith(("=", "+", "-", "@"))]
    assert texts["engine"] == f"'=1+1{HOSTILE}"
    assert texts["build.@x"] == "'-2+3"
    assert texts["evidence"] == "'\t=1"


@given(st.text(max_size=5))
def test_text_is_kept_behind_the_apostrophe(text):
    assert inert(text) in (text, f"'{text}")
    assert not inert(text).lstrip().startswith(("=", "+", "-", "@"))


def test_negative_numbers_stay_numbers(tmp_path):
    export(make_run([make_measurement(Trial("e", (("a", -5),), ()))]), "csv", tmp_path / "run.csv")
    assert csv_rows(tmp_path / "run.csv")[0]["build.a"] == "-5"


def test_json_is_what_show_prints(tmp_path):
    export(varied_run(), "json", tmp_path / "run.json")
    assert json.loads((tmp_path / "run.json").read_text()) == run_to_dict(varied_run())


def test_parquet_has_typed_columns_and_the_run_beside_them(tmp_path):
    run = varied_run()
    export(run, "parquet", tmp_path / "run.parquet")
    table = pq.read_table(tmp_path / "run.parquet")
    assert table.num_rows == 13
    kinds = {name: str(table.schema.field(name).type) for name in table.column_names}
    assert (kinds["recall@10"], kinds["build.M"], kinds["pareto"]) == ("double", "int64", "bool")
    assert (kinds["engine"], kinds["p99.9_ms"], kinds["calls"]) == ("string", "double", "int64")
    assert table["recall@10"].to_pylist()[:2] == [0.70, 0.93]
    assert table["recall@10"].to_pylist()[-2:] == [None, None]
    about = json.loads(table.schema.metadata[b"recallatk.run"])
    assert about["environment"]["cores"] == 2


@pytest.mark.parametrize("make", [hostile_run, large_run, lambda: make_run([])])
def test_parquet_takes_whatever_a_run_holds(make, tmp_path):
    export(make(), "parquet", tmp_path / "run.parquet")
    assert pq.read_table(tmp_path / "run.parquet").num_rows == len(make().measurements)


def test_a_parameter_that_is_a_number_here_and_a_word_there_is_text(tmp_path):
    values = (8, "auto", 0.5, 10**30, True)
    run = make_run(make_measurement(Trial(f"e{n}", (("M", value),), ())) for n, value in enumerate(values))
    export(run, "parquet", tmp_path / "run.parquet")
    found = pq.read_table(tmp_path / "run.parquet")["build.M"].to_pylist()
    assert found == ["8", "auto", "0.5", str(10**30), "True"]


def histograms(path):
    reader = HistogramLogReader(str(path), HdrHistogram(1, 2, 3))
    found = []
    while (each := reader.get_next_interval_histogram()) is not None:
        found.append(each)
    reader.close()
    return found


@pytest.mark.parametrize("run", [varied_run(), large_run(1)], ids=["varied", "one"])
def test_an_hdrhistogram_log_has_the_percentiles_of_every_trial(run, tmp_path):
    export(run, "hdrhistogram", tmp_path / "run.hlog")
    found = histograms(tmp_path / "run.hlog")
    assert len(found) == len(run.measurements)
    assert len({each.get_tag() for each in found}) == len(found)
    for histogram, measurement in zip(found, run.measurements, strict=True):
        latency = np.sort(measurement.calls.latency_ns)
        assert histogram.get_total_count() == len(latency)
        for percent in (50, 90, 99, 100):
            # The library rounds ranks to the nearest.
            exact = latency[int(percent / 100 * len(latency) + 0.5) - 1]
            assert histogram.get_value_at_percentile(percent) == pytest.approx(exact, rel=1e-3)


def test_an_hdrhistogram_log_obeys_no_name_and_knows_when_it_began(tmp_path):
    done = export(hostile_run(), "hdrhistogram", tmp_path / "run.hlog")
    assert done.notes == ()
    lines = (tmp_path / "run.hlog").read_text().split("\n")
    assert all(each.isprintable() for line in lines for each in line)
    assert len([line for line in lines if line.startswith("Tag=")]) == 1
    assert len(histograms(tmp_path / "run.hlog")) == 1
    export(varied_run(), "hdrhistogram", tmp_path / "run.hlog")
    (start,) = [line for line in (tmp_path / "run.hlog").read_text().split("\n") if "StartTime:" in line]
    assert "1767323045.000" in start


@pytest.mark.parametrize(
    ("begun", "seconds"), [("2026-01-02T03:04:05", "1767323045.000"), ("soon", "0.000"), (None, "0.000")]
)
def test_a_run_that_began_nobody_knows_when_begins_at_0(begun, seconds, tmp_path):
    export(varied_run(begun=begun), "hdrhistogram", tmp_path / "run.hlog")
    assert f"StartTime: {seconds} " in (tmp_path / "run.hlog").read_text()


@given(st.lists(st.integers(0, 2**45), min_size=1, max_size=50))
def test_values_of_one_bucket_are_one_value(values):
    histogram = HdrHistogram(1, 2**46, 3)
    for before, after in zip(values, _bucketed(np.array(values), 2048).tolist(), strict=True):
        assert histogram.get_lowest_equivalent_value(before) == after


def test_a_latency_of_hours_is_counted(tmp_path):
    made = make_measurement(Trial("slow", (), ()))
    calls = make_calls(np.array([[0, 1, 10**13]]))
    export(make_run([dataclasses.replace(made, calls=calls)]), "hdrhistogram", tmp_path / "run.hlog")
    (histogram,) = histograms(tmp_path / "run.hlog")
    assert histogram.get_total_count() == 3
    assert histogram.get_value_at_percentile(100) == pytest.approx(10**13, rel=1e-3)


LOADS = (Load(), Load("throughput", batch=8), Load("throughput", clients=2), Load("rate", rate=10.0))


@pytest.mark.parametrize("metric", [Metric.COSINE, Metric.L2])
def test_ann_benchmarks_results_read_back_to_the_same_recall(metric, tmp_path):
    run, dataset, truth = scored_run(metric, LOADS)
    done = export(run, "ann-benchmarks-hdf5", tmp_path / "results", dataset)
    assert len(done.files) == 2
    assert "2 trials" in done.notes[0]
    for path, measurement in zip(done.files, run.measurements, strict=False):
        again = score(truth, read_answers(path), (1, 10), row_numbers=True)
        for name, mean in measurement.score.measures.items():
            assert again.measures[name].value == mean.value
        assert 0.2 < again["recall@10"] < 1


@pytest.mark.parametrize("metric", [Metric.COSINE, Metric.L2])
def test_ann_benchmarks_distances_are_as_that_tool_defines_them(metric, tmp_path):
    run, dataset, _ = scored_run(metric)
    (path,) = export(run, "ann-benchmarks-hdf5", tmp_path / "results", dataset).files
    corpus, queries = (
        each.vectors.read(0, each.rows).astype(float) for each in (dataset.corpus, dataset.queries)
    )
    with h5py.File(path) as file:
        neighbors, distances = file["neighbors"][:], file["distances"][:]
        assert file.attrs["distance"] == {"cosine": "angular", "l2": "euclidean"}[metric]
    for query, row, distance in zip(
        np.repeat(queries, 10, axis=0), neighbors.flat, distances.flat, strict=True
    ):
        if row < 0:
            assert distance == np.inf
        elif metric is Metric.L2:
            assert distance == pytest.approx(np.linalg.norm(query - corpus[row]), rel=1e-5)
        else:
            norms = np.linalg.norm(query) * np.linalg.norm(corpus[row])
            assert distance == pytest.approx(1 - query @ corpus[row] / norms, abs=1e-6)
    assert (neighbors == -1).sum() == 5


def test_ann_benchmarks_files_have_what_the_tool_looks_for(tmp_path):
    run, dataset, _ = scored_run(loads=LOADS)
    single, batch = export(run, "ann-benchmarks-hdf5", tmp_path / "results", dataset).files
    assert single.relative_to(tmp_path).parts[:4] == ("results", "made", "10", "engine")
    assert batch.parent.name == "engine-batch"
    with h5py.File(single) as file:
        found = dict(file.attrs)
        times = file["times"][:]
        assert (file["times"].dtype, file["neighbors"].dtype, file["distances"].dtype) == ("f4", "i4", "f4")
    # The first round is the faster one: 0.01 to 0.3 ms.
    assert times == pytest.approx(np.arange(1, 31) * 1e-5)
    assert found["best_search_time"] == pytest.approx(times.mean())
    assert (found["algo"], found["dataset"], found["count"], found["run_count"]) == ("engine", "made", 10, 2)
    assert found["build_time"] == 12.345
    assert found["index_size"] == pytest.approx(56_700_000 / 1024)
    assert found["candidates"] == pytest.approx(10 - 5 / 30)
    assert not found["batch_mode"]
    assert not found["expect_extra"]
    with h5py.File(batch) as file:
        assert file.attrs["batch_mode"]
        # Four calls of 0.01 to 0.04 ms for 30 queries: each has the mean, as the tool itself has it.
        assert file["times"][:] == pytest.approx(np.full(30, 1e-4 / 30))


def test_without_data_distances_are_not_known_and_that_is_said(tmp_path):
    run, _, truth = scored_run()
    done = export(run, "ann-benchmarks-hdf5", tmp_path / "results")
    assert "NaN" in done.notes[0]
    with h5py.File(done.files[0]) as file:
        assert np.isnan(file["distances"][1:]).all()
    again = score(truth, read_answers(done.files[0]), (10,), row_numbers=True)
    assert again["recall@10"] == run.measurements[0].score["recall@10"]


def test_queries_that_were_not_asked_have_no_time(tmp_path):
    run, dataset, _ = scored_run()
    few = dataclasses.replace(run.measurements[0], calls=make_calls(np.full((1, 5), 10**6)))
    none = dataclasses.replace(run.measurements[0], calls=make_calls(np.zeros((1, 0))))
    run = dataclasses.replace(run, measurements=(few, none))
    first, second = export(run, "ann-benchmarks-hdf5", tmp_path / "results", dataset).files
    with h5py.File(first) as file:
        assert np.isnan(file["times"][:]).sum() == 25
        assert file.attrs["best_search_time"] == pytest.approx(1e-3)
    with h5py.File(second) as file:
        assert np.isnan(file.attrs["best_search_time"])


def test_data_that_was_not_measured_is_refused(tmp_path):
    run, _, _ = scored_run()
    _, other, _ = scored_run(rows=70)
    with pytest.raises(MismatchError, match="vectors"):
        export(run, "ann-benchmarks-hdf5", tmp_path / "results", other)
    with pytest.raises(MismatchError, match="l2"):
        export(run, "ann-benchmarks-hdf5", tmp_path / "results", dataclasses.replace(other, metric=Metric.L2))
    assert not (tmp_path / "results").exists()


def test_inner_products_and_full_folders_are_refused(tmp_path):
    run, dataset, _ = scored_run(Metric.IP)
    with pytest.raises(UsageError, match="angular"):
        export(run, "ann-benchmarks-hdf5", tmp_path / "results", dataset)
    assert not (tmp_path / "results").exists()
    (tmp_path / "file").write_text("mine")
    with pytest.raises(UsageError, match="new folder"):
        export(scored_run()[0], "ann-benchmarks-hdf5", tmp_path)


def test_hostile_names_stay_within_the_folder(tmp_path):
    names = ("../../etc", "a/b", "..", HOSTILE, "x" * 1000, "\ud800", "")
    run, dataset, _ = scored_run()
    made = run.measurements[0]
    measured = [
        dataclasses.replace(made, trial=Trial(name, ((name, name),), ((name, name),))) for name in names
    ]
    for number, name in enumerate(names):
        hostile = dataclasses.replace(run, dataset=name, measurements=tuple(measured))
        folder = tmp_path / str(number)
        files = export(hostile, "ann-benchmarks-hdf5", folder, dataset).files
        assert len({*files}) == len(names)
        assert all(each.is_file() and each.resolve().is_relative_to(folder.resolve()) for each in files)
