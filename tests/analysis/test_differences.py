"""Differences with build variance, without pairing and of percentiles: coverage by simulation, and SciPy."""

import numpy as np
import pytest
from scipy import stats

from recallatk.analysis.build_variance import build_error, with_builds
from recallatk.analysis.comparison import compare, largest_sign_flip_p
from recallatk.analysis.distribution import mean_of_values
from recallatk.analysis.unpaired import percentile_difference, unpaired_difference


def built(random, difficulty, builds, spread, loss=0.0):
    """Recalls of builds of which each has a quality of its own, on the same queries."""
    quality = random.normal(0, spread, builds)[:, None]
    return random.binomial(10, np.clip(difficulty + quality - loss, 0, 1)) / 10


def judged(first, second, *, with_variance):
    found = compare({"a": first.mean(axis=0), "b": second.mean(axis=0)})[0]
    return with_builds(found, first, second) if with_variance else found


def test_false_alarms_stay_rare_where_builds_vary_and_are_frequent_without_their_variance():
    random = np.random.default_rng(0)
    alarms = {True: 0, False: 0}
    missed = 0
    for _ in range(200):
        difficulty = random.beta(20, 4, 200)
        first, second = (built(random, difficulty, 3, 0.02) for _ in range(2))
        for kind in alarms:
            found = judged(first, second, with_variance=kind)
            alarms[kind] += found.p_value < 0.05
            missed += kind and not found.low <= 0 <= found.high
    assert alarms[True] <= 0.05 * 200 + 2 * np.sqrt(200 * 0.05 * 0.95)
    assert missed <= 0.05 * 200 + 2 * np.sqrt(200 * 0.05 * 0.95)
    assert alarms[False] > 0.3 * 200


def test_builds_add_the_pooled_t_interval_of_their_means():
    random = np.random.default_rng(1)
    difficulty = random.beta(20, 4, 400)
    first, second = built(random, difficulty, 3, 0.02), built(random, difficulty, 4, 0.02, 0.1)
    means = first.mean(axis=1), second.mean(axis=1)
    error = build_error(*means)
    theirs = stats.ttest_ind(means[1], means[0])
    assert error.freedom == theirs.df
    assert (means[1].mean() - means[0].mean()) / error.size == pytest.approx(theirs.statistic)
    plain, wider = (judged(first, second, with_variance=kind) for kind in (False, True))
    margin = stats.t.ppf(0.975, error.freedom) * error.size
    assert wider.low == pytest.approx(wider.difference - np.hypot(plain.difference - plain.low, margin))
    assert wider.p_value >= plain.p_value
    assert build_error([0.5], [0.6]) is None
    same = np.repeat(first[:1], 3, axis=0)
    assert judged(same, same, with_variance=True) == judged(same, same, with_variance=False)


def test_hoeffding_bounds_the_exact_p_value_of_flipped_signs():
    random = np.random.default_rng(2)
    for n in (3, 6, 12):
        for _ in range(30):
            d = random.normal(0.5, 1, n)
            signs = 2 * (np.arange(2**n)[:, None] >> np.arange(n) & 1) - 1
            exact = min(1.0, 2 * np.mean(signs @ np.abs(d) >= abs(d.sum()) - 1e-12))
            assert largest_sign_flip_p(d) >= exact - 1e-12
    assert largest_sign_flip_p(np.zeros(5)) == 1.0


def test_unpaired_means_have_the_interval_of_welch():
    random = np.random.default_rng(3)
    one, other = random.binomial(10, 0.8, 500) / 10, random.binomial(10, 0.82, 300) / 10
    found = unpaired_difference(mean_of_values(one), mean_of_values(other))
    theirs = stats.ttest_ind(other, one, equal_var=False)
    ends = theirs.confidence_interval()
    assert [found.low, found.high] == pytest.approx([ends.low, ends.high], abs=0.001)
    assert found.p_value == pytest.approx(theirs.pvalue, abs=0.01)


def test_a_percentile_has_the_interval_of_the_paired_bootstrap():
    random = np.random.default_rng(4)
    difficulty = random.beta(8, 2, 600)
    one, other = (random.normal(difficulty - loss, 0.05) for loss in (0.0, 0.1))
    found = percentile_difference(one, other, 0.05)
    quantiles = [np.quantile(each, 0.05, method="inverted_cdf") for each in (one, other)]
    assert found.difference == pytest.approx(quantiles[1] - quantiles[0])

    def differing(first, second, axis=-1):
        ends = [np.quantile(each, 0.05, axis=axis, method="inverted_cdf") for each in (first, second)]
        return ends[1] - ends[0]

    theirs = stats.bootstrap(
        (one, other),
        differing,
        paired=True,
        method="percentile",
        n_resamples=1999,
        rng=np.random.default_rng(0),
    ).confidence_interval
    assert [found.low, found.high] == pytest.approx([theirs.low, theirs.high], abs=0.015)
    assert found.p_value < 0.05
    assert percentile_difference(one[:20], other[:20], 0.05).low is None
    assert percentile_difference(one, one, 0.05).p_value == 1.0
