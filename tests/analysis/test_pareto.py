"""The Pareto front is what nobody beats, and nothing else."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recallatk.analysis.pareto import front

# Few values, so that ties are common.
VALUES = st.one_of(st.none(), st.integers(0, 5).map(lambda value: value / 5), st.just(math.nan))
POINTS = st.lists(st.tuples(VALUES, VALUES), max_size=30)


def is_there(point):
    return all(value is not None and not math.isnan(value) for value in point)


def beats(one, other):
    as_good = one[0] >= other[0] and one[1] <= other[1]
    return as_good and (one[0] > other[0] or one[1] < other[1])


def naive_front(points):
    known = [place for place, point in enumerate(points) if is_there(point)]
    return [place for place in known if not any(beats(points[other], points[place]) for other in known)]


def front_of(points):
    return front([recall for recall, _ in points], [cost for _, cost in points])


@given(POINTS)
def test_the_front_is_what_no_other_point_beats(points):
    assert sorted(front_of(points)) == naive_front(points)


@given(POINTS)
def test_recall_and_cost_rise_together_along_the_front(points):
    found = [points[place] for place in front_of(points)]
    assert found == sorted(found)


@given(POINTS)
def test_whatever_is_not_on_the_front_is_beaten_by_something_on_it(points):
    found = front_of(points)
    for place, point in enumerate(points):
        if is_there(point) and place not in found:
            assert any(beats(points[other], point) for other in found)


def test_equal_points_stay_together_and_in_their_order():
    assert front([0.9, 0.5, 0.9, 0.5], [2.0, 1.0, 2.0, 1.5]) == [1, 0, 2]


def test_what_was_not_measured_is_never_on_the_front():
    assert front([None, 0.5, 0.9], [0.1, 1.0, None]) == [1]
    assert front([], []) == []


def test_as_many_costs_as_recalls_are_needed():
    with pytest.raises(ValueError, match="shorter"):
        front([0.5, 0.6], [1.0])
