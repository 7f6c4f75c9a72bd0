"""Intervals of means, shares and quantiles against scipy, full enumeration and their promises."""

import math
import subprocess
import sys
import warnings
from collections import Counter
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import stats

from examples import examples
from recallatk.analysis import intervals
from recallatk.analysis.intervals import (
    bca_interval,
    mean_interval,
    quantile,
    quantile_interval,
    share_interval,
)
from recallatk.errors import UsageError

RANDOM = np.random.default_rng(0)
UP_TO_10, UP_TO_100 = RANDOM.integers(1, 11, 250), RANDOM.integers(1, 101, 250)
SAMPLES = {
    "recall@10": RANDOM.binomial(10, RANDOM.beta(3, 0.2, 300)) / 10,
    "recall@100": RANDOM.binomial(100, RANDOM.beta(3, 0.2, 150)) / 100,
    "recall@1": RANDOM.binomial(1, 0.9, 400) / 1.0,
    "mixed denominators": RANDOM.binomial(UP_TO_10, 0.85) / UP_TO_10,
    "too many denominators": RANDOM.binomial(UP_TO_100, 0.8) / UP_TO_100,
    "differences": (RANDOM.integers(-2, 4, 200)) / 10,
    "continuous": RANDOM.beta(5, 1, 200),
    "skewed, unbounded": RANDOM.exponential(0.02, 300) ** 2,
    "large": RANDOM.normal(1e9, 10.0, 100),
    "few": np.array([0.2, 0.9, 1.0, 1.0, 0.7, 0.4, 1.0, 0.9]),
}
CELLS = {"recall@10": 0.1, "recall@100": 0.01, "recall@1": 1.0, "differences": 0.1, "few": 0.1}
recalls = st.lists(st.integers(0, 10).map(lambda hits: hits / 10), min_size=1, max_size=60).map(np.array)
numbers = st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=30).map(np.array)
shares_of_one = st.lists(st.floats(0, 1), min_size=1, max_size=40).map(np.array)
confidences = st.floats(0.5, 0.999)


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("confidence", [0.8, 0.95, 0.99])
def test_the_interval_is_what_scipy_approaches_by_drawing(name, confidence):
    values = SAMPLES[name]
    drawn = stats.bootstrap(
        (values,),
        np.mean,
        method="BCa",
        n_resamples=20_000,
        confidence_level=confidence,
        batch=1_000,
        rng=np.random.default_rng(1),
    ).confidence_interval
    found = bca_interval(values, confidence)
    error = values.std() / math.sqrt(len(values))
    # Drawing is off by some 0.02 standard errors at 95 % and by more at 99 %; and it stays on the lattice of
    # sums, from which ours is up to half a cell away.
    allowed = 0.13 * error + 0.5 * CELLS.get(name, 0.0) / len(values)
    assert tuple(found) == pytest.approx(tuple(drawn), abs=allowed)


def enumerated(values, confidence):
    """BCa over all n^n resamples, each sum spread evenly over the cell of the lattice that it lies on."""
    exact = [Fraction(value).limit_denominator(1000) for value in values]
    offsets = [value - min(exact) for value in exact]
    step = Fraction(
        math.gcd(*(int(each * math.lcm(*(o.denominator for o in offsets))) for each in offsets)),
        math.lcm(*(o.denominator for o in offsets)),
    )
    n = len(exact)
    sums = Counter(sum(drawn) for drawn in product(exact, repeat=n))
    total, observed = n**n, sum(exact)
    middle = (sum(c for s, c in sums.items() if s < observed) + Fraction(sums[observed], 2)) / total
    bias = stats.norm.ppf(float(middle))
    offset = np.array(values) - np.mean(values)
    acceleration = (offset**3).sum() / (6 * (offset**2).sum() ** 1.5)
    ends = []
    for z in stats.norm.ppf([(1 - confidence) / 2, (1 + confidence) / 2]):
        share = stats.norm.cdf(bias + (bias + z) / (1 - acceleration * (bias + z))) * total
        below = 0
        for each in sorted(sums):
            if below + sums[each] >= share:
                break
            below += sums[each]
        end = float(each) + float(step) * ((share - below) / sums[each] - 0.5)
        ends.append(min(max(end / n, min(values)), max(values)))
    return ends


@examples(60)
@given(
    st.lists(st.sampled_from([0.0, 0.1, 0.2, 1 / 3, 0.5, 0.75, 0.9, 1.0, -0.4]), min_size=2, max_size=5),
    st.sampled_from([0.6, 0.81, 0.95, 0.99]),
)
def test_the_distribution_is_that_of_all_resamples(values, confidence):
    if len(set(values)) > 1:
        assert bca_interval(np.array(values), confidence) == pytest.approx(
            enumerated(values, confidence), abs=1e-7
        )


