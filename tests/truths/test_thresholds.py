"""Guessed thresholds: hardly ever too high, and where they are, the truth is the same."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import hypergeom

from recallatk import make_corpus, make_queries, open_dataset
from recallatk.core import Metric
from recallatk.truths import ground_truth, scanner_blas, thresholds
from recallatk.truths.search import ExactSearch
from recallatk.truths.thresholds import guessed_rank


@given(st.integers(1, 2000), st.integers(1, 10**6), st.data())
def test_a_guess_is_too_high_once_in_ten_million(k, rows, data):
    rows = max(rows, k)
    seen = data.draw(st.integers(1, rows))
    rank = guessed_rank(k, seen / rows)
    assert 1 <= rank <= k
    if rank < k:
        assert hypergeom.sf(rank - 1, rows, k, seen) <= 1e-7


@given(st.integers(1, 500), st.floats(1e-6, 1), st.floats(1, 10))
def test_more_rows_allow_a_higher_share_of_them_no_less(k, share, more):
    assert guessed_rank(k, share) <= guessed_rank(k, min(1.0, share * more))


def test_a_small_part_stands_for_all():
    assert guessed_rank(101, 0.02) < 20
    assert guessed_rank(101, 1.0) == 101
    assert guessed_rank(1, 1e-9) == 1


@pytest.fixture
def sweeps(monkeypatch):
    """Small tiles, and what became of the queries in each sweep: (stage, queries, missed)."""
    monkeypatch.setattr(scanner_blas, "_TILE_ROWS", 32)
    done = []
    original = ExactSearch._conclude

    def conclude(self, stage, group, candidates):
        done.append((stage, len(group), int(candidates.missed.sum())))
        original(self, stage, group, candidates)

    monkeypatch.setattr(ExactSearch, "_conclude", conclude)
    return done


def data(metric, order="mixed"):
    random = np.random.default_rng(1)
    corpus = random.standard_normal((4000, 8)).astype("float32")
    if order == "sorted":
        corpus = corpus[np.argsort(corpus[:, 0])]
    queries = np.concatenate([random.standard_normal((20, 8)), np.eye(8)[:1]]).astype("float32")
    return open_dataset(make_corpus(corpus), make_queries(queries), metric=metric)


def bits(truth):
    certificate = truth.certificate
    parts = (truth.rows, truth.scores, truth.tied, certificate.decided, certificate.bounds)
    return [part.tobytes() for part in (*parts, certificate.next_rows, certificate.next_scores)]


@pytest.mark.parametrize("order", ["mixed", "sorted"])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("metric", list(Metric))
def test_no_guess_is_too_high_whatever_the_order_of_the_rows(sweeps, metric, threads, order):
    ground_truth(data(metric, order), depth=20, threads=threads)
    assert sweeps == [(0, 21, 0)]


@pytest.mark.parametrize("backend", ["blas", "faiss"])
@pytest.mark.parametrize("metric", list(Metric))
def test_queries_whose_guess_was_too_high_are_done_again(sweeps, monkeypatch, metric, backend):
    wanted = ground_truth(data(metric), depth=20, block_bytes=1 << 14)
    sweeps.clear()
    # So careless that a guess is a matter of chance.
    monkeypatch.setattr(thresholds, "_TOO_HIGH", 0.9)
    found = ground_truth(data(metric), depth=20, backend=backend)
    assert bits(found) == bits(wanted)
    if backend == "blas":
        (first, again) = sweeps
        assert first[:2] == (0, 21)
        assert 0 < first[2] == again[1]
        assert again[::2] == (1, 0)


def test_rows_that_all_tie_make_no_guess_too_high(sweeps):
    corpus = np.repeat(np.eye(4, dtype="float32"), 100, axis=0)
    dataset = open_dataset(make_corpus(corpus), make_queries(np.eye(4, dtype="float32")), metric="cosine")
    truth = ground_truth(dataset, depth=10)
    assert truth.tie_counts.tolist() == [90] * 4
    assert [missed for *_, missed in sweeps] == [0] * len(sweeps)
