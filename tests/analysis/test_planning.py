"""How many queries are needed: against scipy's quantiles and by trying it out."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from recallatk.analysis.planning import half_width, in_words, queries_for, queries_to_tell
from recallatk.errors import UsageError


@settings(deadline=None)
@given(st.floats(0.001, 0.5), st.floats(0.001, 0.2), st.floats(0.5, 0.999))
def test_as_many_as_needed_and_no_query_more(spread, width, confidence):
    n = queries_for(width, spread, confidence)
    assert half_width(spread, n, confidence) <= width * (1 + 1e-9)
    assert n == 1 or half_width(spread, n - 1, confidence) > width * (1 - 1e-9)


@settings(deadline=None)
@given(st.floats(0.001, 0.5), st.integers(1, 10**6), st.floats(0.5, 0.999))
def test_the_half_width_is_that_of_the_normal_interval(spread, n, confidence):
    low, high = stats.norm.interval(confidence, scale=spread / math.sqrt(n))
    assert half_width(spread, n, confidence) == pytest.approx((high - low) / 2)


def test_known_numbers():
    assert queries_for(0.01, 0.12) == 554
    assert queries_for(0.005, 0.12) == 2213
    assert queries_to_tell(0.95, 0.96, 0.12) == 1131
    assert queries_to_tell(0.96, 0.95, 0.12) == 1131
    assert queries_to_tell(0.95, 0.96, 0.0) == 1
    assert queries_to_tell(0.95, 0.96, 0.12, power=0.9) > 1131


def test_so_many_queries_tell_the_difference_in_four_of_five_tries():
    n = queries_to_tell(0.90, 0.92, 0.1)
    means = np.random.default_rng(0).normal(0.92, 0.1 / math.sqrt(n), 4000)
    told = np.abs(means - 0.90) > half_width(0.1, n)
    assert told.mean() == pytest.approx(0.8, abs=0.03)


def test_the_sentence():
    values = np.tile([0.95 - 0.12, 0.95 + 0.12], 100) * 1.0
    assert in_words(values, "recall@10") == (
        "with 200 queries the interval of recall@10 is ±0.017; "
        f"to tell 0.95 from 0.96, use about {queries_to_tell(0.95, 0.96, values.std(ddof=1)):,} queries"
    )


def test_the_sentence_near_one_goes_down():
    assert "to tell 1.00 from 0.99, use about " in in_words(np.r_[np.ones(500), 0.9], "recall@10")
    assert "is ±0.0004;" in in_words(np.r_[np.ones(500), 0.9], "recall@10")


def test_equal_values_have_no_spread_to_plan_with():
    assert in_words(np.ones(1200), "recall@10") == (
        "all 1,200 queries have the same recall@10, 1, so the number of queries needed cannot be estimated"
    )
    assert "the same recall@3, 0.3333" in in_words(np.full(9, 1 / 3), "recall@3")


@pytest.mark.parametrize(
    "call",
    [
        lambda: half_width(0.1, 0),
        lambda: half_width(-0.1, 10),
        lambda: half_width(math.nan, 10),
        lambda: half_width(0.1, 10, 95),
        lambda: queries_for(0.0, 0.1),
        lambda: queries_for(0.1, math.inf),
        lambda: queries_to_tell(0.9, 0.9, 0.1),
        lambda: queries_to_tell(0.9, math.nan, 0.1),
        lambda: queries_to_tell(0.9, 0.8, 0.1, power=1.0),
        lambda: in_words(np.ones(1), "recall@10"),
        lambda: in_words(np.empty(0), "recall@10"),
    ],
)
def test_what_cannot_be_planned_is_refused(call):
    with pytest.raises(UsageError):
        call()
