"""Percentiles are calls that happened, or nothing."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recallatk.analysis import percentile


@settings(deadline=None)
@given(st.lists(st.integers(1, 10**10), min_size=1, max_size=300), st.sampled_from([0.5, 0.9, 0.95, 0.99]))
def test_a_percentile_is_the_order_statistic_that_numpy_calls_inverted_cdf(calls, share):
    found = percentile(np.array(calls), share)
    if len(calls) * round((1 - share) * 100) < 100:
        assert found is None
    else:
        assert found == np.percentile(calls, share * 100, method="inverted_cdf") / 1e6
        assert round(found * 1e6) in calls


@pytest.mark.parametrize(("count", "share", "rank"), [(2, 0.5, 1), (20, 0.95, 19), (100, 0.99, 99)])
def test_the_smallest_sample_that_has_one_call_beyond(count, share, rank):
    calls = np.random.default_rng(0).permutation(count) + 1
    assert percentile(calls.reshape(2, -1), share) == rank / 1e6
    assert percentile(calls[1:], share) is None


def test_no_calls_have_no_percentile():
    assert percentile(np.empty((0,), np.int64), 0.5) is None
