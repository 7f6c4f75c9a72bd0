"""The front, its knee, the price of recall, the worst segment, and why nothing meets a target."""

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recallatk.analysis.betting import lower_bound
from recallatk.core import Mean, Weights
from recallatk.core.tuned import Attempt, Candidate
from recallatk.errors import UsageError
from recallatk.goals import parse_goal
from recallatk.testing import tiny_dataset
from recallatk.truths import ground_truth
from recallatk.tuning.candidates import cost_of, front_of
from recallatk.tuning.explanation import (
    binding_of,
    knee_of,
    nearest_of,
    prices_of,
    unprovable_of,
    worst_segment,
)
from recallatk.tuning.query_split import Side

TARGET = parse_goal("recall@10 >= 0.95")


def made(recall, p95=1.0, *, engine="hnswlib", build=(("M", 16),), ef=64, **more):
    return Candidate(
        engine,
        build,
        (("ef", ef),),
        measures={} if recall is None else {"recall@10": Mean(recall, None, 1000)},
        latency_ms={"p95": p95},
        queries=1000,
        **more,
    )


points = st.lists(st.tuples(st.floats(0.1, 1), st.floats(0.01, 100)), min_size=1, max_size=30)


@given(points)
def test_nothing_on_the_front_is_beaten(found):
    candidates = [made(recall, cost) for recall, cost in found]
    front = front_of(candidates)
    for each in front:
        recall, cost = each.measures["recall@10"].value, cost_of(each, "p95")
        assert not any(r >= recall and c <= cost and (r, c) != (recall, cost) for r, c in found)


@given(points)
def test_prices_are_between_measured_points_and_multiply(found):
    front = front_of([made(recall, cost) for recall, cost in found])
    prices = prices_of(front)
    recalls = [each.measures["recall@10"].value for each in front]
    costs = [cost_of(each, "p95") for each in front]
    for price in prices:
        assert min(recalls) <= price.low < price.high <= max(recalls)
        assert price.ratio >= 1 - 1e-9
    assert math.prod(each.ratio for each in prices) <= max(costs) / min(costs) * (1 + 1e-9)


def test_a_price_is_the_ratio_of_two_measured_costs():
    front = front_of([made(0.9, 1.0), made(0.95, 2.0), made(0.98, 4.2)])
    low, high = prices_of(front, "recall@10")
    assert (low.low, low.high, low.ratio) == (0.9, 0.95, pytest.approx(2.0))
    assert (high.low, high.high, high.ratio) == (0.95, 0.98, pytest.approx(2.1))


def test_nothing_is_said_beyond_what_was_measured():
    assert prices_of(front_of([made(0.91, 1.0), made(0.94, 2.0)])) == ()
    assert prices_of(()) == ()


def test_the_knee_is_where_the_curve_bends():
    points = ((0.5, 1.0), (0.9, 1.1), (0.99, 1.2), (0.992, 8.0), (0.994, 16.0))
    front = front_of([made(recall, cost) for recall, cost in points])
    assert knee_of(front).measures["recall@10"].value == 0.99


@pytest.mark.parametrize("count", [0, 1, 2])
def test_few_points_have_no_knee(count):
    assert knee_of([made(0.9 + 0.01 * place, 1.0 + place) for place in range(count)]) is None


def test_a_straight_line_and_a_hollow_one_have_no_knee():
    hollow = [made(recall, cost) for recall, cost in ((0.9, 1.0), (0.91, 50.0), (0.99, 100.0))]
    assert knee_of(hollow) is None


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0.1, 100)), max_size=12))
def test_the_knee_is_on_the_front(found):
    front = front_of([made(recall, cost) for recall, cost in found])
    knee = knee_of(front)
    assert knee is None or knee in front


def test_the_front_follows_what_is_preferred():
    small, fast = made(0.9, 9.0, memory_bytes=10, qps=5.0), made(0.9, 1.0, memory_bytes=99, qps=50.0)
    assert front_of([small, fast]) == (fast,)
    assert front_of([small, fast], "qps") == (fast,)
    assert front_of([small, fast], "memory") == (small,)
    assert front_of([small, fast], "build") == ()


@pytest.mark.parametrize("name", ["ndcg@10 loss", "mrr@5 loss in kind=a"])
def test_of_a_loss_less_is_better(name):
    little, much, dear = (
        Candidate("x", (), (("ef", ef),), {name: Mean(loss, None, 9)}, latency_ms={"p95": cost})
        for ef, loss, cost in ((1, 0.001, 2.0), (2, 0.2, 1.0), (3, 0.3, 9.0))
    )
    assert front_of([little, much, dear]) == (much, little)
    # Round values are of recall, and a loss has none.
    assert prices_of((much, little)) == prices_of((much, little), name) == ()


