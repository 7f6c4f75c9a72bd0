"""Weights from the command line to the report: `run`, `tune`, `report` and the run folder."""

import csv
import json
import re
import shlex

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from recallatk import load_run, make_corpus, make_queries, measure, open_dataset, tune
from recallatk.analysis.betting import lower_bound
from recallatk.cli import app
from recallatk.goals.runs import run_verdict
from recallatk.reporting import export, run_to_dict

ROWS, COUNT = 400, 90
RANDOM = np.random.default_rng(5)
CORPUS = RANDOM.normal(size=(ROWS, 8)).astype("float32")
QUERIES = RANDOM.normal(size=(COUNT, 8)).astype("float32")
COUNTS = RANDOM.permutation((300 / np.arange(1, COUNT + 1)).round().astype(int) + 1)
KINDS = ["a", "b", "c"] * (COUNT // 3)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("weighted")
    corpus = {"vector": list(CORPUS), "source": ["x", "y"] * (ROWS // 2)}
    pq.write_table(pa.table(corpus), place / "corpus.parquet")
    queries = {"vector": list(QUERIES), "count": COUNTS.tolist(), "kind": KINDS}
    pq.write_table(pa.table(queries), place / "queries.parquet")
    (place / "bench.toml").write_text(
        'name = "weighted"\n[data]\ncorpus = "corpus.parquet"\nqueries = "queries.parquet"\nmetric = "l2"\n'
        '[measure]\nat = [10]\nrounds = 1\nby_row = ["source"]\n'
        'weight = "count"\nby = ["query frequency", "kind"]\n'
        '[tune]\ntarget = ["recall@10 >= 0.2", "p5(recall@10) >= 0.1"]\n'
        '[[engine]]\nname = "faiss-ivf-flat"\nbuild = {nlist = 8}\nsearch = {nprobe = [1, 8]}\n'
    )
    return place


def run_here(folder, *arguments):
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        ran = CliRunner().invoke(app, [str(each) for each in arguments])
    assert ran.exception is None or isinstance(ran.exception, SystemExit), ran.exception
    return ran


@pytest.fixture(scope="module")
def ran(folder):
    found = run_here(folder, "run", "bench.toml", "--json")
    assert found.exit_code == 0, found.output
    return json.loads(found.stdout)


@pytest.fixture(scope="module")
def stored(folder, ran):
    return load_run(folder / ran["out"])


def test_a_run_is_weighted_and_read_back(ran, stored):
    effective = COUNTS.sum() ** 2 / (COUNTS**2).sum()
    assert ran["weight"] == {"column": "count", "effective_queries": pytest.approx(effective)}
    for trial, measurement in zip(ran["trials"], stored.measurements, strict=True):
        values = measurement.score.per_query["recall@10"]
        mean = trial["measures"]["recall@10"]
        assert mean["value"] == pytest.approx(np.average(values, weights=COUNTS))
        assert mean["unweighted"] == pytest.approx(values.mean())
        assert mean["effective_queries"] == pytest.approx(effective)
        assert measurement.score.weights.column == "count"
        np.testing.assert_array_equal(measurement.score.weights.values, COUNTS)
        assert measurement.score.measures["recall@10"].unweighted == pytest.approx(values.mean())


def test_goals_are_decided_by_the_weighted_bound(stored):
    verdict = run_verdict(stored)
    recall, tail = verdict.goals
    number = verdict.trial - 1
    values = stored.measurements[number].score.per_query["recall@10"]
    weights = COUNTS.astype(float)
    assert recall.value == pytest.approx(np.average(values, weights=weights))
    assert recall.low == pytest.approx(lower_bound(values, weights=weights))
    order = np.argsort(values)
    below = np.cumsum(weights[order]) / weights.sum()
    assert tail.value == values[order][np.searchsorted(below, 0.05)]
    assert tail.low <= tail.value <= tail.high


def test_the_terminal_and_the_report_say_what_means_are_weighted_by(folder, ran):
    shown = run_here(folder, "show", ran["out"])
    said = " ".join(shown.stdout.split())
    assert "weighted by count" in said and "unweighted" in said
    assert "All means are weighted by count: the 90 queries are worth" in said
    # Findings of the linter do not hide the caution.
    assert "caution: a few queries carry the weighted mean" in said
    made = run_here(folder, "report", ran["out"], "--markdown", "report.md", "--out", "report.html")
    assert made.exit_code == 0, made.output
    page = (folder / "report.html").read_text()
    assert "weighted by count" in page and "head (half of the weight)" in page
    assert "weighted by count" in (folder / "report.md").read_text()


def test_gains_from_effort_are_weighted(ran, stored):
    frequency, kind = ran["segments"]
    assert frequency["by"] == "query frequency"
    low, high = (each.values("recall@10") for each in stored.measurements)
    gains, overall = high - low, kind["gains"]["overall"]
    assert overall["value"] == pytest.approx(np.average(gains, weights=COUNTS))
    assert overall["unweighted"] == pytest.approx(gains.mean())
    assert overall["effective_queries"] == pytest.approx(COUNTS.sum() ** 2 / (COUNTS**2).sum())
    assert -1 <= overall["low"] < overall["value"] < overall["high"] <= 1
    assert len(kind["gains"]["segments"]) == 3
    for each in kind["gains"]["segments"]:
        inside = np.array(KINDS) == each["name"]
        assert each["value"] == pytest.approx(np.average(gains[inside], weights=COUNTS[inside]))


def test_shares_by_corpus_row_are_weighted(folder, ran, stored):
    (rows,) = ran["by_row"]
    recalls = [each.score.measures["recall@10"] for each in stored.measurements]
    # Every query has ten true neighbors, so the share of all neighbors is recall.
    (recall,) = [each for each in recalls if each.unweighted == pytest.approx(rows["found"]["unweighted"])]
    assert rows["found"]["value"] == pytest.approx(recall.value)
    assert rows["found"]["effective_queries"] == pytest.approx(recall.effective)
    said = " ".join(run_here(folder, "show", ran["out"]).stdout.split())
    assert "Shares of neighbors are weighted by count" in said


def test_tables_have_the_unweighted_value_and_the_effective_number(folder, stored):
    export(stored, "csv", folder / "run.csv")
    export(stored, "parquet", folder / "run.parquet")
    with (folder / "run.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    typed = pq.read_table(folder / "run.parquet").to_pylist()
    for row, cells, measurement in zip(rows, typed, stored.measurements, strict=True):
        mean = measurement.score.measures["recall@10"]
        assert float(row["recall@10_unweighted"]) == cells["recall@10_unweighted"] == mean.unweighted
        effective = cells["recall@10_effective_queries"]
        assert float(row["recall@10_effective_queries"]) == effective == mean.effective


def test_groups_by_frequency_are_refused_without_weights(folder):
    given = ("corpus.parquet", "queries.parquet", "--metric", "l2", "--engine", "exact", "--out", "none")
    refused = run_here(folder, "run", *given, "--by", "query frequency")
    assert refused.exit_code == 2 and "--weight COLUMN" in refused.stderr
    assert not (folder / "none").exists()


def test_a_report_weights_an_unweighted_run_anew(folder, ran):
    changed = (
        (folder / "bench.toml")
        .read_text()
        .replace('weight = "count"\nby = ["query frequency", "kind"]\n', "")
    )
    (folder / "plain.toml").write_text(changed.replace('"weighted"', '"plain"'))
    plain = json.loads(run_here(folder, "run", "plain.toml", "--json").stdout)
    assert "weight" not in plain
    assert "unweighted" not in plain["trials"][0]["measures"]["recall@10"]
    found = run_here(folder, "report", plain["out"], "--weight", "count", "--out", "again.html")
    assert found.exit_code == 0, found.output
    assert "weighted by count" in (folder / "again.html").read_text()
    assert "a few queries carry the weighted mean" in (folder / "again.html").read_text()
    refused = run_here(folder, "report", plain["out"], "--weight", "kind", "--out", "again.html")
    assert refused.exit_code == 2 and "has type string" in refused.stderr


def test_a_run_with_other_weights_is_not_resumed(folder, ran):
    refused = run_here(folder, "run", "bench.toml", "--weight", "other", "--out", ran["out"])
    assert refused.exit_code == 2
    assert "other" in refused.stderr


def test_weights_for_a_finished_run_are_refused_with_the_command_that_weights_it(folder):
    words = ("corpus.parquet", "queries.parquet", "--metric", "l2", "--engine", "exact", "--at", "10")
    finished = run_here(folder, "run", *words, "--rounds", "1", "--out", "finished run")
    assert finished.exit_code == 0, finished.output
    refused = run_here(folder, "run", *words, "--rounds", "1", "--out", "finished run", "--weight", "count")
    assert refused.exit_code == 2
    command = re.search(r"To weight the means of the finished trials: recallatk (.+?)\. ", refused.stderr)
    assert command is not None and "--fresh" in refused.stderr
    again = run_here(folder, *shlex.split(command[1]))
    assert again.exit_code == 0, again.output
    assert "weighted by count" in (folder / "finished run" / "report.html").read_text()
    # Weights are not the only difference: a report would not be what was asked for.
    other = run_here(folder, "run", *words, "--rounds", "2", "--out", "finished run", "--weight", "count")
    assert other.exit_code == 2 and "recallatk report" not in other.stderr


def test_an_unknown_column_is_refused_before_anything_is_built(folder):
    given = ("corpus.parquet", "queries.parquet", "--metric", "l2", "--engine", "exact", "--weight", "counts")
    refused = run_here(folder, "run", *given, "--out", "none")
    assert refused.exit_code == 2 and "did you mean count" in refused.stderr.lower()


def test_measure_takes_a_weight():
    data = open_dataset(
        {"vector": list(CORPUS)}, {"vector": list(QUERIES), "count": COUNTS.tolist()}, metric="l2"
    )
    found = measure("exact", data, at=10, rounds=1, weight="count")
    (only,) = found.measurements
    assert only.score.measures["recall@10"].effective == pytest.approx(COUNTS.sum() ** 2 / (COUNTS**2).sum())
    assert only.score["recall@10"] == 1.0
    assert [each.kind for each in found.cautions if each.kind == "weights"] == ["weights"]


def test_tuning_decides_by_weighted_means(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    counts = (RANDOM.random(240) * 3 + 1).round(2)
    queries = {"vector": list(RANDOM.normal(size=(240, 8)).astype("float32")), "count": counts.tolist()}
    data = open_dataset({"vector": list(CORPUS)}, queries, metric="l2")
    found = tune(data, target="recall@10 >= 0.6", engines=["faiss-ivf-flat"], weight="count", out=tmp_path)
    assert found.met and found.weight == "count"
    mean = found.choice.measures["recall@10"]
    assert mean.unweighted is not None and mean.effective < mean.n
    assert mean.effective == pytest.approx(found.effective_queries)
    assert found.validated["recall@10"].effective is not None
    assert found.choice.bound >= 0.6
    assert "weighted by count" in " ".join(str(found).split())
    from recallatk.reporting.tuned_file import tuned_from_dict, tuned_to_dict

    written = tuned_to_dict(found)
    assert written["weight"]["column"] == "count"
    again = tuned_from_dict(written)
    assert (again.weight, again.choice.measures["recall@10"]) == ("count", mean)
    with pytest.raises(Exception, match="counts"):
        tune(data, target="recall@10 >= 0.6", engines=["faiss-ivf-flat"], weight="counts")


def test_unscored_queries_have_no_part_in_the_effective_number(tmp_path, monkeypatch):
    filters = ["size < 0" if place < 30 else None for place in range(COUNT)]
    # The queries that no row is eligible for are the heavy ones.
    counts = [1000 + place if place < 30 else 1 + place % 2 for place in range(COUNT)]
    queries = {"vector": list(QUERIES), "count": counts, "filter": filters}
    pq.write_table(pa.table({"vector": list(CORPUS), "size": list(range(ROWS))}), tmp_path / "corpus.parquet")
    pq.write_table(pa.table(queries), tmp_path / "queries.parquet")
    data = ("corpus.parquet", "queries.parquet", "--metric", "l2")
    words = ("--engine", "exact", "--at", "10", "--rounds", "1", "--weight", "count", "--out", "out")
    scored = np.array(counts[30:], float)
    effective = scored.sum() ** 2 / (scored**2).sum()
    ran = run_here(tmp_path, "run", *data, *words)
    assert ran.exit_code == 0, ran.output
    assert f"the 60 queries are worth {effective:.3g} of equal weight" in " ".join(ran.stdout.split())
    described = json.loads(run_here(tmp_path, "show", "out", "--json").stdout)
    assert described["weight"]["effective_queries"] == pytest.approx(effective)
    assert "weights" not in [each["kind"] for each in described["cautions"]]
    goal = ("--target", "recall@10 >= 0.5", "--engine", "exact", "--weight", "count", "--out", "tuned")
    tuned = run_here(tmp_path, "tune", *data, *goal, "--json")
    assert tuned.exit_code in (0, 3), tuned.output
    assert 30 < json.loads(tuned.stdout)["weight"]["effective_queries"] <= 60


def test_recall_by_selectivity_has_the_unweighted_value():
    queries = make_queries(
        QUERIES, metadata={"count": COUNTS.tolist()}, filters=[None, "size < 40", "size < 200"] * (COUNT // 3)
    )
    data = open_dataset(make_corpus(CORPUS, metadata={"size": list(range(ROWS))}), queries, metric="l2")
    found = measure("exact", data, at=10, rounds=1, weight="count")
    groups = run_to_dict(found)["trials"][0]["filters"]["by_selectivity"]
    assert len(groups) == 2
    for each in groups:
        assert each["recall"]["unweighted"] == 1.0
        assert 0 < each["recall"]["effective_queries"] < each["recall"]["n"]
