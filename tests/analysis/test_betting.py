"""Bounds and tests by betting: right as often as they say, on whatever they are given."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from recallatk.analysis.betting import (
    SequentialTest,
    SequentialVerdict,
    is_at_least,
    lower_bound,
    upper_bound,
)
from recallatk.errors import UsageError

shares_of_one = st.lists(st.floats(0, 1), min_size=0, max_size=60).map(np.array)
recalls = st.lists(st.integers(0, 10).map(lambda hits: hits / 10), min_size=0, max_size=600).map(np.array)


def beta_binomial(random, mean, correlation, shape, k=10):
    both = (1 - correlation) / correlation
    return random.binomial(k, random.beta(mean * both, (1 - mean) * both, shape)) / k


# The expected number of wrong ones is at most 5 %; three standard errors of so many tries are on top.
def most_of(tries):
    return 0.05 + 3 * math.sqrt(0.05 * 0.95 / tries)


@pytest.mark.parametrize(
    ("mean", "correlation", "n"), [(0.95, 0.23, 100), (0.95, 0.23, 1000), (0.5, 0.3, 300), (0.99, 0.6, 300)]
)
def test_the_bounds_are_rarely_wrong(mean, correlation, n):
    samples = beta_binomial(np.random.default_rng(5), mean, correlation, (300, n))
    assert np.mean([lower_bound(values) > mean for values in samples]) <= most_of(300)
    assert np.mean([upper_bound(values) < mean for values in samples]) <= most_of(300)


@pytest.mark.parametrize("n", [500, 1999, 2000, 2001])
def test_no_sample_size_has_an_unlucky_order(n):
    samples = beta_binomial(np.random.default_rng(9), 0.8, 0.02, (150, n))
    assert np.mean([lower_bound(values) > 0.8 for values in samples]) <= most_of(150)
    assert len({lower_bound(samples[0], seed=seed) for seed in range(5)}) > 1


def test_the_bound_is_close_for_recalls_near_one():
    samples = beta_binomial(np.random.default_rng(6), 0.95, 0.226, (40, 1000))
    assert samples.std() == pytest.approx(0.12, abs=0.003)
    assert 0.006 < np.mean([values.mean() - lower_bound(values) for values in samples]) < 0.010


def test_ones_alone_come_close_to_what_any_bound_allows():
    best = 0.05 ** (1 / 200)
    assert best - 0.003 < lower_bound(np.ones(200)) < best
    assert lower_bound(np.zeros(200)) == 0.0
    assert upper_bound(np.zeros(200)) == pytest.approx(1 - lower_bound(np.ones(200)))


@settings(deadline=None)
@given(shares_of_one, st.randoms(), st.floats(0.5, 0.999))
def test_bounds_are_from_0_to_1_and_do_not_depend_on_the_order_of_the_file(values, random, confidence):
    low, high = lower_bound(values, confidence), upper_bound(values, confidence)
    assert 0 <= low <= 1
    assert 0 <= high <= 1
    shuffled = values.tolist()
    random.shuffle(shuffled)
    assert lower_bound(np.array(shuffled), confidence) == low


def test_no_values_bound_nothing():
    assert lower_bound(np.empty(0)) == 0.0
    assert upper_bound(np.empty(0)) == 1.0


@examples(60)
@given(recalls, st.floats(0.05, 0.99), st.lists(st.integers(1, 400), max_size=12))
def test_batches_change_nothing(values, target, cuts):
    def taken(parts):
        test = SequentialTest(target)
        for part in parts:
            test.update(part)
        return test.verdict, test.used, test.capital_for, test.capital_against

    whole = taken([values])
    assert taken(values) == whole
    assert taken(np.split(values, sorted(cut for cut in cuts if cut < len(values)))) == whole


@examples(60)
@given(recalls, st.floats(0.05, 0.95))
def test_fail_is_the_mirror_image_of_pass(values, target):
    mirrored = {
        SequentialVerdict.PASS: SequentialVerdict.FAIL,
        SequentialVerdict.FAIL: SequentialVerdict.PASS,
        SequentialVerdict.UNDECIDED: SequentialVerdict.UNDECIDED,
    }
    # Multiples of 1/8 have exact complements.
    values, target = np.round(values * 8) / 8, max(1, round(target * 8)) / 8
    if target < 1:
        one, other = is_at_least(values, target), is_at_least(1 - values, 1 - target)
        assert (mirrored[one.verdict], one.used) == (other.verdict, other.used)


def test_the_first_decision_stays_and_says_what_it_took():
    test = SequentialTest(0.5)
    assert test.verdict is SequentialVerdict.UNDECIDED
    assert test.capital_for == test.capital_against == 1.0
    assert test.update(np.ones(5)) is SequentialVerdict.UNDECIDED
    assert test.used == 5
    assert test.update(np.ones(500)) is SequentialVerdict.PASS
    assert 5 < test.used < 15
    assert test.capital_for >= 20 > test.capital_against
    used, capital = test.used, test.capital_for
    assert test.update(np.zeros(5000)) is SequentialVerdict.PASS
    assert (test.used, test.capital_for) == (used, capital)
    before = SequentialTest(0.5)
    before.update(np.ones(used - 1))
    assert before.verdict is SequentialVerdict.UNDECIDED
    assert before.update(1.0) is SequentialVerdict.PASS


def test_capital_is_the_average_of_products_of_bets():
    test = SequentialTest(0.9)
    values = np.array([1.0, 0.8, 1.0, 0.9])
    test.update(values)
    bets = np.linspace(0.15, 0.99, 7) / 0.9
    assert test.capital_for == pytest.approx(
        np.mean([math.prod(1 + bet * (x - 0.9) for x in values) for bet in bets])
    )
    opposite = np.geomspace(0.02, 0.6, 8) / 0.1
    assert test.capital_against == pytest.approx(
        np.mean([math.prod(1 - bet * (x - 0.9) for x in values) for bet in opposite])
    )


@pytest.mark.parametrize("target", [0.95, 0.5])
def test_a_mean_at_the_target_is_rarely_decided(target):
    samples = beta_binomial(np.random.default_rng(7), target, 0.226, (300, 2000))
    verdicts = [is_at_least(values, target).verdict for values in samples]
    assert verdicts.count(SequentialVerdict.PASS) / 300 <= most_of(300)
    assert verdicts.count(SequentialVerdict.FAIL) / 300 <= most_of(300)


@pytest.mark.parametrize(("truth", "verdict", "most"), [(0.90, "FAIL", 61), (0.98, "PASS", 170)])
def test_clear_cases_are_decided_soon(truth, verdict, most):
    samples = beta_binomial(np.random.default_rng(8), truth, 0.2, (100, 2000))
    decisions = [is_at_least(values, 0.95) for values in samples]
    assert np.median([each.used for each in decisions]) <= most
    assert sum(each.verdict == verdict for each in decisions) >= 90


def test_impossible_targets_and_values_are_refused():
    for target in (0.0, 1.0, -0.5, 95, math.nan):
        with pytest.raises(UsageError, match=r"a target of .* such as 0\.95"):
            SequentialTest(target)
    for alpha in (0.0, 1.0, math.nan):
        with pytest.raises(UsageError, match="an alpha of"):
            SequentialTest(0.9, alpha)
    for values in ([0.5, math.nan], [1.1], [-0.1], [math.inf]):
        with pytest.raises(UsageError, match="from 0 to 1"):
            is_at_least(np.array(values), 0.9)
        with pytest.raises(UsageError, match="from 0 to 1"):
            lower_bound(np.array(values))
        with pytest.raises(UsageError, match="from 0 to 1"):
            upper_bound(np.array(values))
    with pytest.raises(UsageError, match="one value per query"):
        lower_bound(np.ones((2, 2)))
    with pytest.raises(UsageError, match="a confidence of"):
        lower_bound(np.ones(2), 1.0)
