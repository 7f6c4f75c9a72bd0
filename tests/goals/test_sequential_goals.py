"""Goals tested query by query: how often they are wrong, how early they stop, and their bounds."""

import numpy as np
import pytest
from scipy import stats

from recallatk.core.judgments import Outcome
from recallatk.goals import parse_goal_with_baseline
from recallatk.goals.sequential_goals import EARLY_ALPHA, SequentialGoal, is_sequential

RELATIVE = parse_goal_with_baseline("recall@10 >= baseline - 0.01")
PAIRS, QUERIES = 300, 400


def asked(goal, values, baseline=None, weights=None, heaviest=1.0):
    test = SequentialGoal(goal, heaviest=heaviest)
    for start in range(0, len(values), 32):
        if test.decided:
            break
        part = slice(start, start + 32)
        test.take(
            values[part], None if baseline is None else baseline[part],
            None if weights is None else weights[part],
        )  # fmt: skip
    return test


@pytest.mark.parametrize("rare", [True, False])
def test_a_loss_at_the_limit_is_passed_or_failed_at_most_as_often_as_promised(rare):
    random, found = np.random.default_rng(1), []
    for _ in range(PAIRS):
        before = random.integers(5, 11, QUERIES) / 10
        if rare:
            after = np.where(random.random(QUERIES) < 0.01 / before.mean(), 0.0, before)
        else:
            after = before + random.choice([-0.1, 0.1], QUERIES, p=[0.55, 0.45])
        found.append(asked(RELATIVE, np.clip(after, 0, 1.1), before).outcome)
    most = stats.binom.ppf(0.999, PAIRS, EARLY_ALPHA)
    assert found.count(Outcome.MET) <= most
    assert found.count(Outcome.MISSED) <= most


@pytest.mark.parametrize(
    ("text", "recall", "outcome"),
    [
        ("recall@10 >= 0.95", 0.985, Outcome.MET),
        ("recall@10 >= 0.95", 0.90, Outcome.MISSED),
        ("robust(0.8)@10 >= 0.9", 0.99, Outcome.MET),
        ("p5(recall@10) >= 0.2", 0.9, Outcome.MET),
        ("recall@10 >= baseline - 0.05", 0.9, Outcome.MET),
        ("recall@10 >= 0.99x baseline", 0.7, Outcome.MISSED),
    ],
)
def test_clear_goals_need_few_queries_and_have_bounds_that_hold(text, recall, outcome):
    random, goal = np.random.default_rng(2), parse_goal_with_baseline(text)
    assert is_sequential(goal)
    values = random.binomial(10, recall, 2_000) / 10
    baseline = np.full(2_000, 0.9) if "baseline" in text else None
    test = asked(goal, values, baseline)
    found = test.judged()
    assert found.result.outcome is outcome
    assert found.queries < 700
    if found.result.low is not None and "robust" not in text:
        assert found.result.low <= recall <= found.result.high
        assert found.result.low >= found.limit or outcome is not Outcome.MET
        assert found.result.high <= found.limit or outcome is not Outcome.MISSED


def test_queries_without_a_value_on_either_side_do_not_count():
    values, baseline = np.ones(1_000), np.ones(1_000)
    values[::2], baseline[::5] = np.nan, np.nan
    found = asked(RELATIVE, values, baseline).judged()
    assert found.queries == 400
    assert found.result.outcome is Outcome.UNDECIDED


def test_weights_count_by_the_heaviest():
    weights = np.where(np.arange(2_000) % 2, 1.0, 10.0)
    light = np.where(np.arange(2_000) % 2, 0.0, 1.0)
    goal = parse_goal_with_baseline("recall@10 >= 0.7")
    assert asked(goal, light).outcome is Outcome.MISSED
    assert asked(goal, light, None, weights, 10.0).outcome is Outcome.MET


@pytest.mark.parametrize(
    "text",
    ["p95 <= 5ms", "p95 <= 1.2x baseline", "rde@10 <= 0.01", "p5(recall@10) >= baseline - 0.1",
     "recall@10 >= 1", "nDCG@10 loss <= 0.01", "recall@10 >= 0.2x baseline - 0.3"],
)  # fmt: skip
def test_what_no_test_decides_is_left_to_the_bound_over_all_queries(text):
    assert not is_sequential(parse_goal_with_baseline(text))
