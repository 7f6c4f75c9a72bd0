"""The Pareto front is what nobody beats, and nothing else."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recallatk.analysis.headline import headline_k
from recallatk.analysis.pareto import USEFUL_RECALL, front, knee, nines

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


RISING = st.lists(st.tuples(st.floats(0.01, 1), st.floats(0.01, 1000)), min_size=3, max_size=12)


@given(RISING)
def test_no_useful_point_lies_further_from_the_line_than_the_knee(points):
    recalls, costs = sorted(each for each, _ in points), sorted(each for _, each in points)
    place = knee(recalls, costs, [100] * len(recalls))
    if place is None:
        return
    assert recalls[place] >= USEFUL_RECALL
    useful = [at for at, recall in enumerate(recalls) if recall >= USEFUL_RECALL]
    ends = [(nines(recalls[at]), math.log(costs[at])) for at in (useful[0], useful[-1])]
    across, up = ends[1][0] - ends[0][0], ends[1][1] - ends[0][1]
    above = {
        at: (nines(recalls[at]) - ends[0][0]) / across - (math.log(costs[at]) - ends[0][1]) / up
        for at in useful
    }
    assert above[place] == pytest.approx(max(above.values()))


def test_recalls_that_nobody_would_run_have_no_knee():
    assert knee([0.1, 0.36, 0.4], [1.0, 1.1, 9.0], [100] * 3) is None
    assert knee([0.1, 0.36, 0.85, 0.95, 0.99], [1.0, 1.1, 2.0, 2.2, 9.0], [100] * 5) == 3


@pytest.mark.parametrize(
    ("cutoffs", "k"), [((1, 10, 100), 10), ((1, 5, 100), 5), ((1, 100), 1), ((20, 50), 20), ((), None)]
)
def test_the_headline_is_the_k_nearest_to_ten(cutoffs, k):
    assert headline_k(cutoffs) == k


def test_points_that_refused_queries_neither_join_nor_beat_those_that_answered_all():
    recalls, costs = [1.0, 0.7, 0.9], [1.0, 2.0, 3.0]
    assert front(recalls, costs, [200, 0, 0]) == [1, 2]
    assert front(recalls, costs, [200, 200, 200]) == front(recalls, costs) == [0]
    assert front([None, 0.7], [1.0, 2.0], [0, 5]) == [1], "a point without recall is no standard"
