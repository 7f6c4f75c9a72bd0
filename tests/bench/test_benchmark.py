"""A benchmark opens its data and its truth once, with engines or without."""

import dataclasses

import numpy as np
import pytest

import recallatk.bench.benchmark as benchmark_module
from recallatk import ground_truth, parse_filter, run
from recallatk.bench.benchmark import Benchmark
from recallatk.bench.settings import SettingsError, read_settings, settings_from
from recallatk.core import Metric
from recallatk.testing import tiny_dataset
from recallatk.truths import save_truth

HNSW = {"name": "faiss-hnsw", "search": {"ef": [10, 20]}}


@pytest.fixture
def settings(tmp_path):
    dataset = tiny_dataset(200, 20, 8)
    for name, records in (("corpus", dataset.corpus), ("queries", dataset.queries)):
        np.save(tmp_path / f"{name}.npy", records.vectors.read(0, records.rows))

    def make(*engines, data=None, truth=None, **tables):
        named = {"corpus": "corpus.npy", "queries": "queries.npy", "metric": "cosine", **(data or {})}
        stated = truth or {"store": "store"}
        values = {"data": named, "truth": stated, "measure": {"at": 10}, "engine": list(engines), **tables}
        return settings_from(values, folder=tmp_path, engines=False)

    return make


def refused(settings, dataset):
    with pytest.raises(SettingsError) as caught:
        Benchmark(settings, dataset).dataset  # noqa: B018
    return caught.value.problems


def test_the_data_are_opened_once_and_on_first_use(settings, monkeypatch):
    opened = []
    monkeypatch.setattr(benchmark_module, "open_data", lambda given: opened.append(given) or tiny_dataset())
    made = Benchmark(settings(HNSW))
    assert opened == []
    assert made.dataset is made.dataset and len(made.plan.trials) == 2
    assert opened == [made.settings]


def test_a_truth_is_computed_once_and_then_found(settings, monkeypatch):
    made = Benchmark(settings())
    assert made.find_truth() is None
    truth = made.truth()
    assert made.find_truth() is truth and made.truth() is truth
    monkeypatch.setattr("recallatk.truths.obtain_truth", None)
    again = Benchmark(made.settings)
    assert np.array_equal(again.find_truth().rows, truth.rows) and again.truth() is again.find_truth()


def test_a_truth_of_another_depth_is_found_and_not_taken_for_that_of_a_run(settings):
    store = {"store": "store", "depth": 7}
    Benchmark(settings(measure={"at": 5}, truth=store)).truth()
    made = Benchmark(settings())
    assert made.find_truth(7).depth == 7
    assert made.find_truth() is None and made.truth().depth == 100


def test_a_truth_that_is_given_or_in_a_file_needs_no_store(settings, tmp_path):
    truth = ground_truth(Benchmark(settings()).dataset, depth=10)
    assert Benchmark(settings(), truth=truth).truth() is truth
    save_truth(truth, tmp_path / "truth.parquet")
    made = Benchmark(settings(truth={"file": "truth.parquet"}))
    assert np.array_equal(made.find_truth().rows, truth.rows) and made.truth() is made.find_truth()
    assert not (tmp_path / "store").exists()


def test_without_engines_there_are_data_and_truth_but_no_run(settings, tmp_path):
    made = Benchmark(settings())
    assert made.dataset.corpus.rows == 200 and made.truth().depth == 100
    for attempt in (lambda: made.plan, lambda: run(made, out=tmp_path / "run")):
        with pytest.raises(SettingsError, match="engine: is required: at least one"):
            attempt()
    (tmp_path / "bench.toml").write_text('[data]\ncorpus = "corpus.npy"\n')
    with pytest.raises(SettingsError, match="engine: is required: at least one"):
        read_settings(tmp_path / "bench.toml")
    assert read_settings(tmp_path / "bench.toml", engines=False).engine == ()


def test_engines_are_checked_against_data_that_are_given(settings):
    dataset = tiny_dataset(200, 20, 8)
    by_product = dataclasses.replace(dataset, metric=Metric.IP)
    stated = settings({"name": "sqlite-vec"}, HNSW)
    assert refused(stated, by_product) == (
        "engine[0]: sqlite-vec does not support the metric ip. Accepted: cosine or l2",
    )
    filtered = dataclasses.replace(dataset, queries=dataset.queries.where(parse_filter("id > 3")))
    assert refused(settings(HNSW, {"name": "usearch"}), filtered) == (
        "engine[1]: usearch cannot filter during search, and the queries have filters",
    )
    assert Benchmark(settings(HNSW), dataset).dataset is dataset


def test_parameters_are_parsed_once(settings, monkeypatch):
    made = Benchmark(settings(HNSW))
    monkeypatch.setattr("recallatk.bench.settings.models.read_axes", None)
    assert made.settings.to_dict()["engine"][0]["search"] == {"ef": [10, 20]}
    assert [dict(trial.search)["ef"] for trial in made.plan.trials] == [10, 20]
