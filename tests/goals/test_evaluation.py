"""The four outcomes of a goal, and the one verdict on all goals of a run."""

import dataclasses
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from recallatk.analysis.latency import percentiles
from recallatk.core import Load, Trial
from recallatk.datasets import make_queries
from recallatk.errors import UsageError
from recallatk.goals import GoalEstimate, GoalResult, Outcome, Verdict, evaluate, parse_goal, sort_goals
from recallatk.goals.evaluation import target_estimate
from recallatk.goals.runs import goals_of, run_verdict
from recallatk.testing import tiny_dataset
from recallatk.truths import ground_truth

sys.path.insert(0, str(Path(__file__).parents[1] / "reporting"))
from made_runs import make_measurement, make_run


class Fixed:
    def __init__(self, **found):
        self.found = found

    def estimate(self, goal):
        return self.found.get(goal.text.split()[0])


def outcome(text, found):
    (result,) = evaluate([parse_goal(text)], Fixed(**{text.split()[0]: found}))
    return result.outcome


@pytest.mark.parametrize(
    ("low", "value", "high", "expected"),
    [
        (0.951, 0.96, 0.97, "met"),
        (0.95, 0.96, 0.97, "met"),
        (0.94, 0.96, 0.97, "undecided"),
        (0.90, 0.94, 0.96, "undecided"),
        (0.90, 0.92, 0.949, "missed"),
    ],
)
def test_a_recall_is_decided_by_its_bounds_and_not_by_its_mean(low, value, high, expected):
    assert outcome("recall@10 >= 0.95", GoalEstimate(value, low, high, sampled=True)) == expected


@pytest.mark.parametrize(
    ("text", "value", "expected"),
    [
        ("memory <= 1MiB", 1_700_000, "missed"),
        ("memory <= 2MiB", 1_700_000, "met"),
        ("qps >= 100", 99.0, "missed"),
        ("qps ≥ 100", 100.0, "met"),
        ("build <= 10min", 599.0, "met"),
        ("size <= 1KiB", 1025, "missed"),
    ],
)
def test_a_cost_without_bounds_is_decided_by_its_value(text, value, expected):
    assert outcome(text, GoalEstimate(value)) == expected


def test_a_percentile_whose_sample_is_too_small_for_a_bound_is_undecided():
    assert outcome("p99 <= 5ms", GoalEstimate(2.0, 1.5, None, sampled=True)) == "undecided"
    assert outcome("p99 <= 5ms", GoalEstimate(9.0, 8.0, None, sampled=True)) == "missed"
    assert outcome("p95 <= 5ms", GoalEstimate(4.9, 4.5, 5.2, sampled=True)) == "undecided"
    assert outcome("p95 <= 5ms", GoalEstimate(4.9, 4.5, 4.99, sampled=True)) == "met"


def test_what_nobody_measured_is_not_measured():
    assert (
        outcome("recall@10 >= 0.5", None) == outcome("memory <= 1GiB", GoalEstimate(None)) == "not measured"
    )


@pytest.mark.parametrize(
    ("outcomes", "said", "met"),
    [
        ([], None, None),
        (["met", "met"], "PASS", True),
        (["met", "undecided"], "UNDECIDED", None),
        (["met", "not measured"], "UNDECIDED", None),
        (["not measured", "missed"], "FAIL", False),
    ],
)
def test_all_goals_together_pass_fail_or_are_undecided(outcomes, said, met):
    verdict = Verdict(tuple(GoalResult("x", Outcome(each)) for each in outcomes), 1)
    assert (verdict.outcome, verdict.met) == (said, met)
    plain = verdict.to_dict()
    assert list(plain) == ["outcome", "met", "trial", "goals"]
    assert all(list(each) == ["text", "outcome", "value", "low", "high", "note"] for each in plain["goals"])


def test_percent_and_both_signs_say_the_same():
    assert parse_goal("recall@10 >= 80%") == parse_goal("recall@10 ≥ 0.8") == parse_goal("recall@10>=.8")
    assert parse_goal("ndcg@10 loss ≤ 0.5%") == parse_goal("ndcg@10 loss <= 0.005")


@given(st.integers(1, 9999))
def test_a_percentage_is_its_share_to_the_last_bit(hundredths):
    text = f"{hundredths // 100}.{hundredths % 100:02}"
    assert parse_goal(f"recall@10 >= {text}%") == parse_goal(f"recall@10 >= {hundredths / 10_000!r}")


