"""Flags that commands share: data, engine parameters, goals, price, and how much is printed."""

import csv
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from recallatk.bench.settings import read_settings
from recallatk.cli import app
from recallatk.cli.options import GivenOptions, engine_names, open_benchmark
from recallatk.cli.parameters import engine_parameters
from recallatk.errors import UsageError

ROWS, QUERIES = 400, 60
BENCH = """
[data]
corpus = "c.parquet"
queries = "q.parquet"
metric = "l2"
[measure]
at = [1, 10]
rounds = 4
[[engine]]
name = "exact"
"""


def ran(*arguments, code=0):
    found = CliRunner().invoke(app, [str(each) for each in arguments])
    assert found.exit_code == code, found.output
    return found


@pytest.fixture
def folder(tmp_path, monkeypatch):
    random = np.random.default_rng(0)
    corpus = random.normal(size=(ROWS, 8)).astype("float32")
    queries = random.normal(size=(QUERIES, 8)).astype("float32")
    key = [f"k{i}" for i in range(ROWS)]
    pq.write_table(
        pa.table({"key": key, "emb": list(corpus), "color": ["red", "blue"] * (ROWS // 2)}),
        tmp_path / "c.parquet",
    )
    pq.write_table(
        pa.table({"key": range(QUERIES), "emb": list(queries), "kind": ["a", "b", "b"] * (QUERIES // 3)}),
        tmp_path / "q.parquet",
    )
    (tmp_path / "bench.toml").write_text(BENCH)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def test_a_plain_parameter_goes_to_every_engine_that_has_it():
    engines = ["hnswlib", "faiss-hnsw", "exact"]
    found = engine_parameters(engines, ["ef=10,20", "hnswlib.ef=40"], ["M=8"], [])
    assert found["hnswlib"] == {"build": {"M": 8}, "search": {"ef": 40}}
    assert found["faiss-hnsw"] == {"build": {"M": 8}, "search": {"ef": [10, 20]}}
    assert found["exact"] == {"build": {}, "search": {}}


def test_a_text_keeps_its_commas_and_a_choice_does_not():
    assert engine_parameters(["faiss-factory"], [], ["factory=IVF16,PQ4"], [])["faiss-factory"]["build"] == {
        "factory": "IVF16,PQ4"
    }
    assert engine_parameters(["usearch"], [], ["storage=f32,i8"], [])["usearch"]["build"] == {
        "storage": ["f32", "i8"]
    }


def test_a_connection_setting_is_one_text():
    found = engine_parameters(["qdrant"], [], [], ["url=http://host:6333/a=b,c"])
    assert found["qdrant"]["build"] == {"url": "http://host:6333/a=b,c"}
    with pytest.raises(UsageError, match="Write --build M=VALUE"):
        engine_parameters(["qdrant"], [], [], ["M=8"])


def test_options_that_restrict_or_judge_override_a_bench_file(folder):
    given = GivenOptions(sample=20, rounds=1, by=["kind"], target=["recall@5 >= 0.9"], price="2USD/h")
    settings = open_benchmark("bench.toml", given, usual=["exact"]).settings
    assert settings.data.sample_queries == 20
    assert (settings.measure.rounds, settings.measure.by) == (1, ("kind",))
    assert settings.tune.target == ("recall@5 >= 0.9",) and "recall@5" in settings.measure.measures
    assert (settings.cost.per_hour, settings.cost.currency) == (2.0, "USD")
    assert read_settings("bench.toml").measure.rounds == 4


@pytest.mark.parametrize(
    "option",
    ["--metric=l2", "--where=color = 'red'", "--id-column=key", "--engine=exact", "--search=ef=1", "--at=1"],
)
def test_options_that_say_what_is_measured_are_refused_with_a_bench_file(folder, option):
    assert "cannot be combined with a bench file" in ran("run", "bench.toml", option, code=2).output


def test_a_run_takes_all_of_them_and_prices_it(folder):
    data = ["c.parquet", "q.parquet", "--metric", "l2", "--id-column", "key", "--vector-column", "emb"]
    words = ["--where", "color = 'red'", "--by", "kind", "--sample", "30", "--rounds", "1", "--at", "1,10"]
    found = json.loads(
        ran(
            "run", *data, *words, "--engine", "exact", "--price", "3.6/h", "--out", "out", "--json", "--quiet"
        ).stdout
    )
    (trial,) = found["trials"]
    assert trial["queries"] == 30
    assert trial["cost_per_million"] == pytest.approx(1000 / trial["qps"])
    saved = read_settings("out/bench.toml", look=False)
    assert saved.data.where == "color = 'red'" and saved.cost.per_hour == 3.6
    shown = ran("show", "out", "--price", "7.2EUR/h", "--verbose").stdout
    assert "EUR/1M queries" in shown
    ran("export", "out", "--to", "csv", "--out", "out.csv")
    (row,) = csv.DictReader((folder / "out.csv").read_text().splitlines())
    assert float(row["cost_per_million"]) == pytest.approx(trial["cost_per_million"])


def test_the_same_run_is_resumed_under_another_price(folder):
    words = ["run", "bench.toml", "--out", "out", "--quiet", "--rounds", "1"]
    ran(*words)
    before = (folder / "out" / "trial-1.parquet").stat().st_mtime_ns
    assert "Met" in ran(*words, "--price", "1/h", "--target", "recall@10 >= 0.5").stdout
    assert (folder / "out" / "trial-1.parquet").stat().st_mtime_ns == before


def test_truth_and_score_take_a_sample_of_queries_and_groups(folder):
    data = ["c.parquet", "q.parquet", "--metric", "l2", "--depth", "10"]
    said = ran("truth", *data, "--by", "kind", "--out", "truth.parquet").stdout
    assert "kind = a: 20 queries" in said and "kind = b: 40 queries" in said
    sampled = json.loads(ran("truth", *data, "--sample", "12", "--by", "kind", "--json").stdout)
    assert sampled["queries"] == 12
    assert sum(each["queries"] for each in sampled["by"]["kind"].values()) == 12
    truth = pq.read_table("truth.parquet")
    perfect = [{"query": q, "neighbors": ids} for q, ids in zip(*_ids(truth), strict=True)]
    (folder / "answers.jsonl").write_text("\n".join(json.dumps(each) for each in perfect))
    for count in (60, 7):
        found = json.loads(ran("score", "truth.parquet", "answers.jsonl", "--sample", count, "--json").stdout)
        assert (found["queries"], found["measures"]["recall@10"]["value"]) == (count, 1.0)
    assert (
        "Accepted: from 1 to 60"
        in ran("score", "truth.parquet", "answers.jsonl", "--sample", "61", code=2).output
    )


def _ids(table):
    from recallatk import load_truth

    truth = load_truth("truth.parquet")
    return truth.query_ids.to_pylist(), [truth.ids_of(row).to_pylist() for row in truth.rows]


def test_a_shell_completes_the_names_of_engines():
    assert {"faiss-hnsw", "hnswlib", "exact"} <= set(engine_names())
    completed = CliRunner().invoke(
        app,
        [],
        prog_name="recallatk",
        env={
            "_RECALLATK_COMPLETE": "complete_bash",
            "COMP_WORDS": "recallatk run c.npy --engine faiss-h",
            "COMP_CWORD": "4",
        },
    )
    assert completed.stdout.split() == ["faiss-hnsw"]
