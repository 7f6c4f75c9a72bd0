"""The same numbers as others compute, where theirs are right, and an example of where they are not."""

import math

import ir_measures
import numpy as np
import pytest
from faiss.contrib.evaluation import knn_intersection_measure
from ir_measures import RR, R, Success, nDCG

from recallatk import score
from recallatk.core import Metric, Truth

QUERIES, ROWS, DEPTH = 40, 60, 20
CUTOFFS = (1, 3, 10, 20)


def shuffled(random, width):
    return np.argsort(random.random((QUERIES, ROWS)), axis=1)[:, :width]


@pytest.fixture(params=range(3))
def tables(request):
    """A truth without ties, and answers without repeats that share some rows with it."""
    random = np.random.default_rng(request.param)
    true, answers = shuffled(random, DEPTH), shuffled(random, 30)
    for query in range(QUERIES):
        # From hopeless to perfect.
        kept = random.permutation(DEPTH)[: random.integers(0, DEPTH + 1)]
        right = true[query, np.sort(kept)]
        others = [row for row in answers[query] if row not in right]
        answers[query] = [*right, *others][: answers.shape[1]]
        answers[query, : DEPTH + 5] = random.permutation(answers[query, : DEPTH + 5])
    return Truth(true, np.sort(random.random(true.shape), axis=1), None, Metric.L2), answers


def run_of(answers):
    return {
        str(query): {str(row): float(-place) for place, row in enumerate(line)}
        for query, line in enumerate(answers.tolist())
    }


def qrels_of(true, k, grade=lambda k, place: 1):
    return {
        str(query): {str(row): grade(k, place) for place, row in enumerate(line[:k])}
        for query, line in enumerate(true.tolist())
    }


def peer(measure, qrels, answers):
    found = {each.query_id: each.value for each in ir_measures.iter_calc([measure], qrels, run_of(answers))}
    return [found[str(query)] for query in range(len(answers))]


@pytest.mark.parametrize("k", CUTOFFS)
def test_recall_is_r_with_the_true_top_k_as_judgements(tables, k):
    truth, answers = tables
    ours = score(truth=truth, answers=answers, at=[k]).per_query[f"recall@{k}"]
    np.testing.assert_allclose(ours, peer(R @ k, qrels_of(truth.rows, k), answers), atol=1e-12)
    assert 0 < ours.mean() < 1


@pytest.mark.parametrize("k", CUTOFFS)
def test_ndcg_is_ndcg_with_graded_judgements(tables, k):
    truth, answers = tables
    ours = score(truth=truth, answers=answers, at=[k], measures=[f"ndcg_truth@{k}"]).per_query[
        f"ndcg_truth@{k}"
    ]
    graded = qrels_of(truth.rows, k, lambda k, place: k - place)
    np.testing.assert_allclose(ours, peer(nDCG @ k, graded, answers), atol=1e-6)


@pytest.mark.parametrize("k", CUTOFFS)
def test_mrr_is_rr_and_recall1_is_success_with_the_nearest_row_alone(tables, k):
    truth, answers = tables
    found = score(truth=truth, answers=answers, at=[1], measures=[f"mrr@{k}", f"recall1@{k}"])
    nearest = qrels_of(truth.rows, 1)
    np.testing.assert_allclose(found.per_query[f"mrr@{k}"], peer(RR @ k, nearest, answers), atol=1e-6)
    np.testing.assert_allclose(found.per_query[f"recall1@{k}"], peer(Success @ k, nearest, answers))


@pytest.mark.parametrize("k", CUTOFFS)
def test_recall_is_the_intersection_measure_of_faiss_where_nothing_is_odd(tables, k):
    truth, answers = tables
    theirs = knn_intersection_measure(answers[:, :k], truth.rows[:, :k])
    assert score(truth=truth, answers=answers, at=[k])[f"recall@{k}"] == pytest.approx(theirs, abs=1e-12)


@pytest.mark.parametrize("first", [2**24, 2**31, 2**40 - 30, 2**40, 2**62])
def test_rows_of_a_large_corpus_score_as_those_of_a_small_one(tables, first):
    truth, answers = tables
    far = Truth(truth.rows + first, truth.scores, None, truth.metric)
    for k in CUTOFFS:
        theirs = knn_intersection_measure(answers[:, :k] + first, far.rows[:, :k])
        assert score(truth=far, answers=answers + first, at=[k])[f"recall@{k}"] == pytest.approx(
            theirs, abs=1e-12
        )


@pytest.mark.parametrize(
    ("true", "answer", "right", "theirs"),
    [
        # Padding meets padding.
        ([4, -1, -1], [5, -1, -1], 0.0, 1 / 3),
        # The filter left one row, and it was found.
        ([4, -1, -1], [4, -1, -1], 1.0, 2 / 3),
    ],
)
def test_padding_is_a_hit_for_faiss_and_not_for_us(true, answer, right, theirs):
    assert knn_intersection_measure(np.array([answer]), np.array([true])) == pytest.approx(theirs)
    assert (
        score(truth=Truth(np.array([true]), None, None, None), answers=np.array([answer]), at=[3])["recall@3"]
        == right
    )


def test_ties_are_told_by_scores_which_faiss_does_not_see():
    truth = Truth(
        np.array([[0, 1]]),
        np.array([[0.5, 0.5]]),
        None,
        Metric.L2,
        overflow=(np.array([0, 2]), np.array([2, 3])),
    )
    answers = np.array([[3, 2]])
    assert knn_intersection_measure(answers, truth.rows) == 0.0
    mean = score(truth=truth, answers=answers, at=[2]).measures["recall@2"]
    assert (mean.value, mean.ids) == (1.0, 0.0)


def test_a_perfect_order_has_a_perfect_overlap_and_a_reversed_one_the_sum_that_was_published(tables):
    """Rank-biased overlap by the sum of Webber, Moffat and Zobel (2010), cut at k and scaled to 1."""
    truth, _ = tables
    reversed_top = truth.rows[:, :5][:, ::-1].copy()
    p = 0.8
    # The agreement of 1 2 3 4 5 and 5 4 3 2 1 at each depth.
    agreement = [0, 0, 1 / 3, 3 / 4, 5 / 5]
    weights = [p**depth for depth in range(5)]
    expected = math.fsum(a * w for a, w in zip(agreement, weights, strict=True)) / math.fsum(weights)
    found = score(truth=truth, answers=reversed_top, at=[5], measures=["rbo(0.8)@5"])
    np.testing.assert_allclose(found.per_query["rbo(0.8)@5"], expected, atol=1e-12)
    assert score(truth=truth, answers=truth.rows, at=[5], measures=["rbo(0.8)@5"])[
        "rbo(0.8)@5"
    ] == pytest.approx(1.0)