def test_an_unknown_measure_is_refused_with_the_known_ones():
    with pytest.raises(UsageError, match=r"no measure 'banana'\. Accepted: recall@10 .*qps >= 1000"):
        parse_goal("banana >= 3")


def test_the_measure_decides_whether_a_goal_is_a_target_or_a_budget():
    targets, budgets = sort_goals(["p95 <= 5ms", "recall@10 >= 0.9", "qps >= 10", "p5(recall@10) >= 0.5"])
    assert [str(each) for each in targets] == ["recall@10 >= 0.9", "p5(recall@10) >= 0.5"]
    assert [str(each) for each in budgets] == ["p95 <= 5ms", "qps >= 10"]


@given(st.lists(st.integers(0, 10), min_size=30, max_size=200), st.integers(1, 50))
def test_the_bounds_of_a_percentile_are_those_of_the_binomial(tenths, percent):
    values = np.array(tenths) / 10
    found = target_estimate(parse_goal(f"p{percent}(recall@10) >= 0.5"), values)
    # Whoever claims that the percentile is above `low` claims that fewer than that share lie below it.
    below = int((values < found.low).sum())
    assert stats.binom.sf(below - 1, len(values), percent / 100) >= 0.94 or found.low == 0
    assert found.low <= found.value <= found.high


def test_a_mean_is_bounded_on_both_sides():
    values = np.tile([1.0, 0.9, 0.8], 400)
    found = target_estimate(parse_goal("recall@10 >= 0.85"), values)
    assert found.value == pytest.approx(0.9)
    assert 0.88 < found.low < found.value < found.high < 0.92


EF10, EF40, EF80 = (Trial("hnsw", (), (("ef", ef),)) for ef in (10, 40, 80))


def measured(trial, recall, scale=1.0, queries=400, **others):
    """A trial of whose queries a share found everything, and the others nothing."""
    found = make_measurement(trial, recall, scale, queries, **others)
    values = (np.arange(queries) < round(recall * queries)).astype(float)
    score = dataclasses.replace(found.score, per_query={"recall@10": values})
    return dataclasses.replace(found, score=score)


def stated(*goals, runs=None):
    measurements = runs or [measured(EF10, 0.6, 0.5), measured(EF40, 0.95), measured(EF80, 0.99, 2.0)]
    return make_run(measurements, settings={"tune": {"target": list(goals), "budget": []}})


def test_the_verdict_is_on_the_cheapest_setting_that_meets_every_goal():
    verdict = run_verdict(stated("recall@10 >= 0.9", "memory <= 1GiB"))
    assert (verdict.outcome, verdict.trial) == ("PASS", 2)
    assert run_verdict(stated("recall@10 >= 0.97")).trial == 3


@pytest.mark.parametrize(
    "goal",
    ["qps >= 100", "p50(recall@10) >= 0.2", "robust(0.5)@10 >= 0.5", "memory <= 100MiB", "build <= 10min"],
)
def test_every_kind_of_goal_is_met_where_it_is(goal):
    verdict = run_verdict(stated(goal))
    assert verdict.outcome == "PASS", verdict
    assert verdict.goals[0].value is not None


@pytest.mark.parametrize("goal", ["qps >= 1000000000", "memory <= 1MiB", "size <= 1MiB"])
def test_a_goal_that_is_missed_by_every_setting_fails_the_run(goal):
    assert run_verdict(stated(goal)).outcome == "FAIL"


def test_a_goal_between_the_bounds_is_undecided():
    verdict = run_verdict(stated("recall@10 >= 0.949", runs=[measured(EF40, 0.95)]))
    assert (verdict.outcome, verdict.met) == ("UNDECIDED", None)
    (goal,) = verdict.goals
    assert goal.low < 0.949 < goal.high


def test_a_text_that_is_no_goal_is_shown_and_never_dropped():
    run = stated("recall@10 >= 0.9", "nonsense")
    assert [each.text for each in goals_of(run).unreadable] == ["nonsense"]
    verdict = run_verdict(run)
    assert verdict.outcome == "UNDECIDED"
    assert [(each.text, str(each.outcome)) for each in verdict.goals] == [
        ("recall@10 >= 0.9", "met"),
        ("nonsense", "not measured"),
    ]


