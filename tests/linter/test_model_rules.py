"""Rules about embedding models: by label, and by geometry where there are no labels."""

import dataclasses

import numpy as np
import pytest
from faults import clustered, found, vectors, with_corpus, with_queries

from recallatk import ground_truth, make_corpus, make_queries, open_dataset, open_demo
from recallatk.analysis.separation import separation


def labelled(**labels):
    random = np.random.default_rng(0)
    corpus = make_corpus(random.normal(size=(20, 4)), metadata={"maker": ["a"] * 15 + ["b"] * 5})
    queries = make_queries(random.normal(size=(5, 4)), metadata={"maker": ["a"] * 5})
    return open_dataset(corpus, queries, metric="l2", **labels)


def test_two_models_in_the_corpus_are_an_error():
    (error,) = found("R36", dataset=labelled(model_column="maker"))
    assert (error.severity, error.measured) == ("error", 2)
    assert error.message == "2 models in the corpus: a, b"
    assert not found("R36", dataset=labelled(model="a"))
    assert not found("R36", dataset=labelled())


def test_different_models_in_corpus_and_queries_are_a_warning():
    (warning,) = found("R36", dataset=labelled(model="doc-encoder", query_model="query-encoder"))
    assert warning.severity == "warning"
    assert "the corpus is of doc-encoder, the queries of query-encoder" in warning.message


def test_a_column_that_is_named_like_a_model_needs_no_label():
    corpus = make_corpus(np.eye(4), metadata={"Embedding_Model": ["x", "y", None, "x"], "model": [*"abcd"]})
    dataset = open_dataset(corpus, make_queries(np.eye(4)), metric="l2")
    (error,) = found("R36", dataset=dataset)
    assert "x, y" in error.message


def test_a_truth_of_another_model_is_named():
    dataset = labelled(model="new")
    truth = dataclasses.replace(ground_truth(dataset, depth=2), models={"corpus": ("old",)})
    (error,) = found("R36", dataset=dataset, truth=truth)
    assert "the truth records another model" in error.message
    assert "old there, new here" in error.message


@pytest.fixture(scope="module")
def rows():
    """2,000 rows from all over the demo corpus, of one model."""
    corpus = open_demo().corpus
    return np.array(corpus.vectors.read(0, corpus.rows), np.float64)[:: corpus.rows // 2_000]


def rotated(rows, share, seed=0):
    """The rows with some of them in a space of their own."""
    random = np.random.default_rng(seed)
    other = np.linalg.qr(random.normal(size=(rows.shape[1],) * 2))[0]
    mixed, chosen = rows.copy(), random.permutation(len(rows))[: int(share * len(rows))]
    mixed[chosen] = mixed[chosen] @ other
    return mixed


@pytest.mark.parametrize("share", [0.1, 0.5])
def test_two_spaces_in_one_column_are_found(rows, share):
    alone, mixed = separation(rows), separation(rotated(rows, share))
    assert not alone.unrelated
    assert alone.leaving > 0.05
    assert mixed.unrelated
    assert mixed.smaller == pytest.approx(share, abs=0.01)


def test_mixed_rows_are_a_warning_unless_the_model_is_stated(rows):
    demo = open_demo()
    mixed = with_corpus(demo, rotated(rows, 0.3))
    (warning,) = found("R37", dataset=mixed)
    assert warning.severity == "warning"
    assert warning.message.startswith("corpus: 30% of the vectors")
    assert not found("R37", dataset=open_dataset(mixed, model="minilm"))
    (warning,) = found("R37", dataset=with_queries(demo, rotated(vectors(demo.queries), 0.5)))
    assert warning.message.startswith("queries: 50% of the vectors")


def test_one_model_gives_no_warning():
    assert not found("R37", dataset=open_demo())
    assert not found("R37", dataset=clustered())


def test_two_topics_of_one_model_are_no_two_models():
    topics = separation(open_demo().corpus.vectors.read(0, 2_000))
    assert topics.leaving < 0.04
    assert not topics.unrelated


@pytest.mark.parametrize("clusters", [2, 3])
@pytest.mark.parametrize("dimension", [8, 32, 128])
def test_round_clusters_are_no_two_models(clusters, dimension):
    for seed in range(4):
        random = np.random.default_rng([seed, clusters, dimension])
        centers = random.normal(size=(clusters, dimension)) * 3
        label = random.integers(0, clusters, 900)
        found = separation(centers[label] + random.normal(size=(900, dimension)))
        assert found is None or not found.unrelated
        # Their variances differ by chance, as those of unrelated models would.
        assert found is None or (found.leaving < 0.04 and found.alike == 1.0)


@pytest.mark.parametrize("seed", range(3))
def test_random_and_clustered_vectors_are_no_two_models(seed):
    random = np.random.default_rng(seed)
    plain = random.normal(size=(800, 32))
    assert separation(plain).leaving > 0.1
    centers = random.normal(size=(12, 32)) * 3
    assert separation(plain + centers[random.integers(0, 12, 800)]) is None
    assert separation(plain[:499]) is None
    # Copies of one row are no part of their own.
    copies = np.concatenate([plain, np.tile(plain[:1], (200, 1))])
    assert separation(copies).leaving > 0.1
