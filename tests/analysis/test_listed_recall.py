"""Recall of single lists: checked against the definition by counting over all ways to break ties."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recallatk.analysis.listed_recall import listed_recall

lists = st.lists(st.integers(0, 4), min_size=1, max_size=6).map(sorted)
answers = st.lists(st.one_of(st.none(), st.integers(0, 9)), max_size=8)


@given(lists, answers, st.integers(1, 8))
def test_recall_is_the_best_over_all_orders_of_tied_rows(distances, answer, k):
    ids = list(range(len(distances)))
    found = listed_recall(ids, np.array(distances, float), answer, k, complete=True)
    kept = list(dict.fromkeys(each for each in answer if each is not None))[:k]
    wanted = min(k, len(ids))
    orders = (sorted(order, key=lambda each: distances[each]) for order in permutations(ids))
    best = max(len(set(order[:wanted]) & set(kept)) for order in orders)
    assert found.value == pytest.approx(best / wanted)
    assert found.strict == pytest.approx(len(set(ids[:wanted]) & set(kept)) / wanted)
    assert found.short == (len(kept) < wanted)


def test_the_denominator_stays_k_if_more_rows_exist():
    assert listed_recall([1, 2], np.array([0.1, 0.2]), [1], 2, complete=False).value == 0.5
    assert listed_recall([1], np.array([0.1]), [1], 5, complete=True).value == 1.0


def test_a_query_without_eligible_rows_has_no_recall():
    assert listed_recall([], np.array([]), [3], 10, complete=True).value is None


def test_ties_that_reach_the_end_of_an_incomplete_list_are_reported():
    tied = np.array([0.1, 0.2, 0.2])
    assert listed_recall([1, 2, 3], tied, [1, 9], 2, complete=False).cut_ties
    assert not listed_recall([1, 2, 3], tied, [1, 9], 2, complete=True).cut_ties
    assert not listed_recall([1, 2, 3], np.array([0.1, 0.2, 0.3]), [1, 9], 2, complete=False).cut_ties


def test_repeats_and_padding_are_no_hits():
    found = listed_recall([1, 2, 3], np.array([0.1, 0.2, 0.3]), [1, 1, None, 2], 3, complete=False)
    assert found.value == pytest.approx(2 / 3)
    assert found.returned == 2
