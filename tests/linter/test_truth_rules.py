"""Rules about the truth: one of other data, by another metric, with other filters, or believed unseen."""

import dataclasses

import numpy as np
import pytest
from faults import anonymous, by_product, clustered, embedded, found, vectors, with_corpus, with_queries

from recallatk import ground_truth, measure, parse_filter
from recallatk.core import Metric
from recallatk.linter import Evidence


@pytest.fixture(scope="module")
def data():
    return embedded("cosine", rows=2_000, queries=150)


@pytest.fixture(scope="module")
def truth(data):
    return ground_truth(data, depth=20)


def test_a_truth_of_other_rows_is_told_by_its_fingerprint(data, truth):
    changed = vectors(data.corpus)
    changed[7] += 1
    (error,) = found("R16", dataset=with_corpus(data, changed), truth=truth)
    assert "vectors" in error.message
    assert not found("R16", dataset=data, truth=truth)


def test_a_truth_of_other_queries_or_by_another_metric_is_told(data, truth):
    fewer = with_queries(data, vectors(data.queries)[:100])
    assert "number of queries" in found("R16", dataset=fewer, truth=truth)[0].message
    other = dataclasses.replace(data, metric=Metric.L2)
    assert (
        "metric (cosine in the truth, l2 in the data)" in found("R16", dataset=other, truth=truth)[0].message
    )


def test_a_run_on_other_data_or_against_another_truth_is_told(cosine, data, truth):
    assert "measured on different data" in found("R16", run=cosine.run, dataset=data)[0].message
    assert "a different truth" in found("R16", run=cosine.run, truth=truth)[0].message
    assert not found("R16", evidence=cosine)


@pytest.mark.parametrize("metric", [Metric.IP, Metric.L2])
def test_a_truth_by_another_metric_is_told_by_its_order(data, truth, metric):
    other = anonymous(ground_truth(dataclasses.replace(data, metric=metric), depth=20).rows, data.corpus)
    (error,) = found("R17", dataset=data, truth=other)
    assert f"by {metric}" in error.message
    assert not found("R17", dataset=data, truth=anonymous(truth.rows, data.corpus))


def test_a_truth_of_half_the_rows_is_disproved(data, truth):
    rows = vectors(data.corpus)
    stale = anonymous(ground_truth(with_corpus(data, rows[:1_000]), depth=20).rows, data.corpus)
    (error,) = found("R18", dataset=data, truth=stale)
    assert error.measured > 100
    assert not found("R18", dataset=data, truth=anonymous(truth.rows, data.corpus))


def test_answers_disprove_a_truth_where_no_sampled_row_does(cosine):
    # The nearest neighbour of every query is left out, and all others are right.
    shallow = anonymous(cosine.truth.rows[:, 1:], cosine.dataset.corpus)
    silent = found("R18", dataset=cosine.dataset, truth=shallow)
    asked = found("R18", dataset=cosine.dataset, truth=shallow, run=cosine.run)
    assert asked[0].measured >= (silent[0].measured if silent else 0)
    assert asked[0].measured > 150


def test_a_truth_that_knows_nothing_of_the_filters_is_told():
    dataset = clustered(metadata={"size": np.arange(1_000)})
    filters = [parse_filter("size < 100")] * 200
    filtered = with_queries(dataset, vectors(dataset.queries), filters)
    unfiltered = anonymous(ground_truth(dataset, depth=10).rows, dataset.corpus)
    said = found("R18", dataset=filtered, truth=unfiltered)
    assert "200 queries list rows that their filter excludes" in said[0].message
    assert not found("R18", dataset=filtered, truth=ground_truth(filtered, depth=10))


def test_a_truth_that_was_filtered_after_the_search_is_disproved_by_its_short_lists():
    dataset = clustered(metadata={"size": np.arange(1_000) % 4})
    filtered = with_queries(dataset, vectors(dataset.queries), [parse_filter("size = 1")] * 200)
    unfiltered = ground_truth(dataset, depth=20).rows
    lists = [[row for row in line if row % 4 == 1] for line in unfiltered.tolist()]
    rows = np.asarray([line + [-1] * (20 - len(line)) for line in lists])
    (error,) = found("R18", dataset=filtered, truth=anonymous(rows, dataset.corpus))
    assert error.severity == "error"
    assert error.measured == sum(len(line) < 20 for line in lists)
    assert f"{len(lists[0])} for query 0, where the depth is 20 and 250 rows are eligible" in error.message


def test_short_lists_of_queries_with_few_eligible_rows_disprove_nothing():
    dataset = clustered(metadata={"size": np.arange(1_000)})
    filtered = with_queries(dataset, vectors(dataset.queries), [parse_filter("size < 7")] * 200)
    assert not found("R18", dataset=filtered, truth=anonymous(ground_truth(filtered).rows, dataset.corpus))


def test_a_shuffled_truth_is_disproved_by_its_order(data, truth):
    shuffled = np.random.default_rng(0).permuted(truth.rows, axis=1)
    (error,) = found("R18", dataset=data, truth=anonymous(shuffled, data.corpus))
    assert "neighbors out of order" in error.message
    assert error.measured > 140


def test_rows_beyond_the_corpus_and_rows_listed_twice_disprove_a_truth(data, truth):
    rows = truth.rows.copy()
    rows[3, -1] = data.corpus.rows
    (error,) = found("R18", dataset=data, truth=dataclasses.replace(truth, rows=rows))
    assert "1 query lists rows beyond the corpus of 2,000" in error.message
    rows[3, -1] = rows[3, -2]
    (error,) = found("R18", dataset=data, truth=dataclasses.replace(truth, rows=rows))
    assert "1 query lists a row twice" in error.message


def test_a_k_beyond_the_depth_of_the_truth_is_an_error(data, truth, cosine):
    shallow = anonymous(cosine.truth.rows[:, :5], cosine.dataset.corpus)
    (error,) = found("R16", truth=shallow, targets=("recall@10 >= 0.9",))
    assert error.message == "k = 10 exceeds the truth's depth of 5"
    assert error.severity == "error"
    assert not found("R16", truth=shallow, targets=("recall@5 >= 0.9",))


def test_copies_that_tie_disprove_nothing():
    dataset = clustered()
    tied = with_corpus(dataset, np.repeat(vectors(dataset.corpus)[:200], 5, axis=0) + np.float32(300))
    for metric in Metric:
        each = dataclasses.replace(tied, metric=metric)
        known = anonymous(ground_truth(each, depth=12).rows, each.corpus)
        assert not found("R18", dataset=each, truth=known)


def test_a_truth_from_another_tool_is_not_verified(data, truth):
    assert found("R19", truth=anonymous(truth.rows, data.corpus))[0].severity == "warning"
    assert not found("R19", truth=truth)


def test_inner_products_of_vectors_that_are_not_of_unit_length(data, unit):
    lengthy = dataclasses.replace(data, metric=Metric.IP)
    assert found("R20", dataset=lengthy)[0].measured > 0.9
    assert not found("R20", dataset=data)
    assert not found("R20", evidence=unit)


def test_an_index_by_another_metric_is_told_by_its_answers(data, truth, cosine):
    run = measure(by_product(data.corpus), data, truth=truth, at=(10, 20), rounds=1)
    (error,) = found("R21", evidence=Evidence(dataset=data, truth=truth, run=run))
    assert "by ip" in error.message
    assert error.measured > 0.05
    assert not found("R21", evidence=cosine)


def test_codes_that_reorder_answers_are_no_other_metric(euclidean, compressed):
    assert not found("R21", dataset=euclidean.dataset, run=compressed)
