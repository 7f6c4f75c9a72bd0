"""Weighted means: definitions against numpy and exact arithmetic, intervals, bounds and refused weights."""

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from recallatk.analysis.betting import SequentialTest, is_at_least, lower_bound, upper_bound
from recallatk.analysis.distribution import interval_of, mean_of
from recallatk.analysis.intervals import mean_interval, weighted_spread
from recallatk.analysis.weighted_interval import _gamma_quantile, candidate_limits
from recallatk.analysis.weighted_limits import rare_limits
from recallatk.analysis.weighting import few_effective, weights_from
from recallatk.core import Weights
from recallatk.core.weights import effective_number
from recallatk.errors import UsageError

RECALLS = st.lists(st.integers(0, 10), min_size=1, max_size=60)
COUNTS = st.integers(1, 10**6)


def recalls(tenths):
    return np.array(tenths, np.float64) / 10


@given(RECALLS, COUNTS)
def test_equal_weights_change_no_bit(tenths, count):
    values, weights = recalls(tenths), np.full(len(tenths), float(count))
    for measure in ("recall@10", "robust(0.9)@10"):
        own = np.round(values) if measure.startswith("robust") else values
        plain, weighted = mean_of(own, measure, own), mean_of(own, measure, own, weights)
        assert (plain.value, plain.ids, plain.low, plain.high, plain.n) == (
            weighted.value,
            weighted.ids,
            weighted.low,
            weighted.high,
            weighted.n,
        )
        assert (weighted.unweighted, weighted.effective) == (plain.value, float(plain.n))
        assert (plain.unweighted, plain.effective) == (None, None)
    assert lower_bound(values, weights=weights) == lower_bound(values)
    assert upper_bound(values, weights=weights) == upper_bound(values)
    assert mean_interval(values, weights=weights) == mean_interval(values)
    assert is_at_least(values, 0.7, weights=weights) == is_at_least(values, 0.7)


@given(st.lists(st.tuples(st.integers(0, 10), st.integers(0, 5)), min_size=1, max_size=50))
def test_a_weight_is_a_number_of_duplicates(pairs):
    tenths, counts = zip(*pairs, strict=True)
    values, weights = recalls(tenths), np.array(counts, np.float64)
    found = mean_of(values, "recall@10", None, weights)
    if not sum(counts):
        assert found.value is None and found.n == 0
        return
    assert found.value == pytest.approx(np.repeat(values, counts).mean(), rel=1e-12, abs=1e-15)
    assert found.value == pytest.approx(np.average(values, weights=weights), rel=1e-12, abs=1e-15)
    assert found.unweighted == pytest.approx(values.mean())
    total, squares = Fraction(sum(counts)), Fraction(sum(each * each for each in counts))
    assert found.effective == pytest.approx(float(total**2 / squares), rel=1e-12)
    assert found.n == sum(each > 0 for each in counts)
    assert found.low <= found.value + 1e-12 and found.value <= found.high + 1e-12


@given(st.lists(st.tuples(st.integers(0, 10), st.floats(0.1, 1e6)), min_size=2, max_size=40))
def test_a_bound_depends_on_neither_order_nor_scale(pairs):
    tenths, counts = zip(*pairs, strict=True)
    values, weights = recalls(tenths), np.array(counts)
    bound = lower_bound(values, weights=weights)
    assert bound <= np.average(values, weights=weights) + 1e-9
    assert lower_bound(values[::-1], weights=weights[::-1]) == bound
    assert lower_bound(values, weights=weights * 4) == bound
    assert upper_bound(values, weights=weights) == 1 - lower_bound(1 - values, weights=weights)


def test_values_that_are_not_scored_take_their_weight_with_them():
    values, weights = np.array([1.0, np.nan, 0.0]), np.array([3.0, 100.0, 1.0])
    found = mean_of(values, "recall@10", None, weights)
    assert (found.value, found.n, found.unweighted, found.effective) == (
        0.75,
        2,
        0.5,
        pytest.approx(1.6),
    )


