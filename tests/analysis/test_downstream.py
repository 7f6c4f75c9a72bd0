"""Downstream quality against recall: a planted plateau and slope are recovered, and too few queries said."""

import dataclasses

import numpy as np
import pytest

from recallatk.analysis.comparison import compare
from recallatk.analysis.downstream import downstream_of, headlines
from recallatk.analysis.joint_losses import joint_test, slope
from recallatk.core import Build, Calls, Measurement, Metric, Run, Score, Trial, Weights
from recallatk.core.judged import Judged

RECALLS = (0.70, 0.76, 0.82, 0.88, 0.95, 0.97, 0.99)
KNEE, COST = 0.93, 0.4
K = 10


def planted(random, queries, recalls=RECALLS, cost=COST, knee=KNEE):
    """Recall and loss per query: neighbors are missed at random, and a loss has the planted mean."""
    found = np.stack([random.binomial(K, recall, queries) / K for recall in recalls])
    exact = random.beta(2, 2, queries)
    means = [cost * max(0.0, knee - recall) for recall in recalls]
    # A loss is rare and large, as it is when a relevant row is missed; sometimes the answer gets better.
    changed = [random.random(queries) < min(1.0, mean * 4 + 0.02) for mean in means]
    sizes = [
        np.where(hit, mean / min(1.0, mean * 4 + 0.02) + random.uniform(-0.1, 0.1, queries), 0.0)
        for hit, mean in zip(changed, means, strict=True)
    ]
    return found, exact, np.stack(sizes)


def made_run(found, exact, losses, weights=None, unjudged=0, identities=None, name="nDCG@10"):
    """A run whose trials have these recalls and losses per query."""
    queries = len(exact)
    exact = np.where(np.arange(queries) < unjudged, np.nan, exact)
    calls = Calls(
        np.arange(queries, dtype=np.int32),
        *(np.zeros(queries, np.int16) for _ in range(2)),
        *(np.arange(queries) for _ in range(3)),
        np.array([1]),
    )
    measured = []
    for place, (recall, lost) in enumerate(zip(found, losses, strict=True)):
        trial = Trial("hnsw", (), (("ef", place),))
        build = Build("hnsw", None, (), 1, 1.0, None, None)
        counts = None if weights is None else Weights("count", weights)
        score = Score(queries, queries, {"recall@10": None}, {}, {"recall@10": recall}, weights=counts)
        identity = "qrels" if identities is None else identities[place]
        judged = Judged(identity, {name: exact - lost}, {name: exact}, ("a note",))
        answers = np.zeros((queries, K), np.int64)
        measured.append(Measurement(trial, build, K, answers, calls, None, score, judged=judged))
    return Run("data", Metric.L2, {}, {}, tuple(measured))


def the_one(*args, **kwargs):
    [found] = downstream_of(made_run(*args, **kwargs))
    return found


def test_a_planted_plateau_and_slope_are_recovered():
    found = the_one(*planted(np.random.default_rng(1), 4_000))
    assert [each.loses for each in found.points] == [True] * 4 + [False] * 3
    assert found.plateau[0].recall == pytest.approx(0.95, abs=0.01) and len(found.plateau) == 3
    assert 0 < found.bound < 0.01
    assert found.slope.low < COST / 100 < found.slope.high
    assert found.slope.value == pytest.approx(COST / 100, rel=0.15)
    least = f"{found.plateau[0].recall:.3f}"
    assert found.in_words.startswith(
        f"from recall@10 {least} up, no loss of nDCG@10 is measurable (less than 0.00"
    )
    assert "below, each 0.01 of recall costs 0.00" in found.in_words and found.judged == 4_000


def test_without_any_loss_the_bound_is_said():
    found = the_one(*planted(np.random.default_rng(2), 4_000, cost=0.0))
    assert found.slope is None and found.bound < 0.01
    assert found.in_words.startswith("no setting loses nDCG@10 measurably: every loss is less than 0.00")


def test_too_few_queries_are_said_with_the_number_needed():
    found = the_one(*planted(np.random.default_rng(3), 12))
    assert found.in_words.startswith("too few judged queries (12): no loss of nDCG@10 is measurable")
    assert found.in_words.endswith("judged queries are needed to see a loss of 0.01") and found.needed > 12


def test_the_number_needed_would_see_the_loss():
    """With as many queries as are asked for, a loss of 0.01 is seen in about 80 % of samples."""
    random = np.random.default_rng(4)

    def losses(n):
        return np.where(random.random(n) < 0.05, 0.2, 0.0)

    found = the_one(np.full((1, 400), 0.9), np.full(400, 0.5), losses(400)[None])
    seen = [
        np.mean(each := losses(found.needed)) > 1.96 * np.std(each) / len(each) ** 0.5 for _ in range(300)
    ]
    assert 0.65 < np.mean(seen) < 0.95


def test_a_loss_at_the_highest_recall_leaves_no_plateau():
    random = np.random.default_rng(5)
    found = the_one(*planted(random, 3_000, recalls=RECALLS[:4]))
    assert not found.plateau and found.bound is None
    assert (
        found.in_words.startswith("even at recall@10 0.8") and "each 0.01 of recall costs" in found.in_words
    )


