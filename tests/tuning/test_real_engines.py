"""Tuning real engines on real embeddings."""

from dataclasses import replace

import numpy as np
import pytest
from tuning_data import small_data

import recallatk
from recallatk.datasets.sampling import sample_queries, sampled
from recallatk.errors import EngineError
from recallatk.filters import parse_filter
from recallatk.linter import Evidence, audit
from recallatk.truths import ground_truth
from recallatk.tuning.flow import tune, usable


@pytest.fixture(scope="module")
def definitions(curved):
    demo = recallatk.open_demo()
    few = sampled(demo, 1_000)
    return type(few)(few.corpus, sample_queries(few.queries, 400), few.metric, name="few")


def test_a_graph_and_lists_are_tuned_together(definitions, tmp_path):
    truth = ground_truth(definitions, depth=10)
    seen = []
    tuned = tune(
        definitions,
        target="recall@10 >= 0.9",
        budgets=["p95 <= 1s", "memory <= 4GiB", "build <= 10min"],
        engines=["usearch", "lists"],
        by=["pos"],
        out=tmp_path,
        truth=truth,
        watch=seen.append,
    )
    assert tuned.met
    assert tuned.validated["recall@10"].value >= 0.9
    assert tuned.choice.bound >= 0.9
    # No less than the vectors alone, whatever a process had kept of the build before.
    assert tuned.choice.memory_bytes > 0.8 * definitions.corpus.rows * definitions.corpus.dimension
    assert tuned.choice.version
    assert tuned.snippet
    assert tuned.builds >= 2
    assert tuned.runner_up.bound >= 0.9
    assert [each.phase for each in seen if each.phase == "validation"] == ["validation"]
    recalls = [each.measures["recall@10"].value for each in tuned.front]
    assert recalls == sorted(recalls)
    assert {each.engine for each in tuned.attempts} == {"usearch", "lists"}


@pytest.mark.parametrize("budget", ["size <= 100KiB", "memory <= 100KiB"])
def test_what_cannot_fit_is_left_out_and_said_before_anything_is_built(definitions, budget):
    # Codes of one bit would fit, but for the graph around them.
    tuned = tune(definitions, target="recall@10 >= 0.9", budgets=budget, engines=["usearch"], seconds=10)
    assert not tuned.met
    assert tuned.builds == 0
    assert all(budget in each.why and "the full index holds" in each.why for each in tuned.attempts)
    assert budget in tuned.binding


def test_two_knobs_of_effort_are_both_set(curved):
    tuned = tune(
        small_data(rows=400, queries=300, dimension=8),
        target="recall@10 >= 0.8",
        engines=["codes"],
    )
    assert tuned.met
    assert set(dict(tuned.choice.search)) == {"nprobe", "k_factor"}
    # The same codes come out of the same data, so that one build is enough.
    assert "R25" not in {each.rule for each in audit(Evidence(tuned=tuned))}


def test_the_usual_engines_are_those_that_are_installed_and_fit(definitions):
    names = [each.name for each in usable(None, definitions)[0]]
    assert "faiss-hnsw" in names
    assert "usearch" in names
    assert np.all([each in names for each in ("faiss-ivf-flat", "faiss-ivf-pq")])


def filtered(dataset):
    filters = tuple(parse_filter("pos == 'noun'") for _ in range(dataset.queries.rows))
    return replace(dataset, queries=replace(dataset.queries, filters=filters))


def test_a_named_engine_that_cannot_filter_is_left_out_if_another_can(definitions):
    found, left_out = usable(["hnswlib", "faiss-hnsw"], filtered(definitions))
    assert [each.name for each in found] == ["faiss-hnsw"]
    assert left_out == {
        "hnswlib": "hnswlib cannot filter during search, and these queries have filters",
    }
    with pytest.raises(EngineError, match=r"hnswlib cannot filter .* such as faiss-hnsw, .*faiss-ivf-pq"):
        usable(["hnswlib"], filtered(definitions))


def test_tuning_says_which_engine_it_left_out_and_which_target_few_queries_validated(definitions):
    kinds = definitions.queries.metadata["pos"].to_pylist()
    few = min({each for each in kinds if kinds.count(each) > 20}, key=kinds.count)
    asked = filtered(definitions)
    tuned = tune(
        asked,
        target=["recall@10 >= 0.3", f"recall@10 >= 0.2 in pos='{few}'"],
        engines=["hnswlib", "faiss-ivf-flat"],
    )
    said = {each.kind: each.message for each in tuned.cautions}
    assert said["refused filters"].startswith("hnswlib was left out: hnswlib cannot filter during search")
    name, mean = list(tuned.validated.items())[-1]
    assert few in name and 0 < mean.n < 30
    assert said["few-held-out"].startswith(f"{name} was validated on {mean.n} queries, which is few")
