"""Goals relative to a baseline: their text, their limits, and where they are refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commands import recallatk
from recallatk import tune
from recallatk.bench.settings import SettingsError, settings_from
from recallatk.errors import UsageError
from recallatk.goals import RelativeGoal, parse_goal, parse_goal_with_baseline
from recallatk.probing import probe
from recallatk.testing import tiny_dataset


@pytest.mark.parametrize(
    ("text", "baseline", "limit"),
    [
        ("recall@10 >= baseline - 0.01", 0.9, 0.89),
        ("recall@10 ≥ baseline \u2212 1%", 0.9, 0.89),
        ("recall@10 >= baseline", 0.9, 0.9),
        ("recall@10 >= Baseline + 0.02 in lang=de", 0.9, 0.92),
        ("p5(recall@10) >= 0.5 x baseline", 0.6, 0.3),
        ("nDCG@10 loss <= baseline + 0.005", 0.01, 0.015),
        ("p95 <= 1.2x baseline", 5.0, 6.0),
        ("p99 <= 1.2× baseline + 500us", 5.0, 6.5),
        ("memory <= 1.1*baseline", 1000, 1100),
        ("size <= baseline + 1KiB", 1000, 2024),
        ("build <= baseline + 1min", 10.0, 70.0),
        ("qps >= 0.9x baseline", 1000, 900),
    ],
)
def test_a_relative_goal_has_the_limit_that_its_baseline_gives(text, baseline, limit):
    goal = parse_goal_with_baseline(text)
    assert goal.limit(baseline) == pytest.approx(limit, rel=1e-12)
    assert parse_goal_with_baseline(str(goal)) == goal


@given(
    st.sampled_from(["recall@10", "p5(recall@10)", "robust(0.8)@10", "recall@5 in a=b"]),
    st.floats(0.001, 1000).map(lambda each: round(each, 6)),
    st.floats(-0.999, 0.999).map(lambda each: round(each, 6)),
)
def test_the_text_of_a_relative_goal_reads_back_to_it(subject, factor, shift):
    measure, _, segment = subject.partition(" in ")
    goal = parse_goal(f"{measure} >= 1{f' in {segment}' if segment else ''}")
    relative = RelativeGoal(goal, factor, shift)
    assert parse_goal_with_baseline(str(relative)) == relative


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("recall@10 >= baseline - 5ms", "'5ms' is not a number. Accepted: a share such as 0.95 or 95%"),
        ("recall@10 >= baseline - 1", "a difference of 1. Accepted: recall@10 >= baseline - 0.01"),
        ("recall@10 <= baseline", "Accepted: recall@10 >="),
        ("recall@10 >= baseline -", "Accepted: recall@10 >= baseline - 0.01 or recall@10 >= 0.99x baseline"),
        ("recall@10 >= 0x baseline", "a factor of 0"),
        ("p95 <= baseline + 5", "5 has no unit. Did you mean 5ms?"),
        ("p95 <= baseline + 1GiB", "'1GiB' is not a duration"),
        ("p95 >= 1.2x baseline", "Accepted: p95 <="),
        ("memory <= baseline + 5ms", "'5ms' is not a size"),
        ("memory <= 1.1y baseline", "Accepted: memory <= 1.2x baseline or memory <= baseline + 100MiB"),
        ("qps >= baseline - 5ms", "queries per second"),
        ("banana >= baseline", "no measure 'banana'"),
        ("p95 <= 1.2x baseline in lang=de", "p95 is not measured by segment"),
    ],
)
def test_values_that_do_not_fit_are_refused_by_name(text, said):
    with pytest.raises(UsageError) as refused:
        parse_goal_with_baseline(text)
    assert repr(text) in str(refused.value)
    assert said in str(refused.value)


def test_without_a_baseline_a_relative_goal_is_refused_everywhere(tmp_path):
    goal = "recall@10 >= baseline - 0.01"
    said = (
        "there is no baseline here, as recallatk gate has one. Accepted: a value, such as recall@10 >= 0.95"
    )
    data = tiny_dataset()
    for refusing in (
        lambda: parse_goal(goal),
        lambda: tune(data, target=goal),
        lambda: probe("duckdb://none?table=t", goals=[goal]),
    ):
        with pytest.raises(UsageError, match=said):
            refusing()
    with pytest.raises(SettingsError, match=said):
        settings_from(
            {
                "data": {"corpus": "c.npy", "queries": "q.npy", "metric": "l2"},
                "tune": {"target": goal},
                "engine": [{"name": "exact"}],
            }
        )
    for words in (("run", "c.npy"), ("tune", "c.npy"), ("audit", "run")):
        ran = recallatk(*words, "--target", goal, cwd=tmp_path)
        assert ran.returncode == 2
        assert said in ran.stderr
