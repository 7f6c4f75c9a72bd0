"""Rules about queries and corpus: each on data that has the fault, and on data that does not."""

from dataclasses import replace

import numpy as np
import pytest
from faults import clustered, embedded, found, points, vectors, with_corpus, with_queries

from recallatk import (
    ground_truth,
    make_corpus,
    make_queries,
    measure,
    open_dataset,
    parse_filter,
    queries_from_corpus,
    sample_corpus,
)
from recallatk.datasets import sampled
from recallatk.linter import Evidence


def test_few_queries_are_an_error_with_the_number_that_is_needed(few):
    (error,) = found("R01", evidence=few)
    assert (error.severity, error.measured, error.threshold) == ("error", 30, 100)
    assert "make it ±0.01" in error.message


def test_the_number_that_is_needed_follows_from_the_interval_that_is_shown():
    """Weights make an interval wider than the values alone would."""
    run = measure("exact", clustered(rows=200, queries=60), at=(10,), rounds=1)
    (one,) = run.measurements
    mean = replace(one.score.measures["recall@10"], value=0.9, low=0.6, high=1.0)
    values = {"recall@10": np.tile([0.8, 1.0], 30)}
    changed = replace(one, score=replace(one.score, measures={"recall@10": mean}, per_query=values))
    (error,) = found("R01", run=replace(run, measurements=(changed,)))
    # 60 queries for ±0.2 are 60 × 20² for ±0.01.
    assert "±0.200; about 24," in error.message


def test_queries_without_any_spread_do_not_tell_how_many_are_needed():
    run = measure("exact", clustered(rows=200, queries=60), at=(10,), rounds=1)
    (error,) = found("R01", run=run)
    assert "known only to ±" in error.message and "about" not in error.message


def test_few_queries_are_said_before_anything_is_measured():
    assert found("R01", dataset=clustered(queries=99))[0].measured == 99
    assert not found("R01", dataset=clustered(queries=100))


def test_a_wide_interval_is_a_warning_and_says_how_many_queries_make_it_narrow(compressed):
    (warning,) = found("R01", run=compressed)
    assert warning.severity == "warning"
    assert warning.threshold == 0.01 < warning.measured < 0.05
    needed = int(warning.message.partition("about ")[2].partition(" ")[0].replace(",", ""))
    queries = compressed.measurements[0].score.queries
    assert needed == pytest.approx(queries * (warning.measured / 0.01) ** 2, rel=0.2)


def test_a_narrow_interval_is_no_finding(exact):
    assert not found("R01", run=exact)


@pytest.mark.parametrize(("share", "severity"), [(0.0, None), (0.05, "warning"), (0.5, "error")])
def test_queries_that_are_corpus_rows(share, severity):
    dataset = clustered()
    asked = vectors(dataset.queries)
    copies = int(share * len(asked))
    asked[:copies] = vectors(dataset.corpus)[:copies]
    said = found("R02", dataset=with_queries(dataset, asked))
    assert [each.severity for each in said] == ([severity] if severity else [])
    assert [each.measured for each in said] == ([share] if severity else [])


def test_queries_that_leave_their_own_row_out_are_no_fault():
    corpus = clustered().corpus
    dataset = open_dataset(corpus, queries_from_corpus(corpus, 100), metric="l2")
    assert not found("R02", dataset=dataset)


def test_a_query_is_found_in_a_corpus_of_another_type_only_where_it_is_the_same():
    corpus = np.random.default_rng(0).integers(0, 255, (300, 8)).astype(np.uint8)
    same, other = corpus[:100].astype(np.float32), corpus[:100] + np.float32(0.25)
    assert found("R02", dataset=open_dataset(make_corpus(corpus), make_queries(same), metric="l2"))
    assert not found("R02", dataset=open_dataset(make_corpus(corpus), make_queries(other), metric="l2"))


@pytest.mark.parametrize(("copies", "severity"), [(0, None), (8, "warning"), (400, "error")])
def test_copies_of_rows(copies, severity):
    dataset = clustered()
    rows = vectors(dataset.corpus)
    rows[len(rows) - copies :] = rows[:copies]
    said = found("R03", dataset=with_corpus(dataset, rows))
    assert [each.severity for each in said] == ([severity] if severity else [])
    if said:
        assert said[0].measured == pytest.approx(2 * copies / len(rows))


