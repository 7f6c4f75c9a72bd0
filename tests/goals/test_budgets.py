"""What people may say of a budget, and who keeps to it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recallatk.core.tuned import Candidate
from recallatk.errors import UsageError
from recallatk.goals import Budget, parse_goal
from recallatk.goals.budget import LATENCIES

budgets = st.one_of(
    st.builds(Budget, st.sampled_from([*LATENCIES, "build"]), st.floats(1e-6, 1e9)),
    st.builds(Budget, st.sampled_from(["memory", "size"]), st.integers(1, 1 << 50)),
    st.builds(Budget, st.just("qps"), st.integers(1, 10**9).map(float)),
)


@given(budgets)
def test_the_text_of_a_budget_reads_back_to_it(budget):
    assert parse_goal(str(budget)) == budget


@pytest.mark.parametrize(
    ("text", "name", "limit"),
    [
        ("p95 <= 5ms", "p95", 5),
        ("p99<=0.02s", "p99", 20),
        ("p99.9 ≤ 1s", "p99.9", 1000),
        ("memory <= 2GiB", "memory", 2 << 30),
        ("size <= 1GB", "size", 1 << 30),
        ("build <= 10min", "build", 600),
        ("qps >= 1000", "qps", 1000),
    ],
)
def test_every_form_has_its_limit(text, name, limit):
    assert parse_goal(text) == Budget(name, limit)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "5ms",
        "p95 < 5ms",
        "p95 >= 5ms",
        "p95 <= 5",
        "p95 <= 0ms",
        "p97 <= 5ms",
        "memory <= lots",
        "memory >= 1GiB",
        "qps <= 5",
        "qps >= 0",
        "qps >= many",
        "cost <= 5ms",
    ],
)
def test_what_is_no_budget_is_refused_with_what_is(text):
    with pytest.raises(UsageError, match="Accepted"):
        parse_goal(text)


def test_what_was_not_measured_is_neither_within_nor_beyond():
    candidate = Candidate("x", (), (), latency_ms={"p95": 4.0, "p99": None}, qps=900.0)
    kept = {
        text: parse_goal(text).within(parse_goal(text).of(candidate))
        for text in ("p95 <= 4ms", "p95 <= 3ms", "p99 <= 9ms", "memory <= 1GiB", "qps >= 1000")
    }
    assert list(kept.values()) == [True, False, None, None, False]
