"""Goals of probes: decided in sequence, judged at the end, or refused."""

import numpy as np
import pytest

from recallatk.core.judgments import Outcome
from recallatk.errors import UsageError
from recallatk.goals import parse_goal
from recallatk.probing.decision import RecallDecision, latency_percentiles

NO_CALLS = np.array([])


def decided(values, *goals, k=10, milliseconds=NO_CALLS, sampled=False):
    decision = RecallDecision([parse_goal(each) for each in goals], k, sampled=sampled)
    for value in values:
        decision.take(value)
    verdict = decision.verdict(np.array(values), np.array(milliseconds), None)
    return decision, verdict


def test_a_probe_far_below_its_target_stops_early_and_fails():
    decision, verdict = decided([0.2] * 10, "recall@10 >= 0.95")
    assert decision.decided
    assert verdict.outcome == "FAIL"
    assert verdict.goals[0].high <= 0.95


def test_a_probe_far_above_its_target_passes():
    decision, verdict = decided([1.0] * 200, "recall@10 >= 0.9")
    assert decision.decided
    assert verdict.outcome == "PASS"
    assert verdict.goals[0].low >= 0.9


def test_a_probe_near_its_target_says_how_many_queries_are_missing():
    values = [1.0, 0.9] * 10
    decision, verdict = decided(values, "recall@10 >= 0.94")
    assert verdict.outcome == "UNDECIDED"
    assert decision.more_queries(np.array(values)) > 20


def test_rows_of_the_collection_as_queries_never_pass():
    decision, verdict = decided([1.0] * 200, "recall@10 >= 0.9", sampled=True)
    assert verdict.outcome == "UNDECIDED"
    assert not decision.decided  # the others at least make the interval narrower
    assert "--queries" in verdict.goals[0].note
    decision, verdict = decided([0.1] * 200, "recall@10 >= 0.9", sampled=True)
    assert decision.decided
    assert verdict.outcome == "FAIL"


def test_latency_budgets_are_judged_by_order_statistics():
    calls = list(range(1, 101))
    _, verdict = decided([1.0] * 100, "p50 <= 200ms", milliseconds=calls)
    assert verdict.goals[0].outcome is Outcome.MET
    _, verdict = decided([1.0] * 100, "p50 <= 50ms", milliseconds=calls)
    assert verdict.goals[0].outcome is Outcome.UNDECIDED


def test_percentiles_that_so_few_calls_cannot_give_are_not_given():
    assert latency_percentiles(np.arange(10.0))["p95"] is None
    assert latency_percentiles(np.arange(100.0))["p95"] == 94.0


@pytest.mark.parametrize(
    ("goal", "said"),
    [("recall@5 >= 0.9", "--at 5"), ("memory <= 1GiB", "recall and latency"), ("mrr@10 >= 0.5", "recall@k")],
)
def test_goals_that_a_probe_cannot_measure_are_refused(goal, said):
    with pytest.raises(UsageError, match=said):
        RecallDecision([parse_goal(goal)], 10)


def test_a_probe_at_its_target_is_wrong_in_at_most_five_percent_on_each_side():
    random = np.random.default_rng(1)
    outcomes = []
    for _ in range(200):
        _, verdict = decided(random.binomial(10, 0.95, 400) / 10, "recall@10 >= 0.95")
        outcomes.append(verdict.outcome)
    # Five percent of 200, and three standard errors.
    assert outcomes.count("PASS") <= 20
    assert outcomes.count("FAIL") <= 20


@pytest.mark.parametrize("target", [0.95, 0.99])
def test_equal_recalls_decide_after_just_as_many_more_queries_as_said(target):
    seen = [1.0] * 20
    decision, verdict = decided(seen, f"recall@10 >= {target}")
    more = decision.more_queries(np.array(seen))
    assert verdict.outcome == "UNDECIDED"
    assert decided(seen + [1.0] * more, f"recall@10 >= {target}")[1].outcome == "PASS"
    assert decided(seen + [1.0] * (more - 1), f"recall@10 >= {target}")[1].outcome == "UNDECIDED"


@pytest.mark.parametrize(("perfect", "outcome"), [(19, "FAIL"), (28, "PASS")])
def test_about_as_many_more_queries_decide_as_said(perfect, outcome):
    """Half of the continuations need fewer, give or take three times what a median of 15 is off by."""
    random = np.random.default_rng(3)
    seen = random.permutation([1.0] * perfect + [0.8] * (30 - perfect)).tolist()
    decision, verdict = decided(seen, "recall@10 >= 0.95")
    assert verdict.outcome == "UNDECIDED"
    more = decision.more_queries(np.array(seen))
    continuations = [[*seen, *random.choice(seen, more)] for _ in range(60)]
    said = [decided(each, "recall@10 >= 0.95")[1].outcome for each in continuations]
    assert 0.12 <= said.count(outcome) / 60 <= 0.88


def test_a_recall_at_the_target_says_no_number():
    seen = [1.0, 0.9] * 10
    decision, verdict = decided(seen, "recall@10 >= 0.95")
    assert verdict.outcome == "UNDECIDED"
    assert decision.more_queries(np.array(seen)) is None