def test_one_large_group_of_copies_is_said_however_small_its_share():
    dataset = clustered(rows=4_000)
    rows = vectors(dataset.corpus)
    rows[:12] = rows[0]
    (warning,) = found("R03", dataset=with_corpus(dataset, rows))
    assert (warning.severity, warning.measured, warning.threshold) == ("warning", 12, 10)


def test_queries_that_are_asked_again():
    dataset = clustered()
    asked = vectors(dataset.queries)
    asked[:10] = asked[10:20]
    assert found("R04", dataset=with_queries(dataset, asked))[0].measured == 0.1
    assert not found("R04", dataset=dataset)


def test_the_same_vector_under_another_filter_is_another_query():
    dataset = clustered(metadata={"size": np.arange(1_000)})
    asked = np.repeat(vectors(dataset.queries)[:100], 2, axis=0)
    filters = [parse_filter("size < 50"), parse_filter("size < 500")] * 100
    assert not found("R04", dataset=with_queries(dataset, asked, filters))
    assert found("R04", dataset=with_queries(dataset, asked, filters[:1] * 200))


def test_ties_at_the_boundary():
    dataset = clustered()
    rows = vectors(dataset.corpus)
    tied = with_corpus(dataset, np.repeat(rows[:150], 7, axis=0))
    (warning,) = found("R05", truth=ground_truth(tied, depth=12))
    assert warning.measured == 1.0
    assert not found("R05", truth=ground_truth(dataset, depth=12))


def test_ties_beyond_the_depth_of_a_truth_count_too():
    tied = with_corpus(clustered(), np.repeat(vectors(clustered().corpus)[:100], 7, axis=0))
    assert found("R05", truth=ground_truth(tied, depth=10))


@pytest.fixture(scope="module")
def data():
    return embedded("cosine", rows=3_000, queries=400)


def production(kind, count=400):
    """Queries that users ask of `data`: the same clusters, or something else."""
    drawn = points(3_000 + 400 + count, 24, 0)[3_400:]
    random = np.random.default_rng(3)
    if kind == "shifted":
        drawn = drawn + np.float32(1.5) * np.linalg.norm(drawn, axis=1, keepdims=True) / 24**0.5
    if kind == "noisy":
        unit = drawn / np.linalg.norm(drawn, axis=1, keepdims=True)
        drawn = unit + random.normal(size=drawn.shape).astype(np.float32) * 0.6
    return make_queries(drawn.astype(np.float32))


def test_queries_as_production_asks_them_are_no_fault(data):
    for code in ("R06", "R07", "R08", "R09"):
        assert not found(code, dataset=data, production=production("same"))


def test_queries_from_elsewhere_are_told_by_a_classifier(data):
    (error,) = found("R06", dataset=data, production=production("shifted"))
    assert error.severity == "error"
    assert 0.7 < error.measured <= 1.0


def test_queries_that_are_too_clean_lie_too_near(data):
    rows = vectors(data.corpus)[:300]
    clean = rows + np.float32(0.02) * np.random.default_rng(1).normal(size=rows.shape).astype(np.float32)
    (error,) = found("R07", dataset=with_queries(data, clean), production=production("same"))
    assert error.measured < 0.67


def test_another_hardness_than_production_has(data):
    assert found("R08", dataset=data, production=production("noisy"))[0].measured > 0.2


def test_production_of_another_dimension_is_of_another_model(data):
    other = make_queries(np.ones((50, 3), np.float32))
    (error,) = found("R06", dataset=data, production=other)
    assert (error.severity, error.measured, error.threshold) == ("error", 3, 24)
    for code in ("R07", "R08"):
        assert not found(code, dataset=data, production=other)


def test_few_queries_of_production_are_said_to_be_too_few(data):
    assert found("R06", dataset=data, production=production("shifted", count=99))[0].severity == "note"
    assert not found("R08", dataset=data, production=production("noisy", count=99))


def test_inner_products_have_no_distances_to_compare():
    dataset = embedded("ip", rows=500, queries=100)
    assert not found("R07", dataset=dataset, production=production("noisy"))


def test_filters_that_only_production_has():
    dataset = clustered(metadata={"size": np.arange(1_000)})
    asked, condition = vectors(dataset.queries), parse_filter("size < 10")
    users = make_queries(asked, filters=[condition] * 100 + [None] * 100)
    (error,) = found("R09", dataset=dataset, production=users)
    assert (error.severity, error.measured) == ("error", 0.0)
    some = with_queries(dataset, asked, [condition] * 20 + [None] * 180)
    assert found("R09", dataset=some, production=users)[0].severity == "warning"
    assert not found("R09", dataset=with_queries(dataset, asked, [condition] * 200), production=users)


