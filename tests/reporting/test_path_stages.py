"""Stages of measured paths in text, Markdown, HTML and JSON, and the advice on candidates."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import recallatk
from recallatk.cli import app
from recallatk.reporting.path_stages import stages_to_dict
from recallatk.testing import tiny_dataset

PATH = recallatk.Path(
    "codes",
    [{"retrieve": "exact", "codes": "binary", "oversample": [1, 20]}, {"rerank": "exact"}],
    k=5,
)


@pytest.fixture(scope="module")
def measured():
    dataset = tiny_dataset(400, 80, 16)
    return recallatk.measure(PATH, dataset, at=[5], rounds=1), dataset


def test_every_stage_has_a_line_with_rows_shares_and_time(measured):
    run, _ = measured
    text = recallatk.to_text(run, verbose=True)
    assert "Stages" in text and "Contained: the share of the path's true top k" in text
    lines = [line.split() for line in text.splitlines() if line.strip().startswith("rerank ")]
    assert len(lines) == 2 and {line[1] for line in lines} == {"5", "100"}
    assert "of the latency." in text


def test_json_has_the_shares_that_the_table_shows(measured):
    run, _ = measured
    for each in run.measurements:
        plain = stages_to_dict(each)
        retrieved, reranked = plain["stages"]
        # The exact order keeps all that the candidates contain within the first k.
        assert reranked["recall"]["value"] == pytest.approx(retrieved["contained"]["value"])
        assert reranked["recall"]["value"] == pytest.approx(each.score["recall@5"])
        lost = sum(cause["value"] for cause in plain["lost"])
        assert lost == pytest.approx(1 - each.score["recall@5"])
        assert 0 < plain["covered"] <= 1 and not plain["fused_truth"]
    trial = recallatk.run_to_dict(run)["trials"][0]
    assert trial["path"]["stages"][0]["name"] == "exact"
    json.dumps(recallatk.run_to_dict(run), allow_nan=False)


def test_page_and_markdown_have_the_section(measured):
    run, _ = measured
    assert 'id="stages"' in recallatk.to_html(run)
    assert "## Stages" in recallatk.to_markdown(run)


def test_the_advice_names_the_fewest_candidates_that_meet_the_target(tmp_path):
    dataset = tiny_dataset(400, 200, 16)
    np.save(tmp_path / "corpus.npy", dataset.corpus.vectors.read(0, 400))
    np.save(tmp_path / "queries.npy", dataset.queries.vectors.read(0, 200))
    bench = tmp_path / "bench.toml"
    bench.write_text(
        """
name = "advice"
[data]
corpus = "corpus.npy"
queries = "queries.npy"
metric = "l2"
[measure]
at = [5]
rounds = 1
[tune]
target = "recall@5 >= 0.9"
[[path]]
name = "short"
k = 5
stages = [{ retrieve = "exact", dimensions = 8, oversample = [1, 40, 80] }, { rerank = "exact" }]
"""
    )
    result = CliRunner().invoke(app, ["run", str(bench), "--out", str(tmp_path / "run"), "--quiet"])
    assert result.exit_code == 0, result.output
    run = recallatk.load_run(tmp_path / "run")
    assert all(each.stages is not None for each in run.measurements)
    shown = CliRunner().invoke(app, ["show", str(tmp_path / "run"), "--verbose"]).output
    assert "oversample=40 is the smallest number of candidates that meets recall@5 >= 0.9" in " ".join(
        shown.split()
    )
    explained = CliRunner().invoke(app, ["explain", str(tmp_path / "run")]).output
    assert "lost: " in explained and " at exact" in explained
    plain = json.loads(CliRunner().invoke(app, ["explain", str(tmp_path / "run"), "--json"]).output)
    assert [each["trial"] for each in plain["paths"]] == [1, 2, 3]


def test_ladders_of_candidates_are_told_apart_by_what_else_varies():
    leg = {
        "retrieve": "faiss-ivf-flat",
        "oversample": [1, 4],
        "build": {"nlist": 16},
        "search": {"nprobe": [1, 8]},
    }
    path = recallatk.Path("lists", [leg, {"rerank": "exact"}], k=5)
    run = recallatk.measure(path, tiny_dataset(400, 80, 16), at=[5], rounds=1)
    text = " ".join(recallatk.to_text(run, verbose=True).split())
    for probes in (1, 8):
        assert f"lists nprobe={probes}, oversample: oversample=1 has recall@5" in text


def test_a_fused_path_says_that_its_recall_is_not_comparable():
    dataset = recallatk.open_demo()
    queries = recallatk.sample_queries(dataset.queries, 30)
    path = recallatk.Path(
        "hybrid",
        [{"retrieve": "exact", "depth": 20}, {"retrieve": "bm25", "depth": 20}, {"fuse": "rrf"}],
        k=5,
    )
    from dataclasses import replace

    run = recallatk.measure(path, replace(dataset, queries=queries), at=[5], rounds=1)
    text = " ".join(recallatk.to_text(run, verbose=True).split())
    assert "its truth is its own fusion and reranking of exact lists" in text
    [found] = run.measurements
    causes = {each["cause"] for each in stages_to_dict(found)["lost"]}
    assert causes == {"fusion depth", "exact", "bm25", "several legs"}
