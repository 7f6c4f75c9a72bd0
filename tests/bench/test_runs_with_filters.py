"""Filtered search as its own thing, through the commands that users type."""

import dataclasses
import json
import re
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from commands import recallatk
from recallatk import ground_truth, load_run, measure, open_dataset, to_html, to_text

ROWS, QUERIES, K = 3_000, 120, 10
SHARES = (None, 0.3, 0.03, 0.005)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A corpus whose column n is uniform, and queries without a filter and with those of three shares."""
    folder, random = tmp_path_factory.mktemp("filtered"), np.random.default_rng(3)
    corpus, queries = (random.normal(size=(count, 16)).astype("float32") for count in (ROWS, QUERIES))
    n = random.permutation(ROWS)
    lists = [pa.FixedSizeListArray.from_arrays(pa.array(each.ravel()), 16) for each in (corpus, queries)]
    pq.write_table(pa.table({"vector": lists[0], "n": n}), folder / "corpus.parquet")
    filters = [None if share is None else f"n < {int(share * ROWS)}" for share in SHARES] * (QUERIES // 4)
    pq.write_table(pa.table({"vector": lists[1], "filter": filters}), folder / "queries.parquet")
    return folder, corpus, queries, n


@pytest.fixture(scope="module")
def measured(files, tmp_path_factory):
    """Engines that filter on these queries: what the command printed, and the run folder."""
    folder = tmp_path_factory.mktemp("run")
    (folder / "bench.toml").write_text(
        f"""
        name = "filtered"
        [data]
        corpus = "{files[0] / "corpus.parquet"}"
        queries = "{files[0] / "queries.parquet"}"
        metric = "l2"
        [truth]
        store = "{folder / "store"}"
        [output]
        folder = "{folder / "run"}"
        [measure]
        at = [{K}]
        rounds = 1
        [[engine]]
        name = "exact"
        [[engine]]
        name = "faiss-hnsw"
        build = {{ M = 4, ef_construction = 16 }}
        search = {{ ef = [10] }}
        [[engine]]
        name = "sqlite-vec"
        """
    )
    ran = recallatk("run", folder / "bench.toml", cwd=folder, env={"COLUMNS": "120"})
    assert ran.returncode == 0, ran.stderr
    return ran.stdout, folder / "run"


def naive_recalls(files, answers):
    """Recall of each query by a scan in numpy."""
    _, corpus, queries, n = files
    found = []
    for query, line in enumerate(answers):
        share = SHARES[query % 4]
        passing = np.flatnonzero(n < (ROWS if share is None else int(share * ROWS)))
        distances = ((corpus[passing].astype("float64") - queries[query]) ** 2).sum(axis=1)
        best = set(passing[np.argsort(distances)[:K]].tolist())
        found.append(len(best & set(line.tolist())) / len(best))
    return np.array(found)


def test_json_has_recall_and_rates_of_every_group(files, measured):
    shown = json.loads(recallatk("show", measured[1], "--json").stdout)
    for measurement, trial in zip(load_run(measured[1]).measurements, shown["trials"], strict=True):
        recalls = naive_recalls(files, measurement.answers)
        filtered = np.arange(QUERIES) % 4 > 0
        parts = {each["group"]: each for each in trial["filters"]["by_filter"]}
        assert parts["filtered"]["recall"]["value"] == pytest.approx(recalls[filtered].mean())
        assert parts["unfiltered"]["recall"]["value"] == pytest.approx(recalls[~filtered].mean())
        decades = trial["filters"]["by_selectivity"]
        assert [each["group"] for each in decades] == [
            "all rows",
            "10 to 100 % of the rows",
            "1 to 10 % of the rows",
            "0.1 to 1 % of the rows",
        ]
        for place, each in enumerate(decades):
            assert each["queries"] == QUERIES // 4 == each["recall"]["n"]
            assert each["recall"]["value"] == pytest.approx(recalls[place::4].mean())
            assert each["refusal_rate"] == 0 and each["violation_rate"] == 0 and each["p50_ms"] > 0
            returned = (measurement.answers[place::4] >= 0).sum(axis=1)
            assert each["short_rate"] == pytest.approx((returned < K).mean())
        correlations = trial["filters"]["by_correlation"]
        assert sum(each["queries"] for each in correlations) == filtered.sum()
        assert max(correlations, key=lambda each: each["queries"])["group"] == "none"


def test_filtered_and_unfiltered_recall_are_apart_wherever_recall_is(measured):
    text, folder = measured
    shown = recallatk("show", folder, "--verbose").stdout
    markdown, page = ((folder / name).read_text() for name in ("report.md", "report.html"))
    header = next(line for line in text.splitlines() if "recall@10" in line and "QPS" in line)
    assert "filtered" in header and "unfiltered" in header
    assert "(filtered " in text and "120 queries, 90 of them filtered" in text
    for each in (text, shown, markdown, page):
        assert "Recall with and without filters" in each
        assert "Recall by filter selectivity" in each
        assert "Recall by correlation of filter and query" in each
    for each in (shown, markdown, page):
        assert "Violations: returned rows that do not pass." in " ".join(each.split())


def test_a_run_tells_its_groups_without_its_data(measured, files, tmp_path):
    moved = shutil.copytree(measured[1], tmp_path / "moved")
    (moved / "bench.toml").unlink()
    before = recallatk("show", measured[1], env={"COLUMNS": "120"}).stdout
    text = recallatk("show", moved, env={"COLUMNS": "120", "XDG_CACHE_HOME": str(tmp_path / "none")}).stdout
    begin = "Recall with and without filters"
    assert text[text.index(begin) :].splitlines()[:20] == before[before.index(begin) :].splitlines()[:20]


def test_targets_per_selectivity_are_judged_on_their_queries(files, measured):
    goals = ("recall@10 >= 0.5 in selectivity='1 to 10 %'", "recall@10 >= 0.5 in filter=unfiltered")
    words = [word for goal in goals for word in ("--target", goal)]
    shown = json.loads(recallatk("show", measured[1], *words, "--json").stdout)
    chosen = load_run(measured[1]).measurements[shown["verdict"]["trial"] - 1]
    recalls = naive_recalls(files, chosen.answers)
    values = [each["value"] for each in shown["verdict"]["goals"]]
    assert values == [pytest.approx(recalls[2::4].mean()), pytest.approx(recalls[0::4].mean())]


def test_tuning_takes_targets_per_selectivity_and_correlation(files, tmp_path):
    goals = ("recall@10 >= 0.6 in selectivity='0.1 to 1 %'", "recall@10 >= 0.5 in correlation=none")
    words = [word for goal in goals for word in ("--target", goal)]
    data = [files[0] / f"{name}.parquet" for name in ("corpus", "queries")]
    out = tmp_path / "tuned"
    ran = recallatk("tune", *data, "--metric", "l2", *words, "--engine", "exact", "--out", out, cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    tuned = json.loads((out / "tuned.json").read_text())
    assert tuned["met"] and [each["text"] for each in tuned["verdict"]["goals"]] == list(goals)
    assert tuned["validated"][goals[0].replace(" >= 0.6", "")]["n"] < QUERIES // 8
    refused = recallatk("tune", *data, "--metric", "l2", "--target", "recall@10 >= 0.6 in selectivity=5")
    assert refused.returncode == 2 and "no query has selectivity = '5'. Its values:" in refused.stderr


def test_filters_that_admit_no_row_are_named_as_the_reason_and_warn_of_nothing(files):
    _, corpus, queries, n = files
    dataset = open_dataset(
        pa.table({"vector": list(corpus[:300]), "n": n[:300]}),
        pa.table({"vector": list(queries[:20]), "kind": ["a", "b"] * 10, "filter": ["n < 0"] * 20}),
        metric="l2",
    )
    run = measure("exact", dataset, at=[K], rounds=1)
    truth = ground_truth(dataset, depth=K)
    assert "No filter admits a row, so no query has recall." in to_text(run, truth=truth, dataset=dataset)
    assert "No query was scored." in to_html(run, truth=truth, dataset=dataset)


@pytest.fixture(scope="module")
def weighted(files):
    """A weighted run with unfiltered queries, filters that admit a third, and filters that admit no row."""
    _, corpus, queries, n = files
    columns = {
        "kind": ["a", "b"] * 30,
        "count": list(range(1, 61)),
        "filter": [None, "n < 1000", "n < 0"] * 20,
    }
    dataset = open_dataset(
        pa.table({"vector": list(corpus), "n": n}),
        pa.table({"vector": list(queries[:60]), **columns}),
        metric="l2",
    )
    run = measure("exact", dataset, at=[1, K], rounds=1, weight="count")
    return run, ground_truth(dataset, depth=K), dataset


def grouped_by(weighted, by, width):
    run, truth, dataset = weighted
    run = dataclasses.replace(run, settings={**run.settings, "measure": {"by": [by]}})
    return to_text(run, truth=truth, dataset=dataset, width=width)


def test_groups_and_segments_count_scored_queries_and_name_the_others_once(weighted):
    text = grouped_by(weighted, "kind", 120)
    counts = [line.split()[1:] for line in text.splitlines() if line.startswith("queries ")]
    assert counts[:2] == [["40", "20", "20"], ["40", "20", "20"]]
    assert text.count("20 queries have no eligible row, and so no recall.") == 1
    kinds = {line.split()[0]: line.split()[1] for line in text.splitlines() if re.match(r"[ab] +\d", line)}
    assert kinds == {"a": "20", "b": "20"} and re.search(r"all queries +40 ", text)


@pytest.mark.parametrize("width", [60, 80])
def test_weighted_filtered_runs_fit_narrow_terminals(weighted, width):
    text = grouped_by(weighted, "kind", width)
    assert max(map(len, text.splitlines())) <= width


def test_effort_alone_says_what_to_group_by(weighted):
    assert "No recall by effort alone. Name what to group by beside it" in grouped_by(weighted, "effort", 120)
