"""Differences of two samples against plain definitions, and p values that chance alone spreads evenly."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest
from sklearn.metrics import roc_auc_score

from examples import examples
from recallatk.analysis.classifier import held_out_auc, told_apart
from recallatk.analysis.two_samples import (
    Pool,
    copies,
    difference_of_means,
    discrepancy,
    log_ratio_of_means,
    log_ratio_of_medians,
    mean_distance,
    variation,
)

SIZES = st.integers(3, 12)


def observed(statistic, first, second):
    return statistic(*Pool(first, second).observed)[0]


@examples(30)
@given(SIZES, SIZES, st.integers(0, 1000))
def test_statistics_are_those_of_the_samples(first, second, seed):
    random = np.random.default_rng(seed)
    values, vectors = random.lognormal(size=first + second), random.normal(size=(first + second, 3))
    one, two = values[:first], values[first:]
    assert observed(log_ratio_of_means(values), first, second) == pytest.approx(
        np.log(two.mean() / one.mean())
    )
    assert observed(difference_of_means(values), first, second) == pytest.approx(two.mean() - one.mean())
    medians = [np.sort(each)[(len(each) - 1) // 2] for each in (one, two)]
    assert observed(log_ratio_of_medians(values), first, second) == pytest.approx(
        np.log(medians[1] / medians[0])
    )
    spread = np.sqrt(np.square(vectors - vectors.mean(axis=0)).sum(axis=1).mean())
    apart = np.linalg.norm(vectors[first:].mean(axis=0) - vectors[:first].mean(axis=0))
    assert observed(mean_distance(vectors), first, second) == pytest.approx(apart / spread, rel=1e-4)


def test_the_discrepancy_is_that_of_its_kernel():
    vectors = np.random.default_rng(0).normal(size=(30, 5))
    apart = np.square(vectors[:, None] - vectors).sum(axis=2)
    kernel = np.exp(-apart / np.median(apart[np.triu_indices(30, 1)]))
    one, two, both = kernel[:10, :10].mean(), kernel[10:, 10:].mean(), kernel[:10, 10:].mean()
    expected = np.sqrt(one + two - 2 * both)
    assert observed(discrepancy(vectors), 10, 20) == pytest.approx(expected, rel=1e-4)


def test_the_variation_of_two_mixes_is_the_share_that_moved():
    labels = np.array([0] * 8 + [1] * 2 + [0] * 5 + [1] * 5)
    assert observed(variation(labels, 2), 10, 10) == pytest.approx(0.3)


@pytest.mark.parametrize(
    "draw",
    [
        lambda random, pool: pool.ratio(log_ratio_of_medians(random.lognormal(size=80))),
        lambda random, pool: pool.distance(mean_distance(random.normal(size=(80, 4)))),
        lambda random, pool: pool.distance(discrepancy(random.normal(size=(80, 4)))),
        lambda random, pool: pool.distance(variation(random.integers(0, 4, 80), 4)),
        lambda random, pool: copies(random.integers(0, 99, 40), random.integers(0, 99, 40)),
        lambda random, pool: told_apart(random.normal(size=(40, 3)), random.normal(size=(40, 3))),
    ],
    ids=["ratio", "center", "mmd", "mix", "copies", "classifier"],
)
def test_chance_alone_is_rarely_called_a_difference(draw):
    random, pool = np.random.default_rng(1), Pool(40, 40)
    low = sum(draw(random, pool).p <= 0.1 for _ in range(100))
    assert binomtest(low, 100, 0.1, alternative="greater").pvalue > 0.001


def test_a_real_difference_has_the_least_p_and_an_interval_that_holds_it():
    random, pool = np.random.default_rng(0), Pool(200, 200)
    values = np.concatenate([random.lognormal(0, 0.2, 200), random.lognormal(0.3, 0.2, 200)])
    found = pool.ratio(log_ratio_of_means(values))
    assert found.p == 0.001 and found.low < np.exp(0.3) < found.high
    vectors = random.normal(size=(400, 8))
    vectors[200:, 0] += 2
    found = pool.distance(mean_distance(vectors))
    assert found.p == 0.001 and found.low <= found.number <= found.high
    assert found.number == pytest.approx(2 / np.sqrt(9), rel=0.15)


def test_intervals_of_a_distance_hold_it_about_as_often_as_they_say():
    random, held = np.random.default_rng(3), 0
    for _ in range(60):
        vectors = random.normal(size=(240, 6))
        vectors[120:, 0] += 1
        found = Pool(120, 120).distance(mean_distance(vectors))
        held += found.low <= 1 / np.sqrt(6.25) <= found.high
    assert held >= 50


def test_copies_are_counted_as_a_loop_counts_them():
    first, second = np.array([1, 2, 2, 3, 4, 5]), np.array([7, 7, 7, 8, 8, 9])
    found = copies(first, second)
    assert found.number == pytest.approx(5 / 6 - 2 / 6) and found.low < found.number < found.high
    assert copies(np.arange(50), np.arange(50)).p == 1.0


def test_the_classifier_ranks_held_out_vectors():
    random = np.random.default_rng(0)
    first, second = random.normal(size=(200, 5)), random.normal(size=(200, 5))
    second[:, 0] += 1.5
    found = told_apart(first, second)
    # The first coordinate alone is the best classifier there is.
    best = roc_auc_score([0] * 200 + [1] * 200, np.concatenate([first[:, 0], second[:, 0]]))
    assert found.auc == pytest.approx(best, abs=0.03) and found.low < best < found.high and found.p < 1e-6
    assert held_out_auc(first, second) == found.auc
