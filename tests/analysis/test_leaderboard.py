"""Shared ranks: against a count by hand, and the properties that make them ranks."""

from hypothesis import given
from hypothesis import strategies as st

from recallatk.analysis.leaderboard import RankedCost, in_rank_order, shared_ranks, worst_of


@st.composite
def costs(draw):
    low, value, high = sorted(draw(st.lists(st.floats(0.01, 100), min_size=3, max_size=3)))
    ends = draw(st.sampled_from([(low, high), (None, high), (low, None), (None, None)]))
    return RankedCost(value, *ends)


def turned(each):
    """The same cost as a gain."""
    low, high = (None if end is None else -end for end in (each.high, each.low))
    return RankedCost(-each.value, low, high)


@given(st.lists(costs(), max_size=8))
def test_a_rank_counts_those_that_are_surely_better(found):
    counted = []
    for each in found:
        better = [
            one for one in found if one.high is not None and each.low is not None and one.high < each.low
        ]
        counted.append(1 + len(better))
    assert shared_ranks(found) == counted
    assert shared_ranks([turned(each) for each in found], gain=True) == counted


@given(st.lists(costs(), min_size=1, max_size=8))
def test_somebody_is_first_and_the_order_is_that_of_the_ranks(found):
    ranks, order = shared_ranks(found), in_rank_order(found)
    assert min(ranks) == 1
    assert sorted(order) == list(range(len(found)))
    assert [ranks[place] for place in order] == sorted(ranks)


def test_overlapping_intervals_share_a_rank_and_apart_ones_do_not():
    near = [RankedCost(1.0, 0.9, 1.2), RankedCost(1.1, 1.0, 1.3), RankedCost(2.0, 1.25, 2.1)]
    # The third is surely worse than the first, but not than the second.
    assert shared_ranks(near) == [1, 1, 2]
    assert shared_ranks([RankedCost(1.0, None, None), RankedCost(9.0, 8.0, 10.0)]) == [1, 1]


def test_the_worst_of_builds_is_the_dearest_or_the_least_gain():
    found = [RankedCost(1.0, None, None), RankedCost(3.0, None, None)]
    assert worst_of(found).value == 3.0 and worst_of(found, gain=True).value == 1.0
