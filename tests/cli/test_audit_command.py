"""`recallatk audit`: a bench file before it is measured, a run after it."""

import json
from dataclasses import replace

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from recallatk import bench
from recallatk.cli.audit import audit
from recallatk.cli.exits import guarded
from recallatk.core import Mean
from recallatk.datasets import open_dataset
from recallatk.errors import MismatchError
from recallatk.storage import load_run, save_run

app = typer.Typer(rich_markup_mode=None)
app.command()(guarded(audit))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Data of which half of the queries are rows, a bench file, and what was measured by it."""
    folder = tmp_path_factory.mktemp("audited")
    random = np.random.default_rng(0)
    rows = random.normal(size=(600, 8)).astype(np.float32)
    asked = np.concatenate([rows[:60], random.normal(size=(60, 8)).astype(np.float32)])
    np.save(folder / "corpus.npy", rows)
    np.save(folder / "queries.npy", asked)
    np.save(folder / "users.npy", random.normal(size=(120, 8)).astype(np.float32) + 3)
    write(folder)
    bench.run(folder / "bench.toml")
    return folder


def write(folder, name="bench.toml", more=""):
    text = f"""
        name = "audited"
        [data]
        corpus = "corpus.npy"
        queries = "queries.npy"
        metric = "l2"
        [truth]
        store = "{folder / "store"}"
        [measure]
        k = [1, 10]
        rounds = 2
        [output]
        folder = "run"
        [[engine]]
        name = "faiss-hnsw"
        [engine.search]
        ef = [10, 80]
        {more}
    """
    (folder / name).write_text("\n".join(line.strip() for line in text.splitlines()))
    return folder / name


def said(*arguments, code=0):
    ran = CliRunner().invoke(app, list(map(str, arguments)))
    assert ran.exit_code == code, ran.output
    return ran


def test_a_bench_file_is_audited_before_it_is_measured(folder):
    text = said(folder / "bench.toml").stdout
    assert "error R02: Queries are rows of the corpus: 60 of 120 queries (50.0%)" in text
    assert "The linter found" in text


def test_a_run_is_audited_with_its_data_and_truth(folder):
    found = json.loads(said(folder / "run", "--json").stdout)
    rules = {each["rule"]: each for each in found["findings"]}
    assert {"R01", "R02", "R26"} <= set(rules)
    assert rules["R26"]["measured"] == 240
    assert found["counts"]["error"] == 1
    assert said(folder / "run" / "run.json", "--json").stdout.count('"R02"') == 1


def test_strict_ends_with_1_where_there_is_an_error(folder):
    said(folder / "bench.toml", "--strict", code=1)
    said(folder / "run", "--strict", code=1)
    said(folder / "bench.toml")


def test_a_waived_error_is_shown_and_no_longer_counts(folder):
    waiver = '[[waive]]\nrule = "R02"\nreason = "half of our users paste rows"'
    path = write(folder, "waived.toml", waiver)
    assert "(waived: half of our users paste rows)" in said(path, "--strict").stdout


@pytest.mark.parametrize(
    ("rule", "words"), [("R99", "Accepted: R01 to R"), ("duplicates", "the code of a rule, such as R03")]
)
def test_a_waiver_of_no_rule_is_refused(folder, rule, words):
    path = write(folder, "strange.toml", f'[[waive]]\nrule = "{rule}"\nreason = "none"')
    assert words in said(path, code=2).stderr


def test_queries_are_held_against_production(folder):
    text = said(folder / "bench.toml", "--production", folder / "users.npy").stdout
    assert "error R06" in text


def test_a_target_that_is_out_of_reach_is_said(folder, tmp_path):
    assert "R24" not in said(folder / "run", "--target", "recall@10 ≥ 90%").stdout
    run = load_run(folder / "run")
    poor = [
        replace(each, score=replace(each.score, measures={"recall@10": Mean(0.5, 0.5, 120, 0.4, 0.6)}))
        for each in run.measurements
    ]
    data = open_dataset(folder / "corpus.npy", folder / "queries.npy", metric="l2")
    save_run(replace(run, measurements=tuple(poor)), data, tmp_path / "poor")
    found = said(tmp_path / "poor", "--target", "recall@10 ≥ 90%").stdout
    assert "R24: The target is out of reach" in found


@pytest.mark.parametrize("what", ["run", "bench.toml"])
def test_a_target_that_names_nothing_measurable_is_refused(folder, what):
    ran = said(folder / what, "--target", "banana >= 3", code=2)
    assert "no measure 'banana'. Accepted: recall@10 >= 0.95" in ran.stderr


def test_a_run_whose_data_are_gone_is_audited_as_far_as_it_goes_or_with_named_ones(folder, tmp_path):
    for name in ("corpus", "queries"):
        (tmp_path / f"{name}.npy").write_bytes((folder / f"{name}.npy").read_bytes())
    bench.run(write(tmp_path, more='[[waive]]\nrule = "R26"\nreason = "quick"'))
    (tmp_path / "corpus.npy").rename(tmp_path / "moved.npy")
    ran = said(tmp_path / "run")
    assert "rules that need the data are skipped: " in ran.stderr and "corpus.npy: no such file" in ran.stderr
    assert "(waived: quick)" in ran.stdout
    assert "R02" not in ran.stdout
    named = ("--corpus", tmp_path / "moved.npy", "--queries", tmp_path / "queries.npy")
    ran = said(tmp_path / "run", *named)
    assert ran.stderr == ""
    assert "R02" in ran.stdout
    other = ("--corpus", tmp_path / "queries.npy", "--queries", tmp_path / "queries.npy")
    assert "error R16" in said(tmp_path / "run", *other, "--strict", code=1).stdout
    assert "cannot be combined" in said(tmp_path / "bench.toml", *named, code=2).stderr


def test_what_is_no_run_is_one_line_and_code_2(tmp_path):
    assert "no run is here" in said(tmp_path, code=2).stderr
    assert "no such file" in said(tmp_path / "nowhere", code=2).stderr
    assert "no such file" in said(tmp_path / "nowhere.toml", code=2).stderr


def other_truth(folder, rows):
    """A bench file with a truth of another tool."""
    np.save(folder / "neighbors.npy", rows)
    text = (folder / "bench.toml").read_text()
    store = f'store = "{folder / "store"}"'
    (folder / "other.toml").write_text(text.replace(store, 'file = "neighbors.npy"'))
    return folder / "other.toml"


def nearest(folder):
    rows, asked = (np.load(folder / name).astype(float) for name in ("corpus.npy", "queries.npy"))
    return np.argsort(np.linalg.norm(asked[:, None] - rows, axis=2), axis=1, kind="stable")


def test_a_truth_that_was_filtered_after_the_search_is_an_error_and_cannot_be_measured(folder):
    found = nearest(folder)[:, :12]
    lists = [[row for row in line if row % 3] for line in found.tolist()]
    short = np.asarray([line + [-1] * (12 - len(line)) for line in lists])
    bench_file = other_truth(folder, short)
    text = said(bench_file, "--strict", code=1).stdout
    assert "error R18: The ground truth is wrong: of 120 queries checked" in text
    assert f"{len(lists[0])} for query 0, where the depth is 12 and 600 rows are eligible" in text
    with pytest.raises(MismatchError, match="incomplete truth: query 0 lists"):
        bench.run(bench_file, out=folder / "other run")


def test_a_k_beyond_the_depth_of_another_tools_truth_is_an_error(folder):
    bench_file = other_truth(folder, nearest(folder)[:, :5])
    text = said(bench_file, "--strict", code=1).stdout
    assert "R16: Truth, run and data do not match: k = 10 exceeds the depth of the truth, which is 5" in (
        text
    )
    assert "exceeds the depth" not in said(other_truth(folder, nearest(folder)[:, :10])).stdout


def test_a_truth_file_that_cannot_be_used_is_refused_and_not_passed_over(folder):
    bench_file = other_truth(folder, np.ones((3, 3, 3), np.int32))
    assert "neighbors.npy" in said(bench_file, code=2).stderr
