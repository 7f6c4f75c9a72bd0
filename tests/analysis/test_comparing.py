"""Pairs of systems: differences, intervals, sign flips and Holm's correction against other people's code."""

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import stats

from examples import examples
from recallatk.analysis.comparison import compare, holm
from recallatk.analysis.intervals import mean_interval
from recallatk.errors import MismatchError, UsageError

tenths = st.integers(0, 10).map(lambda hits: hits / 10)


def systems(n, seed=0):
    random = np.random.default_rng(seed)
    first = random.binomial(10, random.beta(9, 0.6, n)) / 10
    better = np.minimum(1.0, first + (random.random(n) < 0.2) / 10)
    same = first + np.where((first > 0.05) & (first < 0.95), random.choice([-0.1, 0.0, 0.1], n), 0.0)
    return {"a": first, "b": better, "c": same}


def all_flips(first, second):
    """The two-sided p value over every combination of signs, in whole tenths."""
    differences = [round(10 * (two - one)) for one, two in zip(first, second, strict=True)]
    observed = sum(differences)
    sums = [np.dot(differences, signs) for signs in product([1, -1], repeat=len(first))]
    tails = (sum(each >= observed for each in sums), sum(each <= observed for each in sums))
    return min(1.0, 2 * min(tails) / len(sums))


@examples(60)
@given(st.lists(st.tuples(tenths, tenths), min_size=1, max_size=9))
@example([(0.0, 0.1), (0.0, 0.2), (0.0, 0.7), (0.3, 0.0), (0.7, 0.0)])
def test_few_differences_are_enumerated(pairs):
    first, second = np.array(pairs).T
    (found,) = compare({"a": first, "b": second})
    assert found.p_value == pytest.approx(all_flips(first, second))
    assert found.differing == np.count_nonzero(first != second)
    assert found.n == len(pairs)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", ["tenths", "continuous"])
def test_many_differences_are_drawn_as_scipy_draws_them(kind, seed):
    random = np.random.default_rng(seed)
    differences = random.integers(-3, 5, 40) / 10 if kind == "tenths" else random.normal(0.1, 0.4, 40)
    theirs = stats.permutation_test(
        (differences,),
        lambda sample, axis: np.mean(sample, axis=axis),
        permutation_type="samples",
        vectorized=True,
        n_resamples=50_000,
        rng=random,
    ).pvalue
    (found,) = compare({"a": np.zeros(40), "b": differences}, seed=seed)
    assert found.p_value == pytest.approx(theirs, abs=5 * math.sqrt(theirs / 9_999) + 2e-4)


def test_twenty_differences_against_all_million_combinations():
    differences = np.random.default_rng(3).integers(-2, 4, 20).astype(float)
    differences[differences == 0] = 1
    sums = np.zeros(1)
    for each in differences:
        sums = np.concatenate([sums + each, sums - each])
    exact = min(1.0, 2 * np.mean(sums >= abs(differences.sum())))
    (found,) = compare({"a": np.zeros(20), "b": differences / 10})
    assert found.p_value == pytest.approx(exact, abs=5 * math.sqrt(exact / 9_999))


@settings(deadline=None)
@given(st.lists(st.floats(0, 1), max_size=12))
def test_holm_by_its_definition(p_values):
    expected = []
    for own in p_values:
        # Rejected at a level where every smaller p value is rejected as well, each at its own share of it.
        steps = [
            (sum(other > each for other in p_values) + p_values.count(each)) * each
            for each in p_values
            if each <= own
        ]
        expected.append(min(1.0, max(steps)))
    assert holm(p_values) == pytest.approx(expected)


def test_every_pair_has_its_difference_and_interval():
    values = systems(400)
    results = compare(values)
    assert [(each.first, each.second) for each in results] == [("a", "b"), ("a", "c"), ("b", "c")]
    for each in results:
        differences = values[each.second] - values[each.first]
        assert each.difference == pytest.approx(differences.mean())
        assert (each.low, each.high) == pytest.approx(tuple(mean_interval(differences)), abs=1e-9)
        assert each.significant == (each.adjusted_p < 0.05)
    assert [each.adjusted_p for each in results] == holm([each.p_value for each in results])


def test_the_words():
    better, same, worse = compare(systems(2000))
    interval = f"[{better.low:.4f}, {better.high:.4f}]"
    assert better.in_words == f"b is better than a by {better.difference:.4f} {interval}, p = 0.0006"
    interval = f"[{same.low:.4f}, {same.high:.4f}]"
    found = f"{same.difference:+.4f} {interval}, p = {same.adjusted_p:.2g}"
    assert same.in_words == f"no significant difference between a and c: {found}"
    assert worse.difference < 0
    interval = f"[{-worse.high:.4f}, {-worse.low:.4f}]"
    assert worse.in_words == (
        f"b is better than c by {-worse.difference:.4f} {interval}, p = {worse.adjusted_p:.2g}"
    )


def test_the_same_system_twice():
    values = systems(50)["a"]
    # Shares that were divided in another way.
    (found,) = compare({"a": values, "again": values * 3 / 3})
    assert (found.difference, found.p_value, found.differing, found.significant) == (0.0, 1.0, 0, False)
    assert -0.2 < found.low < 0 < found.high < 0.2
    assert found.low == -found.high


def test_equal_differences_are_bounded_by_what_recalls_can_differ():
    (found,) = compare({"a": np.full(30, 0.5), "b": np.full(30, 0.4)})
    assert found.low < -0.1 < found.high < 0.1
    assert found.in_words.startswith("a is better than b by 0.1000 [")
    (beyond,) = compare({"a": np.full(30, 5.0), "b": np.full(30, 2.0)})
    assert (beyond.low, beyond.high) == (None, None)
    assert beyond.in_words == "a is better than b by 3.0000, p = 0.0002"


def test_swapping_two_systems_changes_the_sign_alone():
    values = systems(300)
    (one,), (other,) = (compare({name: values[name] for name in names}) for names in ("ac", "ca"))
    assert other.difference == -one.difference
    assert (other.low, other.high) == pytest.approx((-one.high, -one.low), abs=1e-9)
    assert other.p_value == one.p_value


def test_no_difference_is_rarely_found_significant():
    random = np.random.default_rng(4)
    found = 0
    for _ in range(200):
        first, second = random.binomial(10, 0.9, (2, 60)) / 10
        found += compare({"a": first, "b": second})[0].significant
    assert found / 200 <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 200)


def test_queries_without_a_value_are_left_out_when_all_lack_it():
    nan = np.nan
    (found,) = compare({"a": np.array([0.5, nan, 1.0]), "b": np.array([0.6, nan, 1.0])})
    assert (found.n, found.differing) == (2, 1)
    with pytest.raises(MismatchError, match="query 2 has a value in only one of a and b"):
        compare({"a": np.array([0.5, nan, 1.0]), "b": np.array([0.6, nan, nan])})


def test_what_cannot_be_compared_is_refused():
    with pytest.raises(MismatchError, match="same queries"):
        compare({"a": np.ones(3), "b": np.ones(4)})
    for values in (
        {"a": np.ones(3)},
        {"a": np.ones((2, 2)), "b": np.ones((2, 2))},
        {"a": np.empty(0), "b": np.empty(0)},
        {"a": np.full(3, np.nan), "b": np.full(3, np.nan)},
        {"a": np.array([np.inf]), "b": np.ones(1)},
    ):
        with pytest.raises(UsageError):
            compare(values)