def test_a_grid_gives_what_the_lattice_gives():
    lattice = SAMPLES["recall@10"]
    # Too little to matter, and too much to be on a lattice still.
    moved = lattice + RANDOM.normal(0, 1e-6, len(lattice))
    half_a_cell = 0.5 / (10 * len(lattice))
    assert tuple(mean_interval(moved)) == pytest.approx(tuple(mean_interval(lattice)), abs=half_a_cell)


@pytest.mark.parametrize("name", ["continuous", "skewed, unbounded", "too many denominators"])
def test_a_finer_grid_gives_the_same(name, monkeypatch):
    values = SAMPLES[name]
    found = mean_interval(values)
    monkeypatch.setattr(intervals, "CELLS_PER_DEVIATION", 1024)
    error = values.std() / math.sqrt(len(values))
    assert tuple(mean_interval(values)) == pytest.approx(tuple(found), abs=1e-3 * error)


@settings(deadline=None)
@given(numbers, confidences)
@example(np.array([-1e308, 1e308, 3.0]), 0.95)
@example(np.array([5e-324, 0.0, 0.0]), 0.95)
@example(np.array([0.0, 1e-13, 1.0]), 0.95)
def test_any_finite_numbers_have_ends_between_the_smallest_and_the_largest(values, confidence):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = mean_interval(values, confidence)
    if found is not None and len(set(values)) > 1:
        assert found.low <= found.high
        assert found.low >= values.min() or np.ptp(values) <= 1e-12 * np.abs(values).max()
        assert found.high <= values.max() or np.ptp(values) <= 1e-12 * np.abs(values).max()


@settings(deadline=None)
@given(st.one_of(recalls, shares_of_one), confidences, st.randoms())
def test_values_from_0_to_1_have_an_interval_inside_whatever_their_order(values, confidence, random):
    found = mean_interval(values, confidence)
    assert 0 <= found.low <= found.high <= 1
    shuffled = values.tolist()
    random.shuffle(shuffled)
    assert mean_interval(np.array(shuffled), confidence) == found


@settings(deadline=None)
@given(recalls, confidences, confidences)
def test_more_confidence_is_never_a_narrower_interval(values, one, other):
    narrow, wide = (mean_interval(values, confidence) for confidence in sorted([one, other]))
    assert wide.low <= narrow.low + 1e-12
    assert wide.high >= narrow.high - 1e-12


@settings(deadline=None)
@given(recalls, st.floats(-3, 3), st.floats(0.01, 50))
def test_the_interval_moves_and_grows_with_the_values(values, shift, factor):
    if len(set(values)) > 1:
        low, high = mean_interval(values)
        assert mean_interval(values * factor + shift) == pytest.approx(
            (low * factor + shift, high * factor + shift), abs=1e-6 * factor
        )
        assert mean_interval(-values) == pytest.approx((-high, -low), abs=1e-9)


@pytest.mark.parametrize("n", [1, 20, 1000])
def test_without_variation_the_interval_is_what_any_distribution_allows(n):
    least = 0.05 ** (1 / n)
    assert mean_interval(np.ones(n)) == pytest.approx((least, 1.0))
    assert mean_interval(np.zeros(n)) == pytest.approx((0.0, 1 - least))
    assert mean_interval(np.full(n, 0.7)) == pytest.approx((0.7 * least, 1 - 0.3 * least))
    assert mean_interval(np.full(n, 1.2)) is None
    assert mean_interval(np.full(n, -0.1)) is None


def test_no_values_have_no_interval_and_impossible_ones_are_refused():
    assert mean_interval(np.empty(0)) is None
    for values in ([0.5, np.nan], [np.inf, 0.5], [-np.inf, 0.5]):
        with pytest.raises(UsageError, match="finite"):
            mean_interval(np.array(values))
    for confidence in (0.0, 1.0, 95, float("nan")):
        with pytest.raises(UsageError, match=r"0\.95"):
            mean_interval(np.ones(3), confidence)


def test_one_zero_among_a_million_ones():
    values = np.ones(1_000_000)
    values[123] = 0.0
    low, high = mean_interval(values)
    assert 1 - 2e-5 < low < 1 - 1e-6 < high <= 1.0


@settings(deadline=None)
@given(st.integers(0, 500), st.integers(0, 500), st.floats(0.5, 0.999))
def test_shares_have_wilsons_interval(one, other, confidence):
    successes, n = min(one, other), max(one, other)
    found = share_interval(successes, n, confidence)
    if n == 0:
        assert found is None
        return
    theirs = stats.binomtest(successes, n).proportion_ci(confidence, method="wilson")
    assert found == pytest.approx((theirs.low, theirs.high), abs=1e-12)
    assert 0 <= found.low <= successes / n <= found.high <= 1


def test_more_successes_than_tries_are_no_share():
    for successes, n in ((3, 2), (-1, 2)):
        with pytest.raises(UsageError, match="not a share"):
            share_interval(successes, n)


