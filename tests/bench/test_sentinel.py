"""The sentinel: a fixed piece of work, and how much its pace varied."""

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recallatk.bench.sentinel import Sentinel, drift


def test_the_pace_is_a_time():
    sentinel = Sentinel(0)
    assert all(sentinel.pace_ns() > 0 for _ in range(3))


def test_the_work_is_the_same_for_the_same_seed():
    first, second, other = Sentinel(1), Sentinel(1), Sentinel(2)
    for each in (first, second, other):
        each.pace_ns()
    assert np.array_equal(first._product, second._product)
    assert not np.array_equal(first._product, other._product)
    assert first._product == pytest.approx(first._matrix @ first._vector, rel=1e-3, abs=1e-2)


def test_the_work_stays_in_one_thread():
    sentinel = Sentinel(0)
    sentinel.pace_ns()
    processor, wall = time.process_time_ns(), time.perf_counter_ns()
    for _ in range(20):
        sentinel.pace_ns()
    assert time.process_time_ns() - processor < 1.5 * (time.perf_counter_ns() - wall)


def test_a_steady_machine_does_not_drift():
    assert drift([2_000_000] * 10) == 0.0


def test_too_few_paces_tell_nothing():
    assert drift([]) is None
    assert drift([1, 2]) is None
    assert drift(np.array([5, 5, 5])) == 0.0


@pytest.mark.parametrize(
    ("paces", "expected"),
    [
        ([100] * 99 + [500], 0.0),
        ([100] * 90 + [150] * 10, 0.5),
        ([100] * 90 + [60] * 10, 0.4),
        ([100, 100, 130], 0.3),
        (list(range(100, 201)), 0.3),
    ],
)
def test_drift_is_the_farther_of_two_percentiles(paces, expected):
    assert drift(paces) == pytest.approx(expected, abs=0.01)


@given(st.lists(st.integers(1, 10**9), min_size=3, max_size=60), st.integers(1, 1000))
def test_drift_has_no_unit_and_no_order(paces, times):
    found = drift(paces)
    assert found >= 0
    assert drift([each * times for each in reversed(paces)]) == pytest.approx(found)
