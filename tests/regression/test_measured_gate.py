"""`recallatk gate bench.toml` and `gate TARGET`: what is measured, asked and judged, and what is refused."""

import json
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from commands import recallatk
from recallatk import accept_measured, gate, gate_results, run
from recallatk.bench.settings import read_settings
from recallatk.cli import app
from recallatk.errors import RecallError, UsageError

BENCH = """
[data]
corpus = "corpus.parquet"
queries = "queries.parquet"
metric = "l2"
[measure]
at = [1, 10]
rounds = 1
{more}
[[engine]]
name = "faiss-ivf-flat"
build = {{ nlist = 16 }}
search = {{ nprobe = {nprobe} }}
"""
SHOP = """
import json, numpy as np, pyarrow.parquet as pq

vectors = np.stack(pq.read_table("corpus.parquet")["vector"].to_pylist())

def search(queries, k):
    kept = json.load(open("kept.json"))
    distances = ((np.asarray(queries)[:, None] - vectors[None, :kept]) ** 2).sum(-1)
    return [[f"c{row}" for row in rows] for rows in np.argsort(distances, axis=1)[:, :k]]
"""
TARGET = "shop:search?metric=l2&corpus=corpus.parquet"
LIVE = ("--queries", "queries.parquet", "--max-rate", "none")


def gated(folder, *words, code=0):
    ran = recallatk("gate", *words, cwd=folder)
    assert ran.returncode == code, ran.stdout + ran.stderr
    return ran


def as_json(folder, *words, code=0):
    return json.loads(gated(folder, *words, "--json", "--quiet", code=code).stdout)


def bench(folder, name, nprobe, more=""):
    (folder / name).write_text(BENCH.format(nprobe=nprobe, more=more))
    return name