def test_the_worst_segment_needs_thirty_queries():
    values = np.array([1.0] * 40 + [0.8] * 30 + [0.0] * 5 + [np.nan] * 3)
    columns = pa.table({"kind": ["a"] * 40 + ["b"] * 30 + ["c"] * 8})
    name, mean = worst_segment(values, columns, ["kind"])
    assert (name, mean.value, mean.n) == ("kind=b", pytest.approx(0.8), 30)
    assert mean.low <= mean.value <= mean.high


def test_where_all_segments_are_small_the_mean_says_so():
    name, mean = worst_segment(np.array([1.0, 0.5]), pa.table({"kind": ["a", "b"]}), ["kind"])
    assert (name, mean.value, mean.n) == ("kind=b", 0.5, 1)


def test_no_segment_without_columns():
    assert worst_segment(np.ones(3), None, []) is None
    assert worst_segment(np.array([np.nan]), pa.table({"kind": ["a"]}), ["kind"]) is None
    with pytest.raises(UsageError, match="no query column 'kind'"):
        worst_segment(np.ones(3), None, ["kind"])


@pytest.mark.parametrize(
    ("candidates", "said"),
    [
        ([made(0.90, 1, ef=64), made(0.901, 2, ef=512)], "The build is the limit"),
        ([made(0.80, 1, ef=64), made(0.90, 2, ef=512)], "Search effort is the limit"),
        ([made(0.90, engine="usearch", build=(("storage", "i8"),))], "Quantization is the limit: storage=i8"),
        ([made(0.90, engine="faiss-sq", build=(("type", "SQ4"),))], "Quantization is the limit: type=SQ4"),
        ([made(0.90, engine="usearch", build=(("storage", "f32"),))], "The build is the limit"),
    ],
)
def test_a_target_that_nobody_reaches_binds(candidates, said):
    text = binding_of([TARGET], [], candidates)
    assert text.startswith("recall@10 >= 0.95 is out of reach: the best of ")
    assert "reaches 0.90" in text and said in text


@pytest.mark.parametrize(
    ("budget", "said"),
    [
        ("p95 <= 1ms", "takes 4 ms (hnswlib M=16 ef=64). Within the budget, the best recall@10 is 0.9000"),
        ("memory <= 1MiB", "takes 8.0 MiB (hnswlib M=16 ef=64). Quantization is the limit"),
        ("build <= 1s", "takes 60.0 s (hnswlib M=16 ef=64). The build is the limit"),
        ("qps >= 1000", "reaches 100 queries per second (hnswlib M=16 ef=64). Search effort is the limit"),
    ],
)
def test_a_budget_that_no_setting_keeps_binds(budget, said):
    good = made(0.97, 4.0, memory_bytes=8 << 20, build_seconds=60.0, qps=100.0)
    quick = made(0.90, 0.5, ef=10, memory_bytes=8 << 20, build_seconds=60.0, qps=900.0)
    text = binding_of([TARGET], [parse_goal(budget)], [good, quick])
    assert (
        text.startswith(f"{budget} is out of reach: the cheapest setting that meets recall@10 >= 0.95 ")
        and said in text
    )


def test_constraints_may_bind_only_together():
    fast, small = made(0.97, 1.0, memory_bytes=8 << 20), made(0.97, 9.0, memory_bytes=1 << 20, ef=9)
    budgets = [parse_goal("p95 <= 2ms"), parse_goal("memory <= 2MiB")]
    assert "within all of p95 <= 2ms and memory <= 2MiB" in binding_of([TARGET], budgets, [fast, small])


def test_what_is_reached_but_not_proved_is_said():
    assert "Add queries or lower the target" in binding_of([TARGET], [], [made(0.9501)])


def side(weights):
    dataset = tiny_dataset(50, len(weights), 4)
    counts = Weights("count", np.array(weights, float))
    return Side("tune", np.arange(len(weights)), dataset, ground_truth(dataset, depth=1), weights=counts)


def test_a_query_whose_weight_keeps_every_bound_below_the_target_is_named():
    heavy = side([100.0] + [1.0] * 400)
    why = unprovable_of([TARGET], heavy, 0.05)
    bound = lower_bound(np.ones(401), 0.95, weights=heavy.weights.values)
    assert bound < 0.7
    assert f"the bound on 401 queries would be {bound:.3f}" in why
    assert "one query has 20.0% of the weight by count" in why
    said = binding_of([TARGET], [], [made(0.9501)], unprovable=why)
    assert why in said and "Add queries" not in said
    assert unprovable_of([TARGET], side([1.0] * 400), 0.05) == ""


def test_where_nothing_was_measured_the_reason_is_said():
    skipped = Attempt("hnswlib", (), None, 100, "crashed", "out of memory")
    assert binding_of([TARGET], [], [], [skipped]) == "No setting could be measured: out of memory."


def test_the_nearest_miss_is_the_one_that_misses_least():
    budgets = [parse_goal("p95 <= 2ms")]
    slow, lossy, unknown = made(0.96, 20.0), made(0.94, 1.0), made(None, 0.1)
    assert nearest_of([TARGET], budgets, [slow, lossy, unknown]) is lossy
    assert nearest_of([TARGET], budgets, [unknown]) is None
