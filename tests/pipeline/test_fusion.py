"""Fusion of lists: the order of exact fractions, ties that stay ties, and refusals with stage and query."""

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recallatk.errors import EngineError, MismatchError, UsageError
from recallatk.pipeline.fusion import by_rank, by_score, leg_weights, rrf, weighted
from recallatk.pipeline.ranking import Ranked, Scores, contenders, ranked

ROWS = 9


def firsts(line):
    """Each row of a list with its first place."""
    places = {}
    for place, row in enumerate(line):
        if row >= 0:
            places.setdefault(row, place)
    return places


def exact_rrf(lines, constant):
    """Fused scores in exact arithmetic, by row."""
    totals = {}
    for line in lines:
        for row, place in firsts(line).items():
            totals[row] = totals.get(row, 0) + 1 / (Fraction(constant) + place + 1)
    return totals


def exact_weighted(lines, scores, weights):
    totals = {}
    for line, values, weight in zip(lines, scores, weights, strict=True):
        own = {row: Fraction(values[place]) for row, place in firsts(line).items()}
        for row, score in own.items():
            low, high = min(own.values()), max(own.values())
            scaled = Fraction(1) if low == high else (score - low) / (high - low)
            totals[row] = totals.get(row, 0) + scaled * Fraction(weight)
    return totals


def in_order(totals, k):
    return sorted(totals, key=lambda row: (-totals[row], row))[:k]


def assert_same(found, totals, k):
    """Rows as exact arithmetic orders them, scores to the last bits, ties where there are ties."""
    rows, scores = found
    wanted = in_order(totals, k)
    assert rows.dtype == np.int64
    assert rows[0].tolist() == wanted + [-1] * (k - len(wanted))
    assert np.isnan(scores[0, len(wanted) :]).all()
    for place, row in enumerate(wanted):
        assert scores[0, place] == pytest.approx(float(totals[row]), rel=1e-14, abs=0)
        if place:
            tied = totals[row] == totals[wanted[place - 1]]
            assert (scores[0, place] == scores[0, place - 1]) == tied


lines_of_rows = st.lists(st.integers(-1, ROWS), min_size=1, max_size=8)
constants = st.sampled_from([0, 1, 2, 60, 60.0, 0.1, 7.3])


@given(st.lists(lines_of_rows, min_size=1, max_size=3), constants, st.integers(1, 12))
def test_reciprocal_ranks_are_those_of_exact_fractions(lines, constant, k):
    found = rrf([np.array([line]) for line in lines], constant, k)
    assert_same(found, exact_rrf(lines, constant), k)


@given(st.permutations(range(6)), st.permutations(range(6)), st.permutations(range(6)), st.integers(0, 90))
def test_rows_with_the_same_ranks_in_another_order_tie(first, second, third, constant):
    """1/61 + 1/62 + 1/63 depends on the order of the sum in float64; the fused score must not."""
    found = rrf([np.array([line]) for line in (first, second, third)], constant, 6)
    assert_same(found, exact_rrf((first, second, third), constant), 6)


def test_float64_sums_alone_would_break_a_tie():
    """Row 0 has the ranks (1, 2, 3), row 1 the ranks (2, 3, 1), and the plain sums differ."""
    lists = [[0, 1, 2], [2, 0, 1], [1, 2, 0]]
    broken = [
        constant
        for constant in range(100)
        if len({sum(1 / (constant + 1 + line.index(row)) for line in lists) for row in range(3)}) > 1
    ]
    assert broken
    for constant in broken:
        rows, scores = rrf([np.array([line]) for line in lists], constant, 3)
        assert rows.tolist() == [[0, 1, 2]]
        assert len(set(scores[0].tolist())) == 1


coarse = st.integers(-8, 8).map(lambda number: number / 4)


@given(st.data(), st.integers(1, 3), st.integers(1, 12))
def test_weighted_scores_are_those_of_exact_fractions(data, legs, k):
    lines = [data.draw(lines_of_rows) for _ in range(legs)]
    scores = [[data.draw(coarse) for _ in line] for line in lines]
    weights = data.draw(st.lists(st.integers(0, 4), min_size=legs, max_size=legs).filter(any))
    found = weighted([np.array([each]) for each in lines], [np.array([each]) for each in scores], weights, k)
    assert_same(found, exact_weighted(lines, scores, weights), k)


