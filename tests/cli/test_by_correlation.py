"""`--by correlation`: recall by the correlation of filter and query, in `run`, `show` and `score`."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from commands import recallatk
from recallatk import assess, load_truth, open_dataset

ROWS, COUNT, K = 800, 60, 5
# Every query is near the first 80 rows: the first filter admits only these, the second only far ones, and the
# third every other row.
FILTERS = ("n < 80", "n >= 400", "even = 1", None)
EXPECTED = ("positive", "negative", "none", None)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place, random = tmp_path_factory.mktemp("correlated"), np.random.default_rng(4)
    corpus, queries = (random.normal(size=(count, 4)).astype("float32") for count in (ROWS, COUNT))
    corpus[400:] += 40
    corpus[80:400] += 4
    columns = {"n": list(range(ROWS)), "even": [row % 2 for row in range(ROWS)]}
    pq.write_table(pa.table({"vector": list(corpus), **columns}), place / "corpus.parquet")
    kinds = {"vector": list(queries), "kind": ["a", "b", "b", "a", "b"] * (COUNT // 5)}
    pq.write_table(pa.table(kinds), place / "plain.parquet")
    filters = list(FILTERS) * (COUNT // 4)
    pq.write_table(pa.table({**kinds, "filter": filters}), place / "queries.parquet")
    made = here(place, "truth", "corpus.parquet", "queries.parquet", "--metric", "l2", "--out", "t.parquet")
    assert made.returncode == 0, made.stderr
    answers = load_truth(place / "t.parquet").rows[:, :K].copy()
    # Queries without a near row that passes lose two of five neighbors.
    answers[1::4, 3:] = -1
    np.save(place / "answers.npy", answers)
    return place


def here(folder, *words, cache="cache"):
    return recallatk(*words, cwd=folder, env={"XDG_CACHE_HOME": str(folder / cache)})


def counts(segments):
    return {each["name"]: each["queries"] for each in segments}


def test_runs_are_grouped_by_correlation_and_by_pairs_with_it(folder):
    words = ("--engine", "exact", "--at", K, "--rounds", 1, "--out", "run", "--json")
    by = ("--by", "correlation", "--by", "correlation*kind")
    ran = here(folder, "run", "corpus.parquet", "queries.parquet", "--metric", "l2", *words, *by)
    assert ran.returncode == 0, ran.stderr
    alone, paired = json.loads(ran.stdout)["segments"]
    assert counts(alone["segments"]) == dict.fromkeys(["negative", "none", "positive"], COUNT // 4)
    assert alone["by"] == "filter correlation" and paired["by"] == "filter correlation × kind"
    assert sum(counts(paired["segments"]).values()) == 3 * COUNT // 4
    again = here(folder, "show", "run").stdout
    assert f"recall@{K} by filter correlation\n" in again and "No recall by" not in again


def test_scores_are_grouped_by_correlation_where_the_data_are_given(folder):
    data = ("--corpus", "corpus.parquet", "--queries", "queries.parquet")
    given = ("t.parquet", "answers.npy", "--row-numbers", "--at", K, "--by", "correlation")
    ran = here(folder, "score", *given, *data, "--json")
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)["segments"]["filter correlation"]
    assert {name: each[f"recall@{K}"]["value"] for name, each in found.items()} == {
        "negative": 0.6,
        "none": 1.0,
        "positive": 1.0,
    }
    assert "by filter correlation" in here(folder, "score", *given, *data).stdout
    refused = here(folder, "score", *given)
    assert refused.returncode == 2
    assert "cannot be grouped by filter correlation" in refused.stderr and "--queries FILE" in refused.stderr


def test_python_groups_scores_by_correlation(folder, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    data = open_dataset(folder / "corpus.parquet", folder / "queries.parquet", metric="l2")
    given = {"truth": load_truth(folder / "t.parquet"), "answers": np.load(folder / "answers.npy")}
    found = assess(**given, at=[K], by=["correlation"], dataset=data).segments["filter correlation"]
    assert [each.name for each in found] == ["negative", "none", "positive"]


def test_queries_without_filters_are_refused_before_anything_is_measured(folder):
    words = ("--metric", "l2", "--engine", "exact", "--out", "none", "--by", "kind*correlation")
    refused = here(folder, "run", "corpus.parquet", "plain.parquet", *words)
    assert refused.returncode == 2
    assert "cannot be grouped by filter correlation: no query has a filter" in refused.stderr
    assert not (folder / "none").exists()


def test_a_run_with_a_truth_file_says_why_it_has_no_correlation(folder):
    (folder / "filed.toml").write_text(
        'name = "filed"\n[data]\ncorpus = "corpus.parquet"\nqueries = "queries.parquet"\nmetric = "l2"\n'
        f'[truth]\nfile = "t.parquet"\n[measure]\nat = [{K}]\nrounds = 1\n'
        'by = ["correlation"]\n[[engine]]\nname = "exact"\n'
    )
    ran = here(folder, "run", "filed.toml", cache="empty")
    assert ran.returncode == 0, ran.stderr
    said = " ".join(ran.stdout.split())
    assert (
        "No recall by correlation: the queries cannot be grouped by filter correlation: the nearest" in said
    )
    assert "because the truth of the run comes from a file." in said