def test_filters_that_let_most_rows_pass():
    dataset = clustered(metadata={"size": np.arange(1_000)})
    asked = vectors(dataset.queries)
    wide = with_queries(dataset, asked, [parse_filter("size < 500")] * 200)
    assert found("R10", dataset=wide)[0].measured == 0.5
    both = [parse_filter("size < 500")] * 190 + [parse_filter("size < 10")] * 10
    assert not found("R10", dataset=with_queries(dataset, asked, both))
    assert not found("R10", dataset=dataset)


def test_one_tenant_with_most_of_the_queries():
    dataset = clustered(metadata={"tenant": np.arange(1_000) % 10})
    asked = vectors(dataset.queries)
    large, small = (parse_filter(f"tenant = {number}") for number in (1, 2))
    (warning,) = found("R39", dataset=with_queries(dataset, asked, [large] * 150 + [small] * 50))
    assert warning.measured == 0.75
    assert "tenant = 1" in warning.message
    # One filter for all is a part of the corpus and no mixture; half is not most.
    assert not found("R39", dataset=with_queries(dataset, asked, [large] * 200))
    assert not found("R39", dataset=with_queries(dataset, asked, [large] * 100 + [small] * 100))
    assert not found("R39", dataset=with_queries(dataset, asked, [None] * 180 + [large] * 10 + [small] * 10))


def test_one_k_is_noted(few, cosine):
    assert found("R11", evidence=few)[0].severity == "note"
    assert not found("R11", evidence=cosine)


def test_random_vectors_have_no_contrast(clean):
    random = np.random.default_rng(0)
    dataset = open_dataset(
        make_corpus(random.normal(size=(1_500, 512)).astype(np.float32)),
        make_queries(random.normal(size=(100, 512)).astype(np.float32)),
        metric="l2",
    )
    (warning,) = found("R12", dataset=dataset, truth=ground_truth(dataset, depth=10))
    assert 1.0 < warning.measured < 1.2
    for each in clean:
        assert not found("R12", evidence=each)


def test_the_contrast_of_few_rows_or_under_narrow_filters_says_nothing():
    few = clustered(rows=50, metadata={"size": np.arange(50)})
    assert not found("R12", dataset=few, truth=ground_truth(few, depth=20))
    dataset = clustered(rows=2_000, metadata={"size": np.arange(2_000)})
    narrow = with_queries(dataset, vectors(dataset.queries), [parse_filter("size < 20")] * 200)
    assert not found("R12", dataset=narrow, truth=ground_truth(narrow, depth=20))


def test_a_sample_of_the_corpus(cosine):
    sample = sampled(cosine.dataset, 500)
    (warning,) = found("R13", dataset=sample)
    assert (warning.measured, warning.threshold) == (500, 4_000)
    assert not found("R13", evidence=cosine)


def test_rows_in_the_order_of_their_clusters(cosine):
    dataset = clustered()
    rows = vectors(dataset.corpus)
    nearest = np.argmin(np.linalg.norm(rows[:, None] - rows[None, :40], axis=2), axis=1)
    (note,) = found("R14", dataset=with_corpus(dataset, rows[np.argsort(nearest, kind="stable")]))
    assert note.severity == "note"
    assert note.measured < 0.9
    assert not found("R14", evidence=Evidence(dataset=cosine.dataset))


def test_gaps_that_float32_cannot_see(clean):
    dataset = clustered()
    far = [vectors(each).astype(np.float64) + 50_000 for each in (dataset.corpus, dataset.queries)]
    moved = open_dataset(make_corpus(far[0]), make_queries(far[1]), metric="l2")
    (warning,) = found("R15", dataset=moved, truth=ground_truth(moved, depth=20))
    assert warning.measured > 1
    for each in clean:
        assert not found("R15", evidence=each)


def test_a_corpus_with_far_fewer_rows_than_queries_looks_swapped():
    small = clustered(rows=40, queries=400)
    (warning,) = found("R35", dataset=small)
    assert warning.severity == "warning"
    assert warning.measured == 10
    assert "40 rows and there are 400 queries. Are corpus and queries swapped?" in warning.message
    assert not found("R35", dataset=clustered(rows=41, queries=400))
    part = sample_corpus(clustered(rows=400, queries=400).corpus, 40)
    assert not found("R35", dataset=open_dataset(part, small.queries, metric="l2"))