def table(path, vectors, prefix, **columns):
    lists = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), vectors.shape[1])
    ids = [f"{prefix}{row}" for row in range(len(vectors))]
    pq.write_table(pa.table({"id": ids, "vector": lists, **columns}), path)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Data, a bench file with its accepted baseline, and a search function with its own."""
    found = tmp_path_factory.mktemp("gate with spaces")
    random = np.random.default_rng(0)
    table(found / "corpus.parquet", random.normal(size=(1_500, 8)).astype("f4"), "c")
    columns = {"lang": ["de", "fr"] * 450, "text": [f"text of {row}" for row in range(900)]}
    table(found / "queries.parquet", random.normal(size=(900, 8)).astype("f4"), "q", **columns)
    (found / "shop.py").write_text(SHOP)
    (found / "kept.json").write_text("1500")
    said = gated(found, bench(found, "bench.toml", [12]), "--accept").stdout
    assert said.startswith("recall-baseline.json: bench.toml is the baseline, 1 setting.")
    gated(found, TARGET, *LIVE, "--baseline", "live.json", "--accept")
    return found


def test_a_passing_gate_asks_few_queries_and_says_how_many(folder):
    found = as_json(
        folder, "bench.toml", "--target", "recall@10 >= 0.9", "--target", "recall@1 >= 0.9 in lang=de"
    )
    assert found["verdict"]["outcome"] == "PASS"
    assert found["baseline"] is None and found["compared"] is None
    assert found["asked"] <= 300 and found["asked_of"] == 900
    said = gated(folder, "bench.toml", "--target", "recall@10 >= 0.9").stdout
    assert " of 900 queries asked, until every goal was decided." in said


def test_recall_is_paired_with_the_baseline_beside_the_bench_file(folder):
    found = as_json(folder, "bench.toml")
    assert found["verdict"]["outcome"] == "PASS" and found["asked"] < 900
    assert [each["text"] for each in found["goals"]] == [f"recall@{k} >= baseline - 0.01" for k in (1, 10)]
    lower = bench(folder, "lower.toml", [4])
    comment = folder / "comment.md"
    found = as_json(folder, lower, "--markdown", comment, code=1)
    assert found["asked"] < 900
    assert "queries asked, until every goal was decided." in comment.read_text()
    assert "text of" in comment.read_text() and "recallatk gate lower.toml" in comment.read_text()
    # The same, asked whole.
    whole = run(folder / lower, out=folder / "lower")
    recorded = gate_results(folder / "recall-baseline.json", whole)
    assert recorded.verdict.outcome == "FAIL"
    values = whole.measurements[0].score.per_query["recall@10"]
    goal = found["goals"][1]
    assert goal["low"] <= values.mean() <= goal["high"]


def test_values_are_those_of_a_run_on_the_same_queries(folder):
    measured = gate(
        str(folder / "bench.toml"), ["recall@10 >= 0.9"], baseline=str(folder / "recall-baseline.json")
    )
    assert measured.verdict.outcome == "PASS"
    there = measured.measured.settings[0].builds[0].values["recall@10"]
    whole = run(folder / "bench.toml", out=folder / "whole").measurements[0].score.per_query["recall@10"]
    asked = ~np.isnan(there)
    assert asked.sum() == measured.asked < 900
    assert np.array_equal(there[asked], whole[asked])


def test_costs_builds_and_undecided_goals_ask_all_queries(folder):
    goals = ("--target", "recall@10 >= baseline - 0.01", "--budget", "p95 <= 10s")
    found = as_json(folder, "bench.toml", *goals)
    assert (found["asked"], found["asked_of"]) == (900, 900)
    assert found["goals"][1]["text"] == "p95 <= 10s" and found["goals"][1]["value"] > 0
    # What a build costs is known without further queries.
    found = as_json(folder, "bench.toml", "--target", "recall@10 >= 0.9", "--budget", "size <= 1.1x baseline")
    assert found["asked"] < 900 and found["verdict"]["outcome"] == "PASS"
    found = as_json(folder, "bench.toml", "--target", "recall@10 >= baseline", code=3)
    assert found["asked"] == 900
    several = bench(folder, "several.toml", [12], "builds = 2")
    assert as_json(folder, several, "--target", "recall@10 >= 0.9")["asked"] == 900


def test_settings_without_a_baseline_meet_absolute_goals_and_are_named(folder):
    two, absolute = bench(folder, "two.toml", [2, 12]), "recall@10 >= 0.9"
    low = next(
        each for each in as_json(folder, two, "--target", absolute, code=1)["goals"] if each["value"] < 0.9
    )
    label, goals = low["setting"], ("--target", "recall@10 >= baseline - 0.01", "--target", absolute)
    # Asked until decided, measured in full trials, and recorded before.
    run(folder / two, out=folder / "recorded")
    for words in (
        (two, *goals),
        (two, *goals, "--budget", "p95 <= 10s", "--target", "recall@10 >= 0.1 in lang=de"),
        ("recall-baseline.json", "recorded", *goals),
    ):
        found = as_json(folder, *words, code=1)
        missed = [each for each in found["goals"] if each["outcome"] == "missed"]
        assert [(each["setting"], each["text"]) for each in missed] == [(label, absolute)]
        assert found["without_baseline"] == found["compared"]["only_second"] == [label]
        assert {each["setting"] for each in found["goals"] if "baseline" in each["text"]}.isdisjoint({label})
    # Goals relative to the baseline alone ask nothing of it, and say so.
    comment = folder / "two.md"
    said = gated(folder, two, "--markdown", comment).stdout
    for text in (said, comment.read_text()):
        assert "No baseline for these settings, so that no relative goal was judged for them:" in text
        assert "nprobe=2" in text
    assert as_json(folder, two)["asked_of"] == 900
    assert "No baseline" not in gated(folder, "bench.toml").stdout


def test_a_setting_without_the_first_baseline_is_named(folder, tmp_path):
    for name in ("corpus.parquet", "queries.parquet"):
        shutil.copy(folder / name, tmp_path)
    file = str(tmp_path / "recall-baseline.json")
    for nprobe in ([12], [9, 12]):
        accept_measured(str(tmp_path / bench(tmp_path, "bench.toml", nprobe)), file)
    found = gate(
        str(tmp_path / "bench.toml"), ["recall@10 >= baseline - 0.01", "recall@10 >= 0.1"], since_first=True
    )
    [without] = found.without_baseline
    assert without.startswith("since the first baseline: ") and "nprobe=9" in without
    assert [each.setting for each in found.goals if "nprobe=9" in each.setting] == [
        without.partition(": ")[2]
    ] * 2


def test_no_output_replaces_the_data_that_a_bench_file_names(folder):
    shards = folder / "shards"
    shards.mkdir()
    shutil.copy(folder / "corpus.parquet", shards / "one.parquet")
    file = folder / bench(folder, "sharded.toml", [12])
    file.write_text(file.read_text().replace("corpus.parquet", "shards/*.parquet"))
    for name, path in (
        ("bench.toml", "corpus.parquet"),
        ("bench.toml", "queries.parquet"),
        ("sharded.toml", "shards/one.parquet"),
    ):
        before = (folder / path).read_bytes()
        for option in ("--markdown", "--junit"):
            said = gated(folder, name, "--target", "recall@10 >= 0.9", option, path, code=2).stderr
            assert f"{path}: is a part of the input" in said
        assert (folder / path).read_bytes() == before


def test_a_collection_is_probed_until_it_is_decided(folder):
    words = (TARGET, *LIVE, "--baseline", "live.json", "--history", "gates.db")
    found = as_json(folder, *words)
    assert found["verdict"]["outcome"] == "PASS" and found["asked"] < 900
    (folder / "kept.json").write_text("1300")
    found = as_json(folder, *words, code=1)
    assert found["asked"] < 900 and found["compared"]["settings"][0]["values"]
    (folder / "kept.json").write_text("1500")
    as_json(folder, TARGET, *LIVE, "--target", "recall@5 >= 0.9", "--budget", "p50 <= 10s")
    assert (
        "Gates: 1 PASS, 1 FAIL, the last FAIL."
        in recallatk("history", "--history", "gates.db", cwd=folder).stdout
    )


def test_gates_of_bench_files_and_of_runs_are_remembered(folder):
    words = ("--history", "bench.db")
    for _ in range(2):
        gated(folder, "bench.toml", "--target", "recall@10 >= 0.9", *words)
    shown = json.loads(recallatk("history", "--history", "bench.db", "--json", cwd=folder).stdout)["trends"]
    entries = next(each for each in shown if each["measure"] == "recall@10")["entries"]
    assert [each["kind"] for each in entries] == ["gate", "gate"]
    assert [each["verdict"] for each in entries] == ["PASS", "PASS"]


def test_the_first_baseline_counts_too(folder, tmp_path):
    for name in ("corpus.parquet", "queries.parquet"):
        shutil.copy(folder / name, tmp_path)
    file = str(tmp_path / "recall-baseline.json")
    for nprobe in (12, 9, 6):
        accept_measured(str(tmp_path / bench(tmp_path, f"{nprobe}.toml", [nprobe])), file)
    path = str(tmp_path / "6.toml")
    assert gate(path).verdict.outcome == "PASS"
    found = gate(path, since_first=True)
    assert found.verdict.outcome == "FAIL"
    assert {each.setting.partition(": ")[0] for each in found.goals if each.result.outcome == "missed"} == {
        "since the first baseline"
    }
    settings = read_settings(path)
    assert gate(settings, ["recall@10 >= 0.3"]).verdict.outcome == "PASS"


def test_what_cannot_be_gated_is_refused_before_anything_is_measured(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(folder)

    def refused(*words):
        done = CliRunner().invoke(app, ["gate", *map(str, words)])
        assert done.exit_code == 2, done.output
        return done.stderr

    five = folder / bench(folder, "five.toml", [12])
    five.write_text(five.read_text().replace("at = [1, 10]", "at = [5]"))
    with pytest.raises(RecallError, match=r"nope\.toml: no such file"):
        gate("nope.toml")
    said = {
        (
            "bench.toml",
            "--baseline",
            "missing.json",
        ): "missing.json: no such file, and a goal needs a baseline",
        ("bench.toml", "--queries", "queries.parquet"): "--queries cannot be combined with a bench file",
        ("lower", "lower", "--sql", "SELECT 1"): "--sql cannot be combined with two results",
        ("runs/none",): "runs/none: no candidate. Accepted: recallatk gate BASELINE CANDIDATE",
        ("bench.toml", "--target", "recall@10 >= baseline + 0.2"): "cannot be met: the baseline has",
        ("bench.toml", "--target", "recall@10 >= 0.9 in lang=xx"): "no query has lang = 'xx'",
        (
            "bench.toml",
            "--target",
            "nDCG@10 loss <= 0.1",
        ): "a gate judges what answers have in common with the truth",
        (TARGET, "--target", "recall@10 >= 0.9"): "a gate needs real queries",
        (TARGET, *LIVE, "--at", "5,10", "--target", "recall@5 >= 0.9"): "a collection is asked for one k",
        ("bench.toml", "--accept", "--history", "h.db"): "--history cannot be combined with --accept",
        ("bench.toml", "--baseline", "queries.parquet"): "answers need a truth",
        (
            "bench.toml",
            "lower.toml",
        ): "bench.toml: a bench file is no result, and stands alone: recallatk gate bench.toml",
        ("recall-baseline.json", "bench.toml"): "recallatk gate bench.toml --baseline FILE",
        (
            "five.toml",
        ): "no goal: the baseline has recall@1, recall@10, and the candidate recall@5. Measure both",
    }
    for words, expected in said.items():
        assert expected in refused(*words)
    (folder / "broken.json").write_text('{"format": "recall-baseline"')
    assert "damaged" in refused("bench.toml", "--baseline", "broken.json")
    with pytest.raises(UsageError, match="nothing that a gate can measure"):
        gate("runs/none")
    other = bench(folder, "other.toml", [12, 13])
    accept_measured(str(folder / other), str(tmp_path / "two.json"))
    assert "not measured by bench.toml" in refused("bench.toml", "--baseline", tmp_path / "two.json")