@given(st.data(), st.floats(0, 1))
def test_scores_of_any_size_are_in_order_and_keep_their_ties(data, share):
    values = st.floats(-1e30, 1e30) | coarse
    lines = [data.draw(lines_of_rows) for _ in range(2)]
    scores = [[data.draw(values) for _ in line] for line in lines]
    rows, fused = weighted(
        [np.array([each]) for each in lines], [np.array([each]) for each in scores], share, 20
    )
    totals = exact_weighted(lines, scores, leg_weights(share, 2))
    listed = [row for row in rows[0].tolist() if row >= 0]
    assert sorted(listed) == sorted(totals)
    for first, second in pairwise(listed):
        assert float(totals[second] - totals[first]) <= 4e-15 * float(totals[second])
    for first in listed:
        for second in listed:
            if totals[first] == totals[second]:
                assert fused[0, listed.index(first)] == fused[0, listed.index(second)]


def test_fusion_by_hand():
    dense, lexical = np.array([[4, 2, 7], [1, -1, -1]]), np.array([[2, 9], [-1, -1]])
    rows, scores = rrf([dense, lexical], 60, 3)
    assert rows.tolist() == [[2, 4, 9], [1, -1, -1]]
    assert scores[0].tolist() == pytest.approx([1 / 62 + 1 / 61, 1 / 61, 1 / 62])
    values = [np.array([[0.9, 0.7, 0.4], [0.3, np.nan, np.nan]]), np.array([[12.0, 3.0], [np.nan, np.nan]])]
    rows, scores = weighted([dense, lexical], values, 0.75, 4)
    # 4: 0.75 · 1; 2: 0.75 · 0.6 + 0.25 · 1; 7 and 9 are the last of their lists.
    assert rows.tolist() == [[4, 2, 7, 9], [1, -1, -1, -1]]
    assert scores[0].tolist() == pytest.approx([0.75, 0.7, 0, 0])
    assert scores[1, 0] == 0.75


def test_many_queries_are_fused_one_by_one():
    random = np.random.default_rng(3)
    lists = [random.integers(-1, 40, (50, 20)) for _ in range(2)]
    scores = [random.random((50, 20)) for _ in range(2)]
    together = [rrf(lists, 60, 10), weighted(lists, scores, 0.4, 10)]
    for query in range(50):
        own = [each[query : query + 1] for each in lists]
        alone = [rrf(own, 60, 10), weighted(own, [each[query : query + 1] for each in scores], 0.4, 10)]
        for all_queries, one in zip(together, alone, strict=True):
            assert all_queries.rows[query].tolist() == one.rows[0].tolist()
            np.testing.assert_array_equal(all_queries.scores[query], one.scores[0])


def test_legs_and_queries_without_rows():
    nothing, rows = np.empty((2, 0), np.int64), np.array([[4, 4, 2], [-1, -1, -1]])
    scores = np.array([[3.0, 9.0, 1.0], [0.0, 0.0, 0.0]])
    for found in (
        rrf([nothing, rows, nothing], 60, 2),
        weighted([nothing, rows, nothing], [np.empty((2, 0)), scores, np.empty((2, 0))], [1, 2, 3], 2),
    ):
        assert found.rows.tolist() == [[4, 2], [-1, -1]]
        assert np.isnan(found.scores[1]).all()
    assert found.scores[0].tolist() == [2, 0]
    for found in (rrf([nothing, nothing], 60, 2), weighted([nothing], [np.empty((2, 0))], [1], 2)):
        assert found.rows.tolist() == [[-1, -1], [-1, -1]]
    assert rrf([nothing[:0], nothing[:0]], 60, 2).rows.shape == (0, 2)


def test_a_fuse_function_takes_the_lists_of_all_legs():
    legs = [
        Ranked(np.array([[1, 2]]), np.array([[2.0, 1.0]])),
        Ranked(np.array([[2, 3]]), np.array([[9.0, 1.0]])),
    ]
    rows, scores = [each.rows for each in legs], [each.scores for each in legs]
    assert by_rank(3)(legs, 2).rows.tolist() == rrf(rows, 3, 2).rows.tolist()
    assert by_score(0.9)(legs, 2).rows.tolist() == weighted(rows, scores, 0.9, 2).rows.tolist()
    assert legs[0].cut(1).rows.tolist() == [[1]]
    assert legs[0].cut(1).scores.tolist() == [[2.0]]
    with pytest.raises(UsageError, match=r"dense returns rows without scores\. Fuse by rank"):
        by_score(0.9, ["dense", "bm25"])([Ranked(rows[0], None), legs[1]], 2)