def test_a_setting_counts_by_its_worst_build():
    again = dataclasses.replace(EF40, repeat=1)
    runs = [measured(EF40, 0.95), measured(again, 0.5), measured(EF80, 0.95, 2.0)]
    verdict = run_verdict(stated("recall@10 >= 0.9", runs=runs))
    assert (verdict.outcome, verdict.trial) == ("PASS", 3)


@pytest.mark.parametrize("first", [True, False])
def test_the_figures_of_a_verdict_are_those_of_the_trial_that_it_names(first):
    again = dataclasses.replace(EF40, repeat=1)
    recalls = (0.995, 0.945) if first else (0.945, 0.995)
    runs = [measured(EF40, recalls[0]), measured(again, recalls[1], 0.5)]
    verdict = run_verdict(stated("recall@10 >= 0.5", "p95 <= 1s", runs=runs))
    assert verdict.outcome == "PASS"
    named = runs[verdict.trial - 1]
    assert verdict.goals[0].value == named.score.per_query["recall@10"].mean()
    assert verdict.goals[1].value == percentiles(named.calls)["p95"].value
    assert verdict.trial == (2 if first else 1), "the worse of two that meet everything"


def test_throughput_is_that_of_a_closed_loop_where_one_was_measured():
    loaded = dataclasses.replace(EF40, load=Load("throughput", clients=4))
    alone = measured(EF40, 0.95)
    rate = run_verdict(stated("qps >= 1", runs=[alone])).goals[0].value
    both = run_verdict(stated("qps >= 1", runs=[alone, measured(loaded, 0.95)])).goals[0].value
    assert both == pytest.approx(4 * rate, rel=0.1)


def test_a_segment_is_evaluated_where_the_columns_are_there():
    dataset = tiny_dataset(60, 40)
    vectors = dataset.queries.vectors.read(0, 40)
    queries = make_queries(vectors, metadata={"kind": ["a"] * 20 + ["b"] * 20})
    dataset = dataclasses.replace(dataset, queries=queries)
    truth = ground_truth(dataset, depth=10)
    answers = np.array(truth.rows)
    answers[20:] = -1
    trial = make_measurement(EF40, 0.5, queries=40, answers=answers)
    run = stated("recall@10 >= 0.8 in kind=a", "recall@10 >= 0.8 in kind=b", runs=[trial])
    assert [str(each.outcome) for each in run_verdict(run).goals] == ["not measured"] * 2
    found = run_verdict(run, truth, dataset).goals
    assert [str(each.outcome) for each in found] == ["met", "missed"]
    assert [each.value for each in found] == [1.0, 0.0]


def test_a_verdict_chooses_no_trial_that_the_settings_no_longer_name():
    kept = [measured(EF10, 0.99, 0.5), measured(dataclasses.replace(EF40, load=Load("throughput")), 0.99)]
    asked = stated("recall@10 >= 0.9", runs=[*kept, measured(EF40, 0.95)])
    assert run_verdict(asked).trial == 1
    grown = dataclasses.replace(asked, planned=(EF40,))
    verdict = run_verdict(grown)
    assert (verdict.outcome, verdict.trial, verdict.goals[0].value) == ("PASS", 1, 0.95)
    assert grown.best("recall@10 >= 0.9").trial == EF40
    with pytest.raises(UsageError, match=r"no measured setting meets recall@10 >= 0.98. Nearest: hnsw.ef=40"):
        grown.best("recall@10 >= 0.98")
    # The throughput of the kept load is not that of the settings.
    alone = stated("qps >= 1", runs=[measured(EF40, 0.95)])
    grown = dataclasses.replace(grown, settings=alone.settings)
    assert run_verdict(grown).goals == run_verdict(alone).goals
    # Nothing of the new settings is measured yet.
    begun = dataclasses.replace(asked, planned=(EF80,))
    assert (run_verdict(begun).outcome, run_verdict(begun).trial) == ("UNDECIDED", None)


def test_an_empty_run_has_measured_none_of_its_goals():
    verdict = run_verdict(make_run([], settings={"tune": {"target": ["recall@10 >= 0.9"]}}))
    assert verdict.outcome == "UNDECIDED" and verdict.trial is None
    assert len(verdict.goals) == 1