def test_a_query_of_weight_zero_is_left_out():
    values, weights = np.array([1.0, 0.5, 0.0]), np.array([2.0, 2.0, 0.0])
    found, rest = mean_of(values, "recall@10", None, weights), mean_of(values[:2], "recall@10")
    assert (found.value, found.low, found.high, found.n) == (rest.value, rest.low, rest.high, 2)
    assert found.unweighted == 0.5


def test_the_interval_is_that_of_the_effective_number():
    values = np.tile([1.0, 0.9, 0.8, 1.0, 0.6], 200)
    weights = np.tile(np.repeat([1.0, 4.0], 5), 100)
    assert effective_number(weights) == pytest.approx(1000 * 25 / 34)
    assert weighted_spread(values, weights) == pytest.approx(1.0, abs=0.02)
    low, high = mean_interval(values, weights=weights)
    alone = mean_interval(np.tile([1.0, 0.9, 0.8, 1.0, 0.6], 147))
    assert (low, high) == (pytest.approx(alone.low, abs=5e-4), pytest.approx(alone.high, abs=5e-4))


def test_heavy_queries_that_vary_more_widen_the_interval():
    weights = np.repeat([9.0, 1.0], [100, 900])
    values = np.concatenate([np.tile([0.0, 1.0], 50), np.full(900, 0.5)])
    # The error of the mean, by its definition.
    error = np.sqrt(np.sum((weights * (values - 0.5)) ** 2)) / weights.sum()
    low, high = mean_interval(values, weights=weights)
    assert (high - low) / 2 == pytest.approx(1.96 * error, rel=0.05)


@pytest.mark.parametrize("is_share", [False, True])
def test_samples_of_a_query_log_are_covered(is_share):
    random, held, wrong, repeats = np.random.default_rng(7), 0, 0, 150
    ranks = np.arange(1, 20_001)
    traffic = ranks**-0.8 / (ranks**-0.8).sum()
    for _ in range(repeats):
        _, counts = np.unique(random.choice(len(ranks), 600, p=traffic), return_counts=True)
        hits = random.binomial(10, random.beta(9, 1, len(counts))) / 10
        values, mean = (hits >= 1, 0.47368421) if is_share else (hits, 0.9)
        ends = interval_of(values.astype(float), is_share=is_share, weights=counts.astype(float))
        held += ends.low <= mean <= ends.high
        wrong += lower_bound(values.astype(float), weights=counts.astype(float)) > mean
    assert held >= 0.89 * repeats
    assert wrong <= 0.08 * repeats


@pytest.mark.parametrize(
    ("heavy", "weight", "light", "misses", "miss"),
    [(40, 1e4, 1, 1, 0.0), (40, 100.0, 1, 1, 0.0), (500, 1000.0, 500, 3, 0.5), (200, 100.0, 50, 5, 0.5)],
)
def test_light_queries_that_miss_leave_what_heavy_ones_say(heavy, weight, light, misses, miss):
    values = np.concatenate([np.ones(heavy + light - misses), np.full(misses, miss)])
    weights = np.repeat([weight, 1.0], [heavy, light])
    found, alone = mean_of(values, "recall@10", None, weights), mean_of(np.ones(heavy), "recall@10")
    assert alone.low - 0.005 < found.low < found.value <= found.high <= 1.0
    # One heavy query more that misses remains possible.
    assert found.low < 1 - 2 / heavy


@pytest.mark.parametrize("weight", [1e12, 1e100, 1e300])
def test_weights_of_any_ratio_have_an_interval(weight):
    random = np.random.default_rng(0)
    values, weights = np.concatenate([np.ones(40), random.random(5)]), np.repeat([weight, 1.0], [40, 5])
    found = mean_of(values, "ndcg@10", None, weights)
    assert found.low == pytest.approx(0.05 ** (1 / 40), abs=0.005) and found.high == 1.0
    assert mean_interval(values * 7 - 3, weights=weights) is None


@given(st.lists(st.tuples(st.integers(0, 10), st.sampled_from([1, 10, 1000])), min_size=30, max_size=60))
def test_rare_limits_hold_the_mean(pairs):
    tenths, counts = zip(*sorted(pairs), strict=True)
    values, weights = recalls(tenths), np.array(counts, np.float64)
    mean = np.average(values, weights=weights)
    low, high = rare_limits(values, weights, 0.975)
    wider = rare_limits(values, weights, 0.999)
    assert 0 <= wider[0] <= low <= mean + 1e-12 and mean - 1e-12 <= high <= wider[1] <= 1 + 1e-12