@pytest.mark.parametrize("score", [math.nan, math.inf, -math.inf])
def test_a_score_that_is_no_number_names_stage_query_and_row(score):
    rows, scores = np.array([[1, 2, 3], [4, 5, 6]]), np.array([[3.0, 2.0, 1.0], [3.0, score, 1.0]])
    with pytest.raises(EngineError) as refused:
        weighted([rows, rows], [np.ones((2, 3)), scores], 0.5, 3, names=["dense", "bm25"])
    assert str(refused.value) == (
        f"fuse weighted: query 1: bm25 gave rank 2 the score {score}. Accepted: finite numbers. "
        'Repair the scores of that stage, or fuse by rank: fuse = "rrf"'
    )


def test_scores_too_far_apart_for_float64_are_refused():
    rows, scores = np.array([[1, 2]]), np.array([[1.7e308, -1.7e308]])
    with pytest.raises(EngineError, match="query 0: leg 1 gave scores too far apart"):
        weighted([rows, rows], [scores, scores], 0.5, 2)
    # A sum that overflows is no reason to refuse scores that do not.
    found = weighted([rows, rows], [np.array([[1.7e308, 1.6e308]])] * 2, 0.5, 2)
    assert found.rows.tolist() == [[1, 2]]


@pytest.mark.parametrize(
    "weights", [-0.1, 1.1, math.nan, [1.0], [0.5, 0.2, 0.3], [0, 0], [1, -1], [math.inf, 1]]
)
def test_impossible_weights_are_refused(weights):
    with pytest.raises(UsageError, match=r"fuse weighted: weight = .*Accepted: the share of the first leg"):
        leg_weights(weights, 2)


def test_one_number_weighs_two_legs_only():
    assert leg_weights(0.25, 2) == (0.25, 0.75)
    assert leg_weights([2, 1, 1], 3) == (2, 1, 1)
    with pytest.raises(UsageError, match="Accepted: 3 numbers"):
        leg_weights(0.5, 3)


@pytest.mark.parametrize("constant", [-1, math.nan, math.inf, True, "60"])
def test_an_impossible_constant_is_refused(constant):
    with pytest.raises(UsageError, match="fuse rrf: constant = "):
        by_rank(constant)


def test_lists_that_do_not_fit_are_refused():
    with pytest.raises(MismatchError, match="lists for 1 and 2 queries"):
        rrf([np.zeros((1, 3), int), np.zeros((2, 3), int)], 60, 3)
    with pytest.raises(MismatchError, match="lists for no queries"):
        rrf([], 60, 3)
    with pytest.raises(MismatchError, match="query 0: a leg returned row -2"):
        rrf([np.array([[3, -2]]), np.array([[3, 1]])], 60, 3)
    with pytest.raises(MismatchError, match="differ in shape"):
        weighted([np.zeros((1, 3), int)], [np.zeros((1, 2))], [1], 3)


def best(rows, scores, errors, k):
    """The best rows of one query and their scores, from all rows and from the contenders alone."""
    found = Scores(np.array(rows), np.array(scores, float), np.array(errors, float))
    whole = ranked(np.zeros(len(rows), np.int64), found, 1, k)
    fewer = contenders(found, k)
    for lists, other in zip(whole, ranked(np.zeros(len(fewer.rows), np.int64), fewer, 1, k), strict=True):
        np.testing.assert_array_equal(lists, other)
    listed = int((whole.rows >= 0).sum())
    assert np.isnan(whole.scores[0, listed:]).all()
    return whole.rows[0, :listed].tolist(), whole.scores[0, :listed].tolist()


@given(st.lists(st.integers(0, 6), min_size=1, max_size=12), st.integers(1, 12), st.booleans())
def test_scores_within_their_errors_tie_also_across_rank_k(levels, k, noisy):
    rows = range(len(levels))
    # The errors are smaller than the distance between levels, so that every level is one block of ties.
    scores = [level + 0.05 * (noisy and row % 2) for row, level in enumerate(levels)]
    found, values = best(rows, scores, [0.04] * len(levels), k)
    wanted = sorted(rows, key=lambda row: (-levels[row], row))[:k]
    assert found == wanted
    for place, row in enumerate(wanted):
        assert abs(values[place] - levels[row]) < 0.06
        if place:
            assert (values[place] == values[place - 1]) == (levels[row] == levels[wanted[place - 1]])


def test_ties_chain_from_one_score_to_the_next():
    assert best([3, 5, 7], [0.9, 0.8, 1.0], [0.0501] * 3, 2) == ([3, 5], [1.0, 1.0])
    assert best([3, 5, 7], [0.9, 0.8, 1.0], [0.01] * 3, 2) == ([7, 3], [1.0, 0.9])
    assert best([3, 5, 7], [0.9, 0.8, 1.0], [0.0501] * 3, 1) == ([3], [1.0])
    assert best([], [], [], 2) == ([], [])