@settings(deadline=None)
@given(shares_of_one, st.sampled_from([0.0, 0.01, 0.05, 0.1, 0.3, 0.5, 0.9, 1.0]))
def test_a_quantile_is_the_order_statistic_that_numpy_calls_inverted_cdf(values, share):
    assert quantile(values, share) == np.quantile(values, share, method="inverted_cdf")


@settings(deadline=None)
@given(st.integers(1, 400), st.sampled_from([0.01, 0.05, 0.1, 0.5, 0.9, 0.99]), st.floats(0.5, 0.999))
def test_ranks_of_a_quantile_cover_it_by_the_binomial_distribution(n, share, confidence):
    # Values that are their ranks; 0 and 1 are no ranks and stand for "no such rank".
    values = np.arange(1, n + 1) / (n + 1)
    low, high = quantile_interval(values, share, confidence)
    lower, upper = round(low * (n + 1)), round(high * (n + 1))
    count = stats.binom(n, share)
    assert count.cdf(upper - 1) - count.cdf(lower - 1) >= confidence - 1e-9
    assert count.cdf(lower - 1) <= (1 - confidence) / 2 + 1e-9
    # One rank further inside would not do.
    assert count.cdf(lower) >= (1 - confidence) / 2 - 1e-9
    assert count.sf(upper - 2) >= (1 - confidence) / 2 - 1e-9


def test_the_ranks_of_the_first_percent_of_a_thousand():
    values = np.arange(1000) / 1000
    assert quantile_interval(values, 0.99) == (0.982, 0.996)
    assert quantile_interval(values[:100], 0.01) == (0.0, 0.003)
    assert quantile_interval(values[:100], 0.99) == (0.096, 1.0)


def test_quantiles_of_nothing_and_of_other_values():
    assert quantile_interval(np.empty(0), 0.5) is None
    with pytest.raises(UsageError, match="cannot take a quantile"):
        quantile(np.empty(0), 0.5)
    with pytest.raises(UsageError, match="from 0 to 1"):
        quantile_interval(np.array([0.5, 2.0]), 0.5)
    with pytest.raises(UsageError, match="share"):
        quantile(np.ones(2), 5)


def test_importing_the_room_does_not_import_scipy():
    modules = ", ".join(f"recallatk.analysis.{name}" for name in ("intervals", "betting", "comparison"))
    code = f"import sys, {modules}, recallatk.analysis.planning; sys.exit('scipy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def few_of(n, *misses):
    values = np.ones(n)
    values[: len(misses)] = 1 - np.array(misses)
    return values


def test_the_interval_shown_is_wider_where_few_values_make_a_long_tail():
    rare = few_of(200, 0.8, 0.1, 0.2)
    plain, shown = bca_interval(rare), mean_interval(rare)
    assert shown.high == plain.high
    assert rare.min() < shown.low < plain.low
    mirrored = mean_interval(1 - rare)
    assert (mirrored.low, mirrored.high) == pytest.approx((1 - shown.high, 1 - shown.low), abs=1e-9)


def test_the_shown_end_is_that_of_one_more_value():
    for misses in ([0.1], [0.1] * 3, [0.5, 0.1], [0.2] * 10):
        values = few_of(1000, *misses)
        low = bca_interval(values).low
        offsets = values - values.mean()
        acceleration = (offsets**3).sum() / (6 * (offsets**2).sum() ** 1.5)
        further = 10 * abs(acceleration) * offsets.min()
        wider = math.sqrt(1 + further**2 / (offsets**2).sum())
        expected = values.mean() + further / len(values) - (values.mean() - low) * wider
        assert mean_interval(values).low == pytest.approx(expected, abs=1e-12)


def test_the_more_values_make_a_tail_the_less_is_added():
    def added(count):
        values = few_of(5000, *[0.5] * count)
        plain, shown = bca_interval(values), mean_interval(values)
        return (plain.low - shown.low) / (values.std() / math.sqrt(len(values)))

    widths = [added(count) for count in (1, 2, 4, 8, 16, 64, 256)]
    assert widths == sorted(widths, reverse=True)
    # Of the order of one over the number of values in the tail: BCa's own error, and no more than that.
    assert added(64) == pytest.approx(2 * added(128), rel=0.1)
    assert added(256) < 0.01


def test_values_without_skew_have_bcas_interval():
    even = np.repeat([0.2, 0.4, 0.6, 0.8], 50)
    assert mean_interval(even) == pytest.approx(bca_interval(even), abs=1e-12)


def test_recalls_near_1_are_covered_as_often_as_promised():
    random = np.random.default_rng(5)
    # Some five of 200 queries are not answered in full: Student's t covers 84 % of such samples.
    samples = random.binomial(10, random.beta(3.05, 0.01533, (1500, 200))) / 10
    found = np.array([mean_interval(values) for values in samples])
    mean = 3.05 / (3.05 + 0.01533)
    assert 0.93 <= np.mean((found[:, 0] <= mean) & (mean <= found[:, 1])) <= 0.97
