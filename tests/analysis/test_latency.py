"""Intervals of percentiles cover what they should; rates and lateness are what they are called."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from recallatk.analysis.latency import (
    PERCENTILES,
    Spread,
    keeping_up,
    percentile,
    percentile_interval,
    percentiles,
    qps,
)
from recallatk.core import Calls


def calls(latency_ms, rounds=None, late_ms=None, round_ms=(), batch=1):
    latency = np.asarray(latency_ms, np.float64)
    zeros = np.zeros(len(latency), np.int64)
    late = zeros if late_ms is None else (np.asarray(late_ms, np.float64) * 1e6).astype(np.int64)
    turn = zeros if rounds is None else np.asarray(rounds)
    return Calls(
        query=zeros.astype(np.int32),
        round=turn.astype(np.int16),
        client=zeros.astype(np.int16),
        sent_ns=zeros,
        latency_ns=(latency * 1e6).astype(np.int64),
        late_ns=late,
        round_ns=(np.asarray(round_ms, np.float64) * 1e6).astype(np.int64),
        batch=batch,
    )


# Percentiles


def test_the_p99_of_a_thousand_calls_lies_between_ranks_983_and_997():
    latencies = np.random.default_rng(0).permutation(1000) * 1_000_000 + 1_000_000
    assert percentile_interval(latencies, 0.99) == (983.0, 997.0)
    assert percentile_interval(latencies.reshape(4, -1), 0.99) == (983.0, 997.0)


@pytest.mark.parametrize(("share", "least"), [(0.5, 6), (0.9, 36), (0.95, 72), (0.99, 368), (0.999, 3688)])
def test_the_smallest_sample_that_has_an_upper_end(share, least):
    latencies = np.arange(1, least + 1) * 1_000_000
    assert percentile_interval(latencies, share)[1] == least
    assert percentile_interval(latencies[1:], share)[1] is None


def test_a_small_sample_has_neither_end():
    assert percentile_interval(np.arange(5), 0.5) == (None, None)
    assert percentile_interval(np.arange(0), 0.5) == (None, None)


@given(st.integers(1, 3000), st.sampled_from(list(PERCENTILES.values())))
def test_the_ends_are_the_ranks_that_the_binomial_distribution_has(n, share):
    low, high = percentile_interval(np.arange(1, n + 1) * 1_000_000, share)
    # The percentile of the population is at or above call r, and below call s, but for 2.5 % each.
    binomial = stats.binom(n, share)
    if low is not None:
        assert binomial.cdf(low - 1) <= 0.025 + 1e-12 < binomial.cdf(low) + 1e-9
    else:
        assert binomial.cdf(0) > 0.025 - 1e-12
    if high is not None:
        assert binomial.sf(high - 1) <= 0.025 + 1e-12 < binomial.sf(high - 2) + 1e-9
    else:
        assert binomial.sf(n - 1) > 0.025 - 1e-12


def test_intervals_cover_the_percentile_of_the_population():
    drawn = np.random.default_rng(5)
    for share in (0.5, 0.95, 0.99):
        true = stats.expon.ppf(share)
        covered = 0
        for _ in range(400):
            low, high = percentile_interval((drawn.exponential(1.0, 1000) * 1e9).astype(np.int64), share)
            covered += low <= true * 1e3 <= high
        assert covered / 400 > 0.92


def test_all_percentiles_of_all_calls():
    latencies = np.random.default_rng(1).exponential(2.0, 2000)
    found = percentiles(calls(latencies, rounds=np.arange(2000) % 4, round_ms=[1] * 4))
    assert list(found) == ["p50", "p90", "p95", "p99", "p99.9"]
    for name, share in PERCENTILES.items():
        in_ns = (latencies * 1e6).astype(np.int64)
        assert found[name].value == percentile(in_ns, share)
        assert (found[name].low, found[name].high) == percentile_interval(in_ns, share)
        assert found[name].low <= found[name].value
    assert found["p99"].high is not None and found["p99.9"].high is None


def test_no_calls_have_no_percentiles():
    assert {(each.value, each.low, each.high) for each in percentiles(calls([])).values()} == {
        (None, None, None)
    }


# Queries in a second


def test_one_client_is_counted_by_the_time_inside_calls():
    made = calls([10.0, 10.0, 20.0, 20.0, 5.0, 5.0], [0, 0, 1, 1, 2, 2], round_ms=[1000, 1000, 1000])
    assert qps(made, one_client=True) == Spread(100.0, 50.0, 200.0)


def test_several_clients_are_counted_by_the_clock_on_the_wall():
    made = calls([10.0] * 6, [0, 0, 0, 0, 1, 1], round_ms=[20, 20])
    assert qps(made, one_client=False) == Spread(150.0, 100.0, 200.0)


def test_a_batch_is_many_queries():
    made = calls([10.0] * 4, [0, 0, 1, 1], round_ms=[1000, 1000], batch=64)
    made = dataclasses.replace(made, size=np.array([64, 36, 64, 46], np.int32))
    assert qps(made, one_client=False) == Spread(105.0, 100.0, 110.0)


def test_no_rounds_have_no_rate():
    assert qps(calls([]), one_client=True) == Spread(None, None, None)
    assert qps(calls([], round_ms=[0]), one_client=False) == Spread(None, None, None)


# Lateness


def test_sends_are_late_beyond_a_millisecond_or_a_tenth_of_the_latency():
    late = [0.0, 0.5, 1.5, 3.0]
    assert keeping_up(calls([2.0] * 4, late_ms=late)).share == 0.5
    assert keeping_up(calls([20.0] * 4, late_ms=late)).share == 0.25
    assert keeping_up(calls([50.0] * 4, late_ms=late)).share == 0.0
    assert keeping_up(calls([2.0] * 4, late_ms=late)).worst_ms == 3.0
    assert keeping_up(calls([2.0] * 4, late_ms=late)).p99_ms is None
    assert keeping_up(calls([2.0] * 200, late_ms=np.arange(200))).p99_ms == 197.0


def test_a_closed_loop_is_never_late_and_no_calls_tell_nothing():
    assert keeping_up(calls([2.0] * 4)).share == 0.0
    assert keeping_up(calls([])).share is None
