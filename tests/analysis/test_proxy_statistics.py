"""Few exact queries and a proxy: right as often as they say, whatever the proxy is worth."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize

from examples import examples
from recallatk.analysis.betting import SequentialTest, SequentialVerdict, lower_bound, upper_bound
from recallatk.analysis.intervals import mean_interval
from recallatk.analysis.prediction_powered import proxy_mean, proxy_weight
from recallatk.analysis.proxy_betting import (
    ProxyTest,
    any_time_bounds,
    proxy_lower_bound,
    proxy_upper_bound,
)
from recallatk.errors import UsageError

hits = st.integers(0, 10).map(lambda count: count / 10)
pairs = st.lists(st.tuples(hits, hits), min_size=1, max_size=80).map(np.array)
recalls = st.lists(hits, min_size=0, max_size=120).map(np.array)
PROXIES = ("good", "random", "upside down", "lower")


def population(random, shape, proxy):
    """Recalls of mean 0.9, and proxy recalls that see one missed neighbor less in 3 % of the queries."""
    exact = random.binomial(10, random.beta(0.9 * 4, 0.1 * 4, shape)) / 10
    good = np.minimum(1.0, exact + 0.1 * (random.random(shape) < 0.03))
    if proxy == "random":
        return exact, random.permuted(good, axis=1)
    return exact, {"good": good, "upside down": 1 - good, "lower": np.maximum(good - 0.2, 0)}[proxy]


def most_of(tries):
    """5 %, and three standard errors of that many tries."""
    return 0.05 + 3 * math.sqrt(0.05 * 0.95 / tries)


@pytest.mark.parametrize("proxy", PROXIES)
def test_the_interval_covers_the_mean_and_the_bounds_are_rarely_wrong(proxy):
    exact, judged = population(np.random.default_rng(5), (250, 1000), proxy)
    found = [
        proxy_mean(mine[:100], proxies[:100], proxies[100:])
        for mine, proxies in zip(exact, judged, strict=True)
    ]
    covered = np.mean([each.low <= 0.9 <= each.high for each in found])
    assert 0.95 - 3 * math.sqrt(0.05 * 0.95 / 250) <= covered
    assert np.mean([each.bound > 0.9 for each in found]) <= most_of(250)
    above = [
        proxy_upper_bound(mine[:100], proxies[:100], proxies[100:]) < 0.9
        for mine, proxies in zip(exact, judged, strict=True)
    ]
    assert np.mean(above) <= most_of(250)


@pytest.mark.parametrize("proxy", PROXIES)
def test_a_mean_at_the_target_is_rarely_decided(proxy):
    exact, judged = population(np.random.default_rng(6), (200, 4000), proxy)
    verdicts = []
    for mine, proxies in zip(exact, judged, strict=True):
        test = ProxyTest(0.9)
        verdicts.append(test.update(mine[:800], proxies[:800], proxies[800:].reshape(800, 4)))
    assert verdicts.count(SequentialVerdict.PASS) / 200 <= most_of(200)
    assert verdicts.count(SequentialVerdict.FAIL) / 200 <= most_of(200)


@pytest.mark.parametrize("proxy", ["good", "upside down"])
def test_bounds_of_a_test_that_stopped_hold_and_agree_with_its_verdict(proxy):
    exact, judged = population(np.random.default_rng(11), (30, 1500), proxy)
    wrong = []
    for x, f in zip(exact, judged, strict=True):
        test, rows = ProxyTest(0.92), f[300:].reshape(300, 4)
        verdict = test.update(x[:300], f[:300], rows)
        seen = slice(0, test.used)
        low, high = any_time_bounds(x[seen], f[seen], rows[seen].tolist())
        assert low < x[seen].mean() + 0.1
        assert (low >= 0.92 - 1e-4) == (verdict is SequentialVerdict.PASS)
        assert (high <= 0.92 + 1e-4) == (verdict is SequentialVerdict.FAIL)
        wrong.append((low > 0.9, high < 0.9))
    assert np.mean(wrong, axis=0).max() <= most_of(30)


def test_blocks_of_several_sizes_are_bet_on_one_after_the_other():
    exact, judged = population(np.random.default_rng(12), (1, 600), "good")
    rows = [judged[0, 100 + 5 * place : 105 + 5 * place - place % 3].tolist() for place in range(100)]
    low, high = any_time_bounds(exact[0, :100], judged[0, :100], rows)

    def verdict(target):
        test = ProxyTest(target)
        for x, f, row in zip(exact[0, :100], judged[0, :100], rows, strict=True):
            test.update([x], [f], [row])
        return test.verdict

    assert 0 < low < high < 1
    assert verdict(low - 1e-4) is SequentialVerdict.PASS
    assert verdict(high + 1e-4) is SequentialVerdict.FAIL
    assert verdict(low + 1e-3) is verdict(high - 1e-3) is SequentialVerdict.UNDECIDED


def test_a_good_proxy_saves_two_thirds_of_the_exact_queries():
    exact, judged = population(np.random.default_rng(7), (40, 2000), "good")
    few = [proxy_mean(x[:100], f[:100], f[100:]) for x, f in zip(exact, judged, strict=True)]
    many = [mean_interval(x[:300]) for x in exact]
    width = np.mean([each.high - each.low for each in few])
    assert width <= np.mean([each.high - each.low for each in many])
    assert np.median([each.worth for each in few]) > 300
    assert 0.9 < np.mean([each.weight for each in few]) < 1


def test_a_good_proxy_helps_the_bound_and_the_test():
    exact, judged = population(np.random.default_rng(8), (40, 5000), "good")
    gains, used, plain = [], [], []
    for x, f in zip(exact, judged, strict=True):
        low = proxy_lower_bound(x[:500], f[:500], f[500:])
        high = proxy_upper_bound(x[:500], f[:500], f[500:])
        gains.append((high - low) / (upper_bound(x[:500]) - lower_bound(x[:500])))
        test, alone = ProxyTest(0.92), SequentialTest(0.92)
        test.update(x[:500], f[:500], f[500:].reshape(500, 9))
        alone.update(x)
        used.append(test.used)
        plain.append(alone.used)
    assert np.mean(gains) < 0.7
    assert np.median(used) < 0.7 * np.median(plain)


@pytest.mark.parametrize("proxy", ["random", "upside down"])
def test_a_bad_proxy_costs_little(proxy):
    exact, judged = population(np.random.default_rng(9), (30, 2000), proxy)
    found = [proxy_mean(x[:200], f[:200], f[200:]) for x, f in zip(exact, judged, strict=True)]
    plain = [mean_interval(x[:200]) for x in exact]
    ratio = np.mean([each.high - each.low for each in found]) / np.mean([high - low for low, high in plain])
    assert 0.97 < ratio < 1.03
    bounds = np.mean([each.bound for each in found])
    assert bounds == pytest.approx(np.mean([lower_bound(x[:200]) for x in exact]), abs=0.003)


def test_a_perfect_proxy_has_nearly_the_interval_of_all_queries():
    recalls = population(np.random.default_rng(10), (1, 2000), "good")[0][0]
    found, whole = proxy_mean(recalls[:200], recalls[:200], recalls[200:]), mean_interval(recalls)
    assert found.value == pytest.approx(recalls.mean(), abs=1e-12)
    assert found.high - found.low == pytest.approx(whole.high - whole.low, rel=0.1)
    assert found.weight == pytest.approx(0.9)


@pytest.mark.parametrize("n", [50, 200, 1000])
def test_even_a_perfect_proxy_pays_three_over_n_in_the_bound(n):
    gap = 1 - proxy_lower_bound(np.ones(n), np.ones(n), np.ones(20 * n))
    assert 1 - 0.05 ** (1 / n) <= gap < 3.6 / n


def test_the_weight_has_the_smallest_variance():
    exact, proxy = (each[0] for each in population(np.random.default_rng(11), (1, 300), "good"))

    def variance(weight):
        return np.var(exact - weight * proxy) / 300 + weight**2 * np.var(proxy) / 700

    best = optimize.minimize_scalar(variance, bounds=(0, 1), method="bounded").x
    assert proxy_weight(exact, proxy, 700) == pytest.approx(best, abs=1e-4)


@examples(60)
@given(pairs)
def test_without_others_everything_is_plain(known):
    exact, proxy = known.T
    nothing = np.empty(0)
    assert proxy_lower_bound(exact, proxy, nothing) == lower_bound(exact)
    assert proxy_upper_bound(exact, proxy, nothing) == upper_bound(exact)
    found = proxy_mean(exact, proxy, nothing)
    assert found.value == pytest.approx(exact.mean())
    assert (found.weight, found.bound, found.worth) == (0.0, lower_bound(exact), len(exact))
    if len(exact) >= 30:
        assert (found.low, found.high) == pytest.approx(mean_interval(exact))


@examples(60)
@given(pairs, recalls, hits)
def test_a_constant_proxy_changes_no_estimate(known, others, constant):
    exact = known[:, 0]
    found = proxy_mean(exact, np.full_like(exact, constant), np.full_like(others, constant))
    assert found.weight == 0.0
    assert found.value == pytest.approx(exact.mean())
    plain = lower_bound(exact)
    assert 0 <= found.bound <= 1
    if not len(others):
        assert found.bound == plain


@examples(60)
@given(pairs, recalls, st.randoms())
def test_ends_are_in_order_from_0_to_1_and_the_order_of_queries_does_not_matter(known, others, random):
    found = proxy_mean(*known.T, others)
    assert 0 <= found.low <= found.value <= found.high <= 1
    assert 0 <= found.weight < 1
    rows, rest = known.tolist(), others.tolist()
    random.shuffle(rows)
    random.shuffle(rest)
    assert proxy_mean(*np.array(rows).T, np.array(rest)) == pytest.approx(found)
    assert proxy_lower_bound(*np.array(rows).T, np.array(rest)) == found.bound


@examples(40)
@given(pairs, st.integers(0, 4), st.integers(0, 2**32), st.floats(0.05, 0.99), st.integers(1, 79))
def test_batches_change_nothing_and_half_of_the_plain_capital_is_kept(known, others, seed, target, cut):
    exact, proxy = known.T
    rows = np.random.default_rng(seed).integers(0, 11, (len(exact), others)) / 10
    whole, parts, plain = ProxyTest(target), ProxyTest(target), SequentialTest(target)
    whole.update(exact, proxy, rows)
    for part in (slice(0, cut), slice(cut, None)):
        parts.update(exact[part], proxy[part], rows[part])
    assert (whole.verdict, whole.used) == (parts.verdict, parts.used)
    assert (whole.capital_for, whole.capital_against) == (parts.capital_for, parts.capital_against)
    plain.update(exact[: whole.used])
    if plain.used == whole.used:
        assert whole.capital_for >= 0.499 * plain.capital_for
        assert whole.capital_against >= 0.499 * plain.capital_against


@pytest.mark.parametrize("side", [0.0, 1.0])
def test_the_worst_value_never_takes_all_of_the_capital(side):
    test = ProxyTest(0.95)
    # Exact recalls against what the proxy says of the query, and the block against both.
    test.update([side], [1 - side], np.full((1, 3), side))
    assert min(test._for.min(), test._against.min()) > 0


def test_a_test_starts_with_capital_1_and_stops_at_its_verdict():
    test = ProxyTest(0.5)
    assert test.capital_for == pytest.approx(1.0)
    assert test.capital_against == pytest.approx(1.0)
    assert test.update(np.ones(400), np.ones(400), np.ones((400, 2))) is SequentialVerdict.PASS
    used = test.used
    assert used < 30
    assert test.update(np.zeros(400), np.zeros(400), np.zeros((400, 2))) is SequentialVerdict.PASS
    assert test.used == used


def test_unusable_recalls_are_refused():
    ones = np.ones(3)
    with pytest.raises(UsageError, match="no query has an exact recall"):
        proxy_mean(np.empty(0), np.empty(0), ones)
    with pytest.raises(UsageError, match="3 exact and 2 proxy recalls"):
        proxy_mean(ones, ones[:2], ones)
    with pytest.raises(UsageError, match="from 0 to 1"):
        proxy_mean(ones, ones, 2 * ones)
    with pytest.raises(UsageError, match="a confidence of"):
        proxy_mean(ones, ones, ones, 1.0)
    with pytest.raises(UsageError, match="a target of"):
        ProxyTest(1.0)
    with pytest.raises(UsageError, match="an alpha of"):
        ProxyTest(0.9, 0.0)
    with pytest.raises(UsageError, match="one row of others per exact recall"):
        ProxyTest(0.9).update(ones, ones, np.ones((2, 4)))
    with pytest.raises(UsageError, match="from 0 to 1"):
        ProxyTest(0.9).update(ones, ones, np.full((3, 4), math.nan))
