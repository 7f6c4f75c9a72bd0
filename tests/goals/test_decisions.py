"""Decisions of a search about targets and budgets."""

import numpy as np
import pytest

from recallatk.analysis.betting import SequentialVerdict
from recallatk.goals import parse_goal
from recallatk.goals.decisions import (
    bounds_clear,
    broken_budget,
    confirms,
    means_reach,
    sequential_verdict,
)

TARGETS = [parse_goal("recall@10 >= 0.9"), parse_goal("p5(recall@10) >= 0.5 in kind=a")]
GOOD, BAD, NONE = np.full(200, 0.99), np.full(200, 0.5), np.full(200, np.nan)


def test_every_mean_has_to_reach_its_threshold_and_a_segment_without_queries_is_not_in_the_way():
    assert means_reach(TARGETS, [GOOD, np.ones(200)])
    assert means_reach(TARGETS, [GOOD, NONE])
    assert not means_reach(TARGETS, [BAD, np.ones(200)])
    assert not means_reach(TARGETS, [GOOD, np.zeros(200)])


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ([GOOD, np.ones(200)], SequentialVerdict.PASS),
        ([GOOD, NONE], SequentialVerdict.UNDECIDED),
        ([BAD, NONE], SequentialVerdict.FAIL),
        ([GOOD, np.zeros(200)], SequentialVerdict.FAIL),
        ([GOOD[:5], np.ones(5)], SequentialVerdict.UNDECIDED),
    ],
)
def test_one_failed_test_fails_and_all_have_to_pass(values, verdict):
    assert sequential_verdict(TARGETS, values, 0.05) is verdict


def test_nothing_proves_a_share_of_one():
    (target,) = [parse_goal("recall@10 >= 1")]
    assert sequential_verdict([target], [np.ones(1000)], 0.05) is SequentialVerdict.UNDECIDED
    assert sequential_verdict([target], [np.array([1.0, 0.9])], 0.05) is SequentialVerdict.FAIL


def test_bounds_clear_where_all_do_and_come_in_the_order_of_the_targets():
    cleared, bounds = bounds_clear(TARGETS, [GOOD, np.ones(200)], 0.05)
    assert cleared and len(bounds) == 2 and bounds[0] < 0.99
    assert not bounds_clear(TARGETS, [GOOD, np.full(200, 0.94)], 0.05)[0]


def test_held_out_queries_confirm_by_their_mean_and_never_without_any():
    assert confirms(TARGETS, [GOOD, np.ones(200)], 0.05)
    assert not confirms(TARGETS, [GOOD, NONE], 0.05)
    assert not confirms(TARGETS, [np.full(200, 0.899), np.ones(200)], 0.05)


def test_the_first_broken_budget_is_named_with_its_cost():
    budgets = [parse_goal(each) for each in ("p95 <= 5ms", "qps >= 100", "memory <= 1MiB")]
    assert broken_budget(budgets, {"p95": 5.0, "qps": 100.0, "memory": None}) is None
    assert broken_budget(budgets, {"p95": 5.0, "qps": 99.0, "memory": 2 << 20}) == (budgets[1], 99.0)
    assert broken_budget(budgets, {"memory": 1.2 * (1 << 20)}, margin=1.3) is None
    assert broken_budget(budgets, {"qps": 80.0}, margin=1.3) is None
    assert broken_budget(budgets, {"memory": 1.4 * (1 << 20)}, margin=1.3) == (budgets[2], 1.4 * (1 << 20))
