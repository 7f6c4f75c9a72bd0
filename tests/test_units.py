"""Durations, sizes and ranges as a bench file writes them."""

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recallatk.bench.settings.grid import RangeSettings, range_values
from recallatk.errors import UsageError
from recallatk.units import (
    counted,
    format_bytes,
    format_duration,
    parse_bytes,
    parse_duration,
    parse_rate,
    share_of,
)


def made(low, high, steps=6, scale=None):
    given = {"from": low, "to": high, "steps": steps}
    return RangeSettings.model_validate(given if scale is None else {**given, "scale": scale})


@pytest.mark.parametrize(("text", "rate"), [("20/s", 20), ("90/min", 1.5), ("0.5 / s", 0.5), ("1800/h", 0.5)])
def test_rates_are_per_second(text, rate):
    assert parse_rate(text) == rate


@pytest.mark.parametrize(
    "text", ["", "20", "0/s", "-1/s", "20/ms", "20/day", "fast", "1e3/s", "9" * 400 + "/s"]
)
def test_what_is_no_rate_is_refused(text):
    with pytest.raises(UsageError, match="Accepted: a rate such as 20/s"):
        parse_rate(text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("500ms", 0.5), ("5s", 5.0), ("10min", 600.0), ("2h", 7200.0), ("1.5 h", 5400.0), ("1e-3s", 0.001)],
)
def test_durations_are_seconds(text, seconds):
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "5", "s", "5 days", "-5s", "0s", "5S", "1e999s", "nan s", "1e400h"])
def test_what_is_no_duration_is_refused(text):
    with pytest.raises(UsageError, match="Accepted: a duration such as 500ms, 5s, 10min or 2h"):
        parse_duration(text)


@given(st.floats(1e-9, 1e9), st.sampled_from(["s", "ms"]))
def test_durations_are_written_so_that_they_read_back_the_same(value, unit):
    assert parse_duration(format_duration(value, unit=unit), unit=unit) == value


@pytest.mark.parametrize(
    ("seconds", "text"), [(600.0, "10min"), (7200.0, "2h"), (0.25, "250ms"), (90.0, "90s"), (0.01, "10ms")]
)
def test_durations_are_written_as_people_do(seconds, text):
    assert format_duration(seconds) == text


@given(st.integers(1, 2**62))
def test_sizes_are_written_so_that_they_read_back_the_same(size):
    assert parse_bytes(format_bytes(size)) == size


def test_sizes_are_written_in_the_largest_unit():
    assert [format_bytes(size) for size in (8 << 30, 500 << 20, 1000)] == ["8GiB", "500MiB", 1000]


def test_a_size_of_nothing_is_refused():
    with pytest.raises(UsageError, match="Accepted"):
        parse_bytes("0GiB")


@given(st.integers(1, 10**6), st.integers(0, 10**6), st.integers(2, 50), st.sampled_from(["log", "linear"]))
def test_ranges_of_whole_numbers_are_distinct_rising_and_have_their_ends(low, width, steps, scale):
    values = range_values(made(low, low + width, steps), scale, whole=True)
    assert all(isinstance(value, int) for value in values)
    assert (values[0], values[-1]) == (low, low + width)
    assert list(values) == sorted(set(values))
    assert len(values) <= max(steps, 1)
    # Only where the numbers run out are there fewer than the steps.
    if scale == "linear":
        assert len(values) == min(steps, width + 1)


@given(st.floats(1e-6, 1e6), st.floats(0, 1e6), st.integers(2, 50), st.sampled_from(["log", "linear"]))
def test_ranges_of_numbers_are_distinct_rising_and_have_their_ends(low, width, steps, scale):
    values = range_values(made(low, low + width, steps), scale)
    assert (values[0], values[-1]) == (low, low + width)
    assert list(values) == sorted(set(values))
    assert all(low <= value <= low + width for value in values)
    assert len(values) <= steps


@given(st.floats(1e-3, 1e3), st.floats(1.1, 1e3), st.integers(3, 20))
def test_steps_are_even_on_their_scale(low, ratio, steps):
    rising = range_values(made(low, low * ratio, steps), "log")
    assert len(rising) == steps
    for one, two in pairwise(rising):
        assert two / one == pytest.approx(ratio ** (1 / (steps - 1)), rel=1e-6)
    straight = range_values(made(low, low * ratio, steps), "linear")
    for one, two in pairwise(straight):
        assert two - one == pytest.approx(low * (ratio - 1) / (steps - 1), rel=1e-6)


def test_a_range_says_its_own_scale_before_that_of_the_parameter():
    assert range_values(made(10, 50, 3, "linear"), "log", whole=True) == (10, 30, 50)
    assert range_values(made(10, 320, 6), "log", whole=True) == (10, 20, 40, 80, 160, 320)


def test_numbers_have_no_tails():
    assert range_values(made(0, 0.5, 6)) == (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)
    assert math.isclose(range_values(made(0.1, 0.4, 3), "log")[1], 0.2)


def test_numbers_agree_with_their_nouns():
    assert counted(1, "query", "queries") == "1 query"
    assert counted(0, "query", "queries") == "0 queries"
    assert counted(1_000, "query", "queries") == "1,000 queries"
    assert share_of(1, 50, "queries", "is asked", "are asked") == "1 of 50 queries (2.0%) is asked"
    assert share_of(2, 50, "queries", "is asked", "are asked") == "2 of 50 queries (4.0%) are asked"
