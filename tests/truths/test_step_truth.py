"""The truth of a changing corpus equals a computation from scratch at every step, to the last bit."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recallatk import make_corpus, make_queries, open_dataset
from recallatk.errors import UsageError
from recallatk.truths import ground_truth
from recallatk.truths.step_truth import StepTruth

ROWS, QUERIES = 300, 12


def vectors(seed, rows, *, distinct=None):
    """Random vectors; with `distinct`, that number of rows in copies, which tie."""
    random = np.random.default_rng(seed)
    made = random.normal(size=(distinct or rows, 6)).astype("float32")
    return made if distinct is None else made[random.integers(0, distinct, rows)]


def content(truth, rows=None):
    """Everything that a truth proves, with the rows of a part of the corpus as those of all of it."""

    def named(array):
        return array if rows is None else np.where(array >= 0, rows[array], -1)

    proof = truth.certificate
    return [
        *(each.tobytes() for each in (truth.scores, truth.tied, truth.tie_counts, truth.eligible)),
        *(each.tobytes() for each in (proof.decided, proof.bounds, proof.next_scores)),
        named(truth.rows).tolist(),
        named(proof.next_rows).tolist(),
        truth.overflow[0].tolist(),
        named(truth.overflow[1]).tolist(),
    ]


def from_scratch(corpus, queries, live, metric, depth):
    rows = np.flatnonzero(live)
    part = open_dataset(make_corpus(corpus[rows]), make_queries(queries), metric=metric)
    return content(ground_truth(part, depth=depth), rows)


@pytest.mark.parametrize("metric", ["cosine", "ip", "l2"])
@pytest.mark.parametrize("distinct", [None, 40], ids=["distinct", "copies"])
@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), depth=st.sampled_from([1, 10, 400]))
def test_it_equals_a_full_computation_at_every_step(metric, distinct, seed, depth):
    random = np.random.default_rng(seed)
    corpus, queries = vectors(seed, ROWS, distinct=distinct), vectors(seed + 1, QUERIES)
    steps = StepTruth(open_dataset(corpus, queries, metric=metric), depth, threads=1)
    live = np.zeros(ROWS, bool)
    for _ in range(6):
        # From a few rows to most of them, so that some lists run empty and others grow long.
        dead = np.flatnonzero(~live)
        new = random.choice(dead, random.integers(0, len(dead) + 1), replace=False)
        there = np.flatnonzero(live)
        gone = random.choice(there, random.integers(0, len(there) + 1), replace=False)
        steps.insert(new)
        steps.delete(gone)
        live[new], live[gone] = True, False
        if live.any():
            assert content(steps.truth()) == from_scratch(corpus, queries, live, metric, depth)


def test_few_changes_need_no_scan():
    random = np.random.default_rng(0)
    corpus, queries = vectors(0, 2_000), vectors(1, QUERIES)
    steps = StepTruth(open_dataset(corpus, queries, metric="cosine"), 10, threads=1)
    steps.insert(np.arange(1_800))
    steps.truth()
    for first in range(1_800, 2_000, 20):
        steps.insert(np.arange(first, first + 20))
        steps.delete(random.choice(np.flatnonzero(steps.live), 20, replace=False))
        steps.truth()
    assert steps.scanned_queries == QUERIES


def test_rows_that_come_back_are_found_again():
    corpus, queries = vectors(0, ROWS), vectors(1, QUERIES)
    steps = StepTruth(open_dataset(corpus, queries, metric="l2"), 5)
    steps.insert(np.arange(ROWS))
    before = steps.truth()
    steps.delete(np.unique(before.rows))
    assert not np.isin(steps.truth().rows, before.rows).any()
    steps.insert(np.unique(before.rows))
    assert content(steps.truth()) == content(before)


def test_a_corpus_without_live_rows_has_no_truth():
    steps = StepTruth(open_dataset(vectors(0, 5), vectors(1, 2), metric="l2"), 1)
    with pytest.raises(UsageError, match="no row is live"):
        steps.truth()


def test_filters_are_refused():
    with pytest.raises(UsageError, match="without filters"):
        StepTruth(open_dataset(vectors(0, 5), vectors(1, 2), metric="l2", where="row >= 0"), 1)