def test_rare_limits_of_equal_weights_are_exact_poisson_limits():
    values = np.concatenate([np.zeros(3), np.ones(997)])
    low, _ = rare_limits(values, np.full(1000, 2.0), 0.975)
    # Garwood's upper limit of 3 events, by its definition.
    assert stats.poisson.cdf(3, (1 - low) * 1000) == pytest.approx(0.025)


@pytest.mark.parametrize(("ratio", "n"), [(3.0, 200), (10.0, 200), (100.0, 400)])
@pytest.mark.parametrize("is_share", [False, True])
def test_rare_misses_of_heavy_queries_are_covered(ratio, n, is_share):
    random, repeats, part = np.random.default_rng(3), 120, 1.0 if is_share else 0.3
    weights, rates = np.repeat([ratio, 1.0], n // 2), np.repeat([0.01, 0.5], n // 2)
    mean = 1 - part * np.average(rates, weights=weights)
    held = 0
    for _ in range(repeats):
        values = 1 - part * (random.random(n) < rates)
        ends = interval_of(values, is_share=is_share, weights=weights)
        held += ends.low <= mean <= ends.high
    assert held >= 0.92 * repeats


@pytest.mark.parametrize("worse", [0.0, 0.02])
def test_logs_that_a_few_queries_carry_are_neither_missed_nor_always_held(worse):
    # Zipf traffic with exponent 1; common queries are as good as rare ones, or worse.
    random, repeats = np.random.default_rng(11), 300
    ranks = np.arange(1, 20_001)
    traffic = 1 / ranks / (1 / ranks).sum()
    expected = np.clip(0.94 + worse * (np.log(ranks) - 5) / 3, 0.5, 0.995)
    mean, missed = np.sum(traffic * expected), 0
    for _ in range(repeats):
        which, counts = np.unique(random.choice(len(ranks), 1500, p=traffic), return_counts=True)
        own = expected[which]
        values = random.binomial(10, random.beta(1.3 * own, 1.3 * (1 - own))) / 10
        low, high = interval_of(values, is_share=False, weights=counts.astype(float))
        missed += not low <= mean <= high
    assert 0.02 * repeats <= missed <= 0.075 * repeats


@given(
    st.lists(st.tuples(st.integers(0, 10), st.sampled_from([1, 2, 7, 100])), min_size=30, max_size=80),
    st.floats(0.5, 0.99),
)
def test_candidate_limits_hold_the_mean_and_have_no_direction(pairs, confidence):
    tenths, counts = zip(*pairs, (0, 3), (10, 5), strict=True)
    values, weights = recalls(tenths), np.array(counts, np.float64)
    low, high = candidate_limits(values, weights, confidence)
    assert 0 <= low <= np.average(values, weights=weights) <= high <= 1
    assert candidate_limits(1 - values, weights, confidence) == pytest.approx((1 - high, 1 - low), abs=1e-6)
    assert candidate_limits(values, weights * 8, confidence) == pytest.approx((low, high), abs=1e-6)
    wider = candidate_limits(values, weights, 0.995)
    assert wider[0] <= low + 1e-6 and high <= wider[1] + 1e-6
    moved = mean_interval(values * 7 - 3, confidence, weights)
    if moved is not None:
        assert moved == pytest.approx((low * 7 - 3, high * 7 - 3), abs=1e-5)


@pytest.mark.parametrize("skewness", [-2.5, -0.4, -1e-4, 0.0, 1e-4, 0.05, 1.0, 4.0])
def test_errors_have_the_pearson_distribution_of_scipy(skewness):
    for probability in (0.6, 0.9, 0.975, 0.999):
        expected = stats.pearson3.ppf(probability, skewness)
        assert _gamma_quantile(skewness, probability) == pytest.approx(expected, abs=3e-4)


def test_candidate_limits_are_those_under_which_the_mean_seen_is_rare():
    # Brute force: yes or no, at the rate of each limit, with the same weights.
    random = np.random.default_rng(5)
    weights = 1 / (random.random(400) + 0.02)
    values = (random.random(400) < 0.8).astype(float)
    observed, (low, high) = np.average(values, weights=weights), candidate_limits(values, weights, 0.95)
    for rate, side in ((low, 1), (high, -1)):
        drawn = (random.random((20_000, 400)) < rate) @ weights / weights.sum()
        assert 0.01 < np.mean(side * drawn >= side * observed) < 0.035


def test_weights_that_differ_by_rounding_have_nearly_the_plain_interval():
    values = recalls([10] * 60 + [9] * 30 + [4] * 30)
    weights = np.where(np.arange(120) % 2, 1.0, np.nextafter(1.0, 2.0))
    assert mean_interval(values, weights=weights) == pytest.approx(mean_interval(values), abs=0.01)


def test_a_single_heavy_query_leaves_wide_limits_and_a_caution():
    weights, values = np.concatenate([[1000.0], np.ones(500)]), np.ones(501)
    found = mean_of(values, "recall@10", None, weights)
    assert found.effective == pytest.approx(1500**2 / 1_000_500)
    assert found.low < 0.5 and found.high == 1.0
    said = few_effective(Weights("count", weights)).message
    assert (
        "501 queries weighted by count are worth 2.25 of equal weight" in said
        and "66.7% of the weight" in said
    )
    assert few_effective(Weights("count", np.ones(501))) is None
    assert few_effective(None) is None


def test_the_sequential_test_bets_by_weight():
    test = SequentialTest(0.9, heaviest=10.0)
    light = SequentialTest(0.9, heaviest=10.0)
    test.update(np.ones(60), np.full(60, 10.0))
    light.update(np.ones(60), np.full(60, 1.0))
    plain = SequentialTest(0.9)
    plain.update(np.ones(60))
    assert test.verdict == plain.verdict and test.used == plain.used
    assert light.capital_for < test.capital_for
    with pytest.raises(UsageError, match="none above the heaviest"):
        test.update([1.0], [11.0])


@pytest.mark.parametrize(
    ("column", "said"),
    [
        (pa.array([1.0, -2.0, 3.0]), "'count' of row 1 is -2"),
        (pa.array([1.0, float("nan"), float("inf")]), "'count' of row 1 is nan, and 1 other row"),
        (pa.array([1, None, 3]), "'count' of row 1 is null"),
        (pa.array([0, 0, 0]), "'count' is 0 for all 3 queries"),
        (pa.array(["1", "2", "3"]), "the column 'count' has type string"),
    ],
)
def test_weights_that_cannot_be_used_are_refused(column, said):
    with pytest.raises(UsageError, match="weight") as refused:
        weights_from(pa.table({"count": column}), "count")
    assert said in str(refused.value) and "Accepted" in str(refused.value)


def test_a_column_that_is_missing_is_named():
    with pytest.raises(UsageError, match="count"):
        weights_from(pa.table({"counts": [1]}), "count")
    with pytest.raises(UsageError, match="queries file"):
        weights_from(None, "count")


def test_weights_are_taken_from_whole_numbers():
    found = weights_from(pa.table({"count": pa.array([3, 0, 1], pa.int32())}), "count")
    assert found.values.tolist() == [3.0, 0.0, 1.0]
    assert found.take([0, 2]).effective == pytest.approx(1.6)


@given(st.lists(st.tuples(st.integers(0, 10), st.integers(1, 3)), min_size=2, max_size=40), st.randoms())
def test_the_order_of_queries_changes_no_interval(pairs, random):
    tenths, counts = zip(*pairs, strict=True)
    mixed = random.sample(pairs, len(pairs))
    values, weights = recalls(tenths), np.array(counts, np.float64)
    others, their = recalls([each for each, _ in mixed]), np.array([each for _, each in mixed], np.float64)
    assert weighted_spread(values, weights) == pytest.approx(weighted_spread(others, their), rel=1e-9)
    assert mean_interval(values, weights=weights) == pytest.approx(
        mean_interval(others, weights=their), rel=1e-6, abs=1e-9
    )
