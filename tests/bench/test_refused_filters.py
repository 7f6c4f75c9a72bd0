"""Filters that an engine refuses cost only their queries, visibly and never silently."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from commands import recallatk
from recallatk import load_run, measure, open_dataset
from recallatk.reporting.charts.points import curve_of

pytestmark = pytest.mark.usefixtures("faulty")
REFUSED = "the column rare has no index"


def vectors_of(random, rows):
    return pa.FixedSizeListArray.from_arrays(pa.array(random.normal(size=rows * 8).astype("float32")), 8)


@pytest.fixture
def files(tmp_path):
    """A corpus with metadata, and 60 queries: 20 without a filter, 20 filters on each of two columns."""
    random = np.random.default_rng(5)
    columns = {"kind": random.integers(0, 3, 500), "rare": random.integers(0, 40, 500)}
    corpus, queries = tmp_path / "corpus.parquet", tmp_path / "queries.parquet"
    pq.write_table(pa.table({"vector": vectors_of(random, 500), **columns}), corpus)
    filters = [None, "kind = 1", "rare < 9"] * 20
    pq.write_table(pa.table({"vector": vectors_of(random, 60), "filter": filters}), queries)
    return corpus, queries


@pytest.fixture
def run_with(files, tmp_path):
    """A function that measures engines from a bench file; the finished command, and the run folder."""

    def run(*tables, engines=("exact", "picky"), options=()):
        path, folder = tmp_path / "bench.toml", tmp_path / "run"
        path.write_text(
            f'name = "b"\n[data]\ncorpus = "{files[0]}"\nqueries = "{files[1]}"\nmetric = "l2"\n'
            f'[truth]\nstore = "{tmp_path / "store"}"\n[output]\nfolder = "{folder}"\n'
            "[measure]\nat = [5]\nrounds = 2\n"
            + "\n".join(tables)
            + "\n"
            + "\n".join(f'[[engine]]\nname = "{each}"' for each in engines)
        )
        return recallatk("run", path, *options, cwd=tmp_path), folder

    return run


def test_refused_queries_are_counted_and_left_out_of_every_form(run_with):
    loads = '[[load]]\nmode = "latency"\n[[load]]\nmode = "throughput"\nbatch = 8\n'
    rate = '[[load]]\nmode = "rate"\nrate = 2000\nseconds = 0.1'
    ran, folder = run_with('[tune]\ntarget = "recall@5 >= 0.5"', loads, rate)
    assert ran.returncode == 0, ran.stderr
    run = load_run(folder)
    assert not run.failures and len(run.measurements) == 6
    for each in run.measurements:
        if each.trial.engine == "exact":
            assert each.refused is None
        else:
            assert np.array_equal(each.refused.refused, np.arange(60) % 3 == 2)
            assert not each.asked[each.refused.refused].any()
            assert [(one.filter, one.queries, one.reason) for one in each.refused.filters] == [
                ("rare < 9", 20, REFUSED)
            ]
            assert each.score.measures["recall@5"].n <= 40
    assert "picky: means not comparable, 20 of 60 queries refused." in ran.stdout
    rows = [line.split() for line in ran.stdout.splitlines()]
    assert any(row[:2] == ["*", "exact"] for row in rows)
    assert not any(row[:2] == ["*", "picky"] for row in rows), "its recall is over other queries"
    points = {each["engine"]: each for each in curve_of(run).main}
    assert points["exact"]["latencyFront"] and not points["picky"]["latencyFront"]
    assert "refused" in next(line for line in ran.stdout.splitlines() if "recall@5" in line and "QPS" in line)
    [caution] = [each for each in run.cautions if each.kind == "refused filters"]
    assert "answered different queries" in caution.message and caution.value == 20
    for name in ("report.md", "report.html"):
        text = (folder / name).read_text()
        assert "20 of 60 queries refused" in text and REFUSED in text and "answered different queries" in text
    shown = json.loads(recallatk("show", folder, "--json").stdout)
    by_engine = {each["engine"]: each["refused"] for each in shown["trials"]}
    assert by_engine["exact"] == {"queries": 0, "filters": 0, "reasons": []}
    assert by_engine["picky"] == {
        "queries": 20,
        "filters": 1,
        "reasons": [{"filter": "rare < 9", "queries": 20, "reason": REFUSED}],
    }
    stored = json.loads((folder / "run.json").read_text())
    assert stored["format_version"] == 4
    assert [each["refused"] for each in stored["trials"] if each["engine"] == "exact"] == [None] * 3
    assert REFUSED in recallatk("show", folder, "--verbose").stdout
    exported = recallatk("export", folder, "--to", "csv", "--out", folder / "run.csv")
    assert exported.returncode == 0 and "refused_queries" in (folder / "run.csv").read_text()


def test_the_verdict_prefers_an_engine_that_answers_all_and_names_refusals_otherwise(run_with):
    ran, folder = run_with('[tune]\ntarget = "recall@5 >= 0.5"')
    assert ran.stdout.startswith("Met") and "exact: recall@5" in ran.stdout.splitlines()[0]
    alone, _ = run_with('[tune]\ntarget = "recall@5 >= 0.5"', engines=("picky",), options=("--fresh",))
    assert "20 of 60 queries refused because of their filters" in " ".join(alone.stdout.split())
    assert "(over answered queries; 20 of 60 queries refused)" in " ".join(alone.stdout.split())
    goal = json.loads(recallatk("show", folder, "--json").stdout)["verdict"]["goals"][0]
    assert goal["outcome"] == "met" and goal["note"] == "over answered queries; 20 of 60 queries refused"
    assert "answered different queries" not in alone.stdout


def test_an_engine_that_cannot_filter_is_measured_on_queries_without_filters(run_with):
    ran, folder = run_with(engines=("exact", "faiss-nsg"))
    assert ran.returncode == 0, ran.stderr
    found = {each.trial.engine: each for each in load_run(folder).measurements}
    assert found["faiss-nsg"].refused.queries == 40
    assert "faiss-nsg cannot filter during search" in found["faiss-nsg"].refused.filters[0].reason
    assert found["faiss-nsg"].score.measures["recall@5"].n == 20


def test_an_engine_that_refuses_every_query_fails_with_the_reason(files):
    dataset = open_dataset(*files, metric="l2", where="rare < 9")
    run = measure("exact", dataset, at=[5], rounds=1)
    assert run.measurements[0].refused is None
    with pytest.raises(Exception, match=f"refused in search: 60 of 60 queries refused: rare < 9: {REFUSED}"):
        measure("picky", dataset, at=[5], rounds=1)


def test_the_same_holds_in_this_process(files):
    from recallatk.adapters.exact import Exact

    class Choosy(Exact):
        """Not registered, so searched in this process."""

        name = "choosy"

        def refusal(self, condition):
            return REFUSED if "rare" in condition.columns() else None

    [found] = measure(Choosy, open_dataset(*files, metric="l2"), at=[5], rounds=1).measurements
    assert found.refused.queries == 20 and found.score.measures["recall@5"].n == 40


def test_tuning_leaves_an_engine_out_that_refuses_a_query(files, tmp_path):
    options = ("--metric", "l2", "--target", "recall@5 >= 0.5", "--engine", "exact", "--engine", "picky")
    ran = recallatk("tune", *files, *options, "--out", tmp_path / "tuned", cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert "picky was left out: 20 of 60 queries refused: rare < 9" in ran.stdout
    tuned = json.loads((tmp_path / "tuned" / "tuned.json").read_text())
    assert tuned["choice"]["engine"] == "exact"
    assert {each["verdict"] for each in tuned["attempts"] if each["engine"] == "picky"} == {"refused"}
    alone = recallatk("tune", *files, *options[:4], "--engine", "picky", cwd=tmp_path)
    assert alone.returncode == 1 and REFUSED in " ".join(alone.stdout.split())
