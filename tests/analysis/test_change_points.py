"""Change points: rare where nothing changes, found where something does, and never moved by scale."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from recallatk.analysis.change_points import change_points
from recallatk.analysis.trend import trends_of
from recallatk.core.history import EntryKind, HistoryEntry

LENGTH, REPEATS = 30, 400


def noise(seed, count=LENGTH, scale=0.01):
    return 0.9 + np.random.default_rng(seed).normal(scale=scale, size=count)


def test_series_that_do_not_change_rarely_raise_an_alarm():
    # One alarm in 460 entries is 6.5 % of series of 30; three standard errors of 400 series are 3.7 %.
    alarms = [bool(change_points(noise(seed), [0.01] * LENGTH)) for seed in range(REPEATS)]
    assert np.mean(alarms) < 0.065 + 0.037


def test_builds_that_scatter_more_than_their_intervals_say_are_no_changes():
    alarms = [bool(change_points(noise(seed, scale=0.05), [0.001] * LENGTH)) for seed in range(REPEATS)]
    # The scatter is estimated from the series itself, which costs some of the rate.
    assert np.mean(alarms) < 0.15


def test_a_shift_of_four_standard_errors_is_found_near_its_place():
    places = []
    for seed in range(REPEATS):
        series = noise(seed)
        series[15:] -= 0.04
        found = change_points(series, [0.01] * LENGTH)
        places.append(found[0].place if found else -1)
    near = np.abs(np.array(places) - 15) <= 1
    assert near.mean() > 0.85


def test_exact_numbers_change_where_they_differ():
    (found,) = change_points([0.95] * 5 + [0.93] * 5, [0.0] * 10)
    assert (found.place, found.before, found.after) == (5, 0.95, 0.93)
    down, up = change_points([0.95] * 4 + [0.5] * 4 + [0.95] * 4, [0.0] * 12)
    assert (down.place, up.place) == (4, 8)


def test_fewer_than_two_entries_have_no_changes():
    assert change_points([], []) == []
    assert change_points([0.9], [0.1]) == []


@given(
    st.lists(st.integers(0, 100), min_size=2, max_size=40),
    st.integers(1, 20),
    st.sampled_from([0.5, 2.0, 1024.0]),
)
def test_changes_do_not_depend_on_unit_or_direction(steps, error, unit):
    values = np.array(steps, float)
    places = [each.place for each in change_points(values, [float(error)] * len(values))]
    for other in (values * unit, -values * unit):
        errors = [error * unit] * len(values)
        assert [each.place for each in change_points(other, errors)] == places


def entry(day, values, state, queries="one"):
    values = np.array(values, float)
    return HistoryEntry(
        when=f"2026-01-{day:02d}T00:00:00.000000+00:00",
        kind=EntryKind.RUN,
        collection="items",
        subject="hnsw",
        measure="recall@10",
        value=float(values.mean()),
        low=values.mean() - 0.05,
        high=values.mean() + 0.05,
        queries=len(values),
        state=state,
        query_set=queries,
        per_query=values,
    )


def test_paired_entries_show_changes_that_intervals_hide_and_what_changed_with_them():
    random = np.random.default_rng(0)
    recalls = np.where(random.random(200) < 0.3, 0.9, 1.0)
    worse = recalls - 0.02
    entries = [entry(day, recalls, {"version": "1.0", "rows": 1000}) for day in range(1, 6)]
    entries += [entry(day, worse, {"version": "1.1", "rows": 2500}) for day in range(6, 10)]
    (trend,) = trends_of(entries[::-1])
    assert [each.place for each in trend.changes] == [5]
    assert trend.changes[0].because == ("version: 1.0 to 1.1", "rows: 1,000 to 2,500")
    # Other queries each time: the intervals are wider than the difference.
    others = [entry(int(each.when[8:10]), each.per_query, each.state, each.when) for each in entries]
    (trend,) = trends_of(others)
    assert trend.changes == ()