def test_a_single_losing_setting_has_no_slope():
    recalls, exact, losses = planted(np.random.default_rng(61), 3_000, recalls=(0.70, 0.97, 0.99))
    found = the_one(recalls, exact, losses)
    assert (
        found.slope is None
        and "; below, 0.0" in found.in_words
        and "is lost at recall@10 0.7" in found.in_words
    )


def test_settings_above_exact_search_are_said():
    recalls, exact, losses = planted(np.random.default_rng(7), 3_000, recalls=(0.95, 0.99), cost=0.0)
    losses[0] -= 0.05
    found = the_one(recalls, exact, losses)
    assert (
        found.points[0].gains and "1 setting scores higher than exact search, by up to 0.0" in found.in_words
    )


def test_unjudged_queries_leave_every_mean_and_are_counted():
    recalls, exact, losses = planted(np.random.default_rng(8), 900)
    found = the_one(recalls, exact, losses, unjudged=300)
    alone = the_one(recalls[:, 300:], exact[300:], losses[:, 300:])
    assert (found.judged, found.queries, found.exact.n) == (600, 900, 600)
    assert found.exact == alone.exact and found.notes == (
        "300 queries have no judgment and leave these means",
        "a note",
    )
    assert [(each.recall, each.loss) for each in found.points] == [
        (each.recall, each.loss) for each in alone.points
    ]


def test_weights_count_in_recall_quality_loss_and_slope():
    recalls, exact, losses = planted(np.random.default_rng(9), 600)
    weights = np.random.default_rng(0).integers(0, 4, 600).astype(float)
    found = the_one(recalls, exact, losses, weights=weights)
    assert found.exact.value == pytest.approx(np.average(exact, weights=weights))
    assert found.judged == np.count_nonzero(weights)
    for point, recall, lost in zip(found.points, recalls, losses, strict=True):
        assert point.recall == pytest.approx(np.average(recall, weights=weights))
        assert point.loss.value == pytest.approx(np.average(lost, weights=weights))
    many = the_one(*(np.repeat(each, weights.astype(int), axis=-1) for each in (recalls, exact, losses)))
    assert slope(recalls, losses, weights).value == pytest.approx(
        slope(*(np.repeat(each, weights.astype(int), axis=-1) for each in (recalls, losses))).value
    )
    assert many.exact.value == pytest.approx(found.exact.value)


def test_trials_judged_otherwise_are_left_out_and_counted():
    recalls, exact, losses = planted(np.random.default_rng(10), 200)
    identities = ["new"] * 5 + ["old"] * 2
    found = the_one(recalls, exact, losses, identities=identities)
    assert len(found.points) == 5 and "2 trials were not judged by the same judgments" in found.notes
    run = made_run(recalls, exact, losses)
    alone = dataclasses.replace(
        run, measurements=tuple(dataclasses.replace(each, judged=None) for each in run.measurements)
    )
    assert downstream_of(alone) == []


def test_quality_beyond_one_has_a_step_of_its_own():
    recalls, exact, losses = planted(np.random.default_rng(11), 400)
    found = the_one(recalls, exact * 100, losses * 100, name="grade")
    assert found.step == pytest.approx(0.01 * np.ptp(exact * 100)) and found.in_words


def test_trials_that_answer_alike_need_no_correction():
    one = np.random.default_rng(12).normal(0.1, 1, size=500)
    alone, alike = (joint_test(np.tile(one, (count, 1))) for count in (1, 20))
    assert alone.confidence == pytest.approx(0.95, abs=0.012)
    assert alike.confidence == pytest.approx(alone.confidence) and (alike.p_values == alone.p_values[0]).all()
    apart = joint_test(np.random.default_rng(13).normal(size=(20, 500)))
    assert 0.99 < apart.confidence <= 1 - 0.05 / 20
    none = joint_test(np.zeros((5, 500)))
    assert none.confidence == pytest.approx(0.99) and none.p_values.tolist() == [1.0] * 5


def test_the_p_value_of_one_trial_is_that_of_the_paired_comparison():
    exact, other = np.random.default_rng(16).normal(size=(2, 60))
    [alone] = joint_test((exact - other + 0.3)[None]).p_values
    [pair] = compare({"exact": exact + 0.3, "other": other})
    assert alone == pytest.approx(pair.p_value, abs=0.02)


def test_the_interval_of_the_slope_covers_the_planted_one(monkeypatch):
    monkeypatch.setattr("recallatk.analysis.joint_losses.RESAMPLES", 500)
    random = np.random.default_rng(14)
    covered = 0
    for seed in range(200):
        recalls, _, losses = planted(random, 300, recalls=RECALLS[:4])
        found = slope(recalls, losses, seed=seed)
        covered += found.low <= COST / 100 <= found.high
    assert 0.90 <= covered / 200 <= 0.99


def test_loss_of_all_settings_together_is_rarely_claimed_where_there_is_none():
    random = np.random.default_rng(15)
    wrong = 0
    for _ in range(60):
        recalls, exact, losses = planted(random, 400, recalls=RECALLS[-3:], cost=0.0)
        [found] = downstream_of(made_run(recalls, exact, losses))
        wrong += any(each.loses or each.gains for each in found.points)
    assert wrong <= 9  # 5 % of 60 is 3; 9 or more have a probability of 0.3 %


def test_ndcg_stands_for_its_companions():
    assert headlines(["nDCG@10", "RR@10", "Success@10", "answers"]) == ["nDCG@10", "answers"]
    assert headlines(["RR@10", "Success@10"]) == ["RR@10"]
