"""Non-inferiority: how often a gate is wrong, simulated, and its bounds against SciPy."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from recallatk.analysis.distribution import mean_of
from recallatk.analysis.sides import ComparedSide, SideBuild, SideKind, SideSetting
from recallatk.core import Weights
from recallatk.core.judgments import Outcome
from recallatk.errors import UsageError
from recallatk.goals import parse_goal_with_baseline
from recallatk.goals.against_baseline import SettingBesideBaseline

GOAL = parse_goal_with_baseline("recall@10 >= baseline - 0.01")
QUERIES, PAIRS = 1_000, 120


def setting(*builds):
    made = tuple(SideBuild({"recall@10": mean_of(each, "recall@10")}, {"recall@10": each}) for each in builds)
    return SideSetting("engine", (), (), "latency", made)


def judged(first, second, goal=GOAL):
    one, other = (setting(*np.atleast_2d(each)) for each in (first, second))
    side = ComparedSide("side", SideKind.RUN, (one,), queries=one.builds[0].values["recall@10"].size)
    return SettingBesideBaseline(side, one, other).judged(goal)


def pair(random, loss):
    """Recalls of two versions whose differences spread by about 0.09, with a mean loss."""
    base = random.binomial(10, random.beta(20, 2, QUERIES)) / 10
    changed = random.random(QUERIES) < 0.6
    step = np.where(random.random(QUERIES) < 0.5 + loss / 0.12, -0.1, 0.1)
    # Steps that would leave [0, 1] are taken from the middle, so that the mean loss is as planned.
    base = np.clip(base, 0.1, 0.9)
    return base, base + np.where(changed, step, 0.0)


def outcomes(loss, seed):
    random = np.random.default_rng(seed)
    return [judged(*pair(random, loss)).result.outcome for _ in range(PAIRS)]


def test_a_gate_is_rarely_wrong_and_finds_a_loss_of_twice_the_margin():
    random = np.random.default_rng(0)
    spread = np.mean([np.std(np.subtract(*pair(random, 0.02))) for _ in range(20)])
    assert 0.07 < spread <= 0.09
    equal = outcomes(0.0, 1)
    assert equal.count(Outcome.MISSED) <= 0.01 * PAIRS
    assert equal.count(Outcome.MET) >= 0.9 * PAIRS
    assert outcomes(0.02, 2).count(Outcome.MISSED) >= 0.9 * PAIRS
    # At the margin itself, each side is wrong with at most 5 %.
    at_margin = outcomes(0.01, 3)
    most = stats.binom.ppf(0.999, PAIRS, 0.05)
    assert at_margin.count(Outcome.MET) <= most
    assert at_margin.count(Outcome.MISSED) <= most


def test_the_worst_build_counts_for_percentiles():
    lost = np.ones((3, 100))
    for build in range(3):
        lost[build, 10 * build : 10 * build + 10] = 0.0
    found = judged(np.ones(100), lost, parse_goal_with_baseline("p5(recall@10) >= 0.6"))
    assert found.result.value == 0
    assert found.result.outcome is not Outcome.MET


def test_queries_that_the_candidate_did_not_answer_are_no_pass():
    first = np.ones(1000)
    second = np.where(np.arange(1000) < 900, np.nan, 1.0)
    found = judged(first, second)
    assert found.result.outcome is Outcome.UNDECIDED
    assert "900 queries" in found.result.note
    # Those that no row passes are in neither.
    found = judged(np.where(np.arange(1000) < 600, np.nan, 1.0), np.where(np.arange(1000) < 600, np.nan, 1.0))
    assert found.result.outcome is Outcome.MET and found.queries == 400


def test_builds_that_vary_do_not_flip_the_verdict():
    random = np.random.default_rng(4)
    failed = {3: 0, 1: 0}
    for _ in range(PAIRS):
        difficulty = random.beta(20, 4, QUERIES)
        sides = [
            random.binomial(10, np.clip(difficulty + random.normal(0, 0.02, 3)[:, None], 0, 1)) / 10
            for _ in range(2)
        ]
        for builds in failed:
            found = judged(*(each[:builds] for each in sides))
            failed[builds] += found.result.outcome is Outcome.MISSED
    assert failed[3] <= stats.binom.ppf(0.999, PAIRS, 0.05)
    assert failed[1] > 0.15 * PAIRS


def test_bounds_are_one_sided_intervals_of_the_paired_differences():
    first, second = pair(np.random.default_rng(5), 0.0)
    found = judged(first, second)
    ends = stats.bootstrap((second - first,), np.mean, confidence_level=0.9, rng=np.random.default_rng(0))
    low, high = ends.confidence_interval
    assert found.baseline == pytest.approx(first.mean())
    assert found.result.low == pytest.approx(first.mean() + low, abs=4e-4)
    assert found.result.high == pytest.approx(first.mean() + high, abs=4e-4)
    scaled = judged(first, second, parse_goal_with_baseline("recall@10 >= 0.5x baseline"))
    assert scaled.limit == pytest.approx(0.5 * first.mean())


@pytest.mark.parametrize("queries", [5, 40, 200, 298, 299, 1_000])
def test_equal_recalls_are_no_loss_once_they_exclude_one_that_none_has_shown(queries):
    values = np.random.default_rng(6).integers(0, 11, queries) / 10
    found = judged(values, values)
    # The exact limit of a share of which no query shows any.
    unseen = stats.binomtest(0, queries).proportion_ci(0.9, "exact").high
    assert found.result.low == pytest.approx(max(0.0, values.mean() - unseen))
    if queries < 299:
        assert found.result.outcome is Outcome.UNDECIDED
        assert found.needed == 299 - queries
        assert "too few" in found.result.note
    else:
        assert found.result.outcome is Outcome.MET and found.needed is None
    better = judged(values, values, parse_goal_with_baseline("recall@10 >= baseline + 0.01"))
    assert better.result.outcome is (Outcome.UNDECIDED if queries < 299 else Outcome.MISSED)
    assert judged(values, values, parse_goal_with_baseline("recall@10 >= baseline")).needed is None


@pytest.mark.parametrize(("queries", "gains"), [(200, 0.0), (300, 0.0), (300, 0.02)])
def test_a_rare_loss_passes_at_most_as_often_as_promised(queries, gains):
    random, pairs = np.random.default_rng(7), 400
    passed = 0
    for _ in range(pairs):
        change = np.where(random.random(queries) < gains, 0.1, 0.0)
        lost = random.random(queries) < 0.0105 + 0.1 * gains
        passed += (
            judged(np.full(queries, 0.9), np.where(lost, 0.0, 0.9 + change)).result.outcome is Outcome.MET
        )
    assert passed <= stats.binom.ppf(0.999, pairs, 0.05)


def test_weights_leave_fewer_queries_to_show_a_loss():
    weights = np.where(np.arange(400) < 100, 10.0, 1.0)
    values = np.full(400, 0.8)
    side = ComparedSide("side", SideKind.RUN, (setting(values),), queries=400, weights=Weights("n", weights))
    found = SettingBesideBaseline(side, setting(values), setting(values)).judged(GOAL)
    assert found.result.outcome is Outcome.UNDECIDED
    # As many as the heaviest make up the weight: 130.
    assert found.result.low == pytest.approx(0.8 - (1 - 0.05 ** (1 / 130)))


@pytest.mark.parametrize(("queries", "outcome"), [(40, Outcome.UNDECIDED), (300, Outcome.MET)])
def test_equal_percentiles_count_queries_that_may_have_lost_unseen(queries, outcome):
    values = np.where(np.arange(queries) < 0.03 * queries, 0.2, 0.9)
    goal = parse_goal_with_baseline("p5(recall@10) >= baseline - 0.05")
    assert judged(values, values, goal).result.outcome is outcome


def test_nothing_is_to_be_decided_of_one_and_the_same_measurement():
    values = np.array([0.9, 1.0, 0.8])
    build = SideBuild({"recall@10": mean_of(values, "recall@10")}, {"recall@10": values}, origin="a run")
    one, other, again = (
        SideSetting("engine", (), (), "latency", (each,))
        for each in (build, build, replace(build, origin="b"))
    )
    side = ComparedSide("side", SideKind.RUN, (one,), queries=3)
    found = SettingBesideBaseline(side, one, other).judged(GOAL)
    assert found.result.outcome is Outcome.MET and found.result.low == found.result.value
    for text, outcome in (
        ("recall@10 >= baseline", Outcome.MET),
        ("recall@10 >= 1.1x baseline", Outcome.MISSED),
    ):
        goal = parse_goal_with_baseline(text)
        assert SettingBesideBaseline(side, one, other).judged(goal).result.outcome is outcome
    assert SettingBesideBaseline(side, one, again).judged(GOAL).result.outcome is Outcome.UNDECIDED


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "recall@10 >= baseline + 0.2",
            "the baseline has 0.9000, so the limit is 1.1000, and recall@10 is at most 1",
        ),
        ("p5(recall@10) >= 1.2x baseline", "p5(recall@10) is at most 1"),
    ],
)
def test_a_limit_that_nothing_can_reach_is_refused_by_name(text, said):
    with pytest.raises(UsageError) as refused:
        judged(np.full(300, 0.9), np.full(300, 0.9), parse_goal_with_baseline(text))
    assert f"goal '{text}' cannot be met: " in str(refused.value)
    assert said in str(refused.value)
