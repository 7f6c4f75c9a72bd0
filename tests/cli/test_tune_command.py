"""`recallatk tune`: from a sentence to a setting, through real engines on small data."""

import json
import tomllib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer
from typer.testing import CliRunner

from recallatk.bench.settings import SettingsError, settings_from
from recallatk.cli.guard import guarded
from recallatk.cli.tune import tune
from recallatk.cli.tune_live import Lines, headline
from recallatk.core import Mean
from recallatk.core.tuned import Candidate
from recallatk.testing import tiny_dataset
from recallatk.tune.search import Progress

app = typer.Typer(rich_markup_mode=None)
app.command()(guarded(tune))

BENCH = """
name = "mine"
[data]
corpus = "corpus.parquet"
queries = "queries.parquet"
metric = "cosine"
[tune]
target = "recall@10 >= 0.9"
budget = ["p95 <= 1h", "size <= 1TiB"]
by = "kind"
time = "2min"
[[engine]]
name = "faiss-ivf-flat"
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    dataset = tiny_dataset(1500, 400, 16)
    for records, name, more in (
        (dataset.corpus, "corpus", {}),
        (dataset.queries, "queries", {"kind": ["a", "b"] * 200}),
    ):
        flat = pa.array(np.array(records.vectors.read(0, records.rows)).ravel())
        vectors = pa.FixedSizeListArray.from_arrays(flat, 16)
        pq.write_table(pa.table({"id": records.ids, "vector": vectors, **more}), f"{name}.parquet")
    return tmp_path


def ran(*arguments, code=0):
    found = CliRunner().invoke(app, [str(each) for each in arguments])
    assert found.exit_code == code, found.output
    return found


def test_a_target_becomes_a_setting_with_its_files(folder):
    found = ran(
        *("corpus.parquet", "queries.parquet", "--metric", "cosine", "--target", "recall@10 >= 0.9"),
        *("--engine", "faiss-ivf-flat", "--by", "kind", "--json"),
    )
    said = json.loads(found.stdout)
    assert said["met"] is True and said["choice"]["engine"] == "faiss-ivf-flat"
    assert said["validated"]["recall@10"]["value"] >= 0.9 and said["latency_ms"]["p95"] > 0
    assert said["trials"] > 0 and said["builds"] > 0 and said["seconds"] > 0
    assert said["worst_segment"]["name"] in ("kind=a", "kind=b")
    out = folder / "runs" / "corpus-tune"
    assert said["out"] == str(out)
    kept = json.loads((out / "tuned.json").read_text())
    assert kept == {name: value for name, value in said.items() if name != "out"}
    assert (out / "report.md").read_text().startswith("# Tuning")


def test_nothing_that_meets_the_target_ends_with_one(folder):
    found = ran(
        *("corpus.parquet", "queries.parquet", "--metric", "cosine", "--target", "recall@10 >= 0.9"),
        *("--budget", "p95 <= 0.000001ms", "--engine", "faiss-ivf-flat", "--out", "here"),
        code=1,
    )
    assert found.stdout.startswith("No setting was proved to keep recall@10 >= 0.9 within p95 <= ")
    assert json.loads((folder / "here" / "tuned.json").read_text())["met"] is False


def test_a_bench_file_says_all_of_it(folder):
    (folder / "bench.toml").write_text(BENCH)
    found = ran("bench.toml")
    assert found.stdout.startswith("Run faiss-ivf-flat built with nlist=")
    kept = json.loads((folder / "runs" / "mine-tune" / "tuned.json").read_text())
    assert kept["targets"] == ["recall@10 >= 0.9"] and kept["budgets"] == ["p95 <= 1h", "size <= 1TiB"]
    assert kept["worst_segment"] is not None


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], 'no target. Say what to keep: --target "recall@10 >= 0.95"'),
        (["--target", "fast"], "no target 'fast'. Accepted: recall@10 >= 0.95"),
        (["--target", "recall@10 >= 0.9", "--budget", "free"], "no budget 'free'. Accepted: such as"),
        (["--target", "recall@10 >= 0.9", "--prefer", "luck"], "Accepted: p95, qps, memory or build"),
        (["--target", "recall@10 >= 0.9", "--time", "soon"], "'soon' is no duration"),
        (
            ["--target", "recall@10 >= 0.9", "--by", "sort"],
            "no such column beside the queries. Accepted: kind",
        ),
        (["--target", "recall@10 >= 0.9", "--engine", "best"], "no engine 'best'"),
        (["--target", "ndcg@10 loss <= 0.01"], "needs relevance judgements"),
    ],
)
def test_what_cannot_be_is_refused_before_the_work(folder, arguments, said):
    found = ran("corpus.parquet", "queries.parquet", "--metric", "cosine", *arguments, code=2)
    assert said in found.stderr and found.stdout == ""


def test_all_bad_texts_are_said_at_once(folder):
    arguments = ["--target", "fast", "--target", "recall@10 >= 7", "--budget", "free"]
    found = ran("corpus.parquet", "queries.parquet", "--metric", "cosine", *arguments, code=2)
    assert all(part in found.stderr for part in ("'fast'", "recall@10 >= 7", "'free'"))


def test_a_bench_file_without_a_target_says_where_to_put_one(folder):
    (folder / "bench.toml").write_text(BENCH.replace('target = "recall@10 >= 0.9"', ""))
    assert "under [tune] in the file" in ran("bench.toml", code=2).stderr
    assert "stands in the bench file" in ran("bench.toml", "--metric", "ip", code=2).stderr


def test_the_tune_table_reads_back():
    settings = settings_from(tomllib.loads(BENCH))
    assert settings.tune.target == ("recall@10 >= 0.9",) and settings.tune.time == 120
    assert settings_from(tomllib.loads(settings.to_toml())) == settings
    plain = {name: value for name, value in tomllib.loads(BENCH).items() if name != "tune"}
    assert "[tune]" not in settings_from(plain).to_toml()
    # What is looked for changes nothing about a run.
    assert settings_from(plain).identity() == settings.identity()


def test_the_tune_table_refuses_what_it_does_not_know():
    with pytest.raises(SettingsError) as caught:
        settings_from({**tomllib.loads(BENCH), "tune": {"targets": "x", "prefer": "luck", "time": 5}})
    assert "tune.targets: no such key. Did you mean target?" in str(caught.value)
    assert "tune.prefer" in str(caught.value) and "tune.time" in str(caught.value)


def test_progress_says_the_best_the_front_and_the_time_left(capsys):
    best = Candidate(
        "hnswlib", (("M", 16),), (("ef", 40),), {"recall@10": Mean(0.96, None, 9)}, latency_ms={"p95": 0.25}
    )
    progress = Progress("effort", "hnswlib", best, (best, best), 65.0, 30.0, "passed: after 64 queries")
    assert headline(progress) == (
        "tune, effort of hnswlib; passed: after 64 queries; best so far hnswlib(M=16)[ef=40]: recall@10 "
        "0.9600, p95 0.250 ms; 2 settings on the front; 65 s; at most 30 s left"
    )
    lines = Lines()
    lines.show(progress)
    assert capsys.readouterr().err == ""  # what is quick is silent
    lines.begun -= 60
    lines.said -= 60
    lines.show(progress)
    lines.show(progress)
    assert capsys.readouterr().err.count("best so far") == 1
