"""recall@k against its definition, written down with Python's sets and nothing of ours."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from recallatk import make_corpus, score
from recallatk.core import Metric, Truth
from recallatk.filters.eligibility import Eligibility
from recallatk.filters.lookup import RowSet

ROWS = 10
NAMES = [f"id-{row}" for row in range(ROWS)]
CORPUS = make_corpus(np.ones((ROWS, 1)), NAMES)
AT = st.integers(1, 6)


def first_distinct_known(answer, k):
    counted = []
    for each in answer:
        if each in NAMES and each not in counted:
            counted.append(each)
    return set(counted[:k])


def naive(answer, scored, k):
    """Tie-aware and strict recall@k, or None for a query that may return nothing.

    `scored` are all eligible rows as (score, row), a smaller score being better.
    """
    order = sorted(scored)
    cut = min(k, len(order))
    if cut == 0:
        return None
    counted = first_distinct_known(answer, k)
    boundary = order[cut - 1][0]
    better = {NAMES[row] for score, row in order if score < boundary}
    tied = {NAMES[row] for score, row in order if score == boundary}
    top = {NAMES[row] for _, row in order[:cut]}
    hits = len(counted & better) + min(cut - len(better), len(counted & tied))
    return hits / cut, len(counted & top) / cut


def truth_of(queries, depth):
    rows, scores = np.full((len(queries), depth), -1), np.full((len(queries), depth), np.nan)
    beyond = []
    for number, scored in enumerate(queries):
        order = sorted(scored)
        for place, (value, row) in enumerate(order[:depth]):
            rows[number, place], scores[number, place] = row, value
        beyond.append([row for value, row in order[depth:] if value == order[depth - 1][0]])
    offsets = np.cumsum([0, *map(len, beyond)])
    flat = np.array([row for block in beyond for row in block], np.int64)
    eligible = np.array([len(scored) for scored in queries])
    return Truth(rows, scores, eligible, Metric.L2, overflow=(offsets, flat))


def eligibility_of(queries):
    sets = tuple(RowSet.of_rows(np.array(sorted(row for _, row in scored)), ROWS) for scored in queries)
    return Eligibility(sets, np.arange(len(queries)), None, ROWS)


SCORED = st.dictionaries(st.integers(0, ROWS - 1), st.integers(0, 3)).map(
    lambda found: [(value, row) for row, value in found.items()]
)
ANSWER = st.lists(
    st.one_of(st.sampled_from(NAMES), st.sampled_from([None, -1, "unknown", "-1"])), max_size=14
)
QUERIES = st.lists(st.tuples(SCORED, ANSWER), min_size=1, max_size=5)


@examples(500)
@given(QUERIES, AT)
def test_recall_is_what_the_definition_says(queries, k):
    scored, answers = [pair[0] for pair in queries], [pair[1] for pair in queries]
    result = score(
        truth=truth_of(scored, 6), answers=answers, at=[k], corpus=CORPUS, eligibility=eligibility_of(scored)
    )
    expected = [naive(answer, each, k) for answer, each in zip(answers, scored, strict=True)]
    there = [each for each in expected if each is not None]
    ours = result.per_query[f"recall@{k}"]

    assert [None if math.isnan(value) else value for value in ours] == [each and each[0] for each in expected]
    assert result.scored == len(there)
    mean = result.measures[f"recall@{k}"]
    assert mean.n == len(there)
    if there:
        assert mean.value == pytest.approx(sum(tie_aware for tie_aware, _ in there) / len(there), abs=1e-15)
        assert mean.ids == pytest.approx(sum(strict for _, strict in there) / len(there), abs=1e-15)
        assert 0.0 <= mean.ids <= mean.value <= 1.0
    else:
        assert mean.value is None
        assert mean.ids is None


@examples(300)
@given(QUERIES, AT)
def test_everything_odd_is_counted(queries, k):
    scored, answers = [pair[0] for pair in queries], [pair[1] for pair in queries]
    result = score(
        truth=truth_of(scored, 6), answers=answers, at=[k], corpus=CORPUS, eligibility=eligibility_of(scored)
    )
    expected = dict.fromkeys(
        ["short", "duplicate", "padding", "unknown", "ineligible", "no_eligible", "missing", "cut_ties"], 0
    )
    for answer, each in zip(answers, scored, strict=True):
        allowed = {NAMES[row] for _, row in each}
        known = [name for name in answer if name in NAMES]
        expected["padding"] += sum(name in (None, -1) for name in answer)
        expected["unknown"] += sum(name in ("unknown", "-1") for name in answer)
        expected["duplicate"] += len(known) - len(set(known))
        expected["ineligible"] += sum(name not in allowed for name in known)
        expected["short"] += len(set(known)) < min(k, len(each))
        expected["no_eligible"] += not each
    assert result.anomalies == expected


@examples(100)
@given(QUERIES, AT, st.randoms(use_true_random=False))
def test_the_order_within_the_first_k_and_what_follows_them_change_nothing(queries, k, random):
    scored, answers = [pair[0] for pair in queries], [list(dict.fromkeys(pair[1])) for pair in queries]
    answers = [[name for name in answer if name in NAMES] for answer in answers]
    truth = truth_of(scored, 6)
    before = score(truth=truth, answers=answers, at=[k], corpus=CORPUS).per_query[f"recall@{k}"]
    changed = [
        [*random.sample(answer[:k], len(answer[:k])), *(["unknown", None] if len(answer) < k else NAMES)]
        for answer in answers
    ]
    after = score(truth=truth, answers=changed, at=[k], corpus=CORPUS).per_query[f"recall@{k}"]
    np.testing.assert_array_equal(before, after)


@examples(100)
@given(st.lists(SCORED, min_size=1, max_size=5), AT)
def test_the_truth_against_itself_is_one(queries, k):
    truth = truth_of(queries, 6)
    found = score(truth=truth, answers=truth.rows, at=[k], measures=[f"recall@{k}(ids)"]).per_query
    tie_aware, strict = found[f"recall@{k}"], found[f"recall@{k}(ids)"]
    there = np.array([len(scored) > 0 for scored in queries])
    assert (tie_aware[there] == 1.0).all()
    assert (strict[there] == 1.0).all()
    assert np.isnan(tie_aware[~there]).all()


@examples(100)
@given(QUERIES, AT)
def test_row_numbers_score_as_the_ids_do(queries, k):
    scored, answers = [pair[0] for pair in queries], [pair[1] for pair in queries]
    coded = {name: row for row, name in enumerate(NAMES)} | {None: None, -1: -1, "unknown": 99, "-1": 2**62}
    rows = [[coded[name] for name in answer] for answer in answers]
    truth, eligibility = truth_of(scored, 6), eligibility_of(scored)
    by_id = score(truth=truth, answers=answers, at=[k], corpus=CORPUS, eligibility=eligibility)
    by_row = score(truth=truth, answers=rows, at=[k], eligibility=eligibility)
    for name in ("queries", "scored", "measures", "anomalies"):
        assert getattr(by_row, name) == getattr(by_id, name)
    np.testing.assert_array_equal(by_row.per_query[f"recall@{k}"], by_id.per_query[f"recall@{k}"])


NUMBERS = st.lists(st.integers(0, 12), unique=True, min_size=1, max_size=5)


@examples(200)
@given(st.lists(st.tuples(NUMBERS, st.lists(st.integers(-1, 14), max_size=8)), min_size=1, max_size=4))
def test_lists_of_ids_score_by_sets(pairs):
    depth = max(len(truth) for truth, _ in pairs)
    for k in range(1, depth + 1):
        # None says that the list is all there is to find.
        result = score(
            truth=[[*truth, None] for truth, _ in pairs], answers=[answer for _, answer in pairs], at=[k]
        )
        for (truth, answer), ours in zip(pairs, result.per_query[f"recall@{k}"], strict=True):
            distinct = [each for each in dict.fromkeys(answer) if each != -1][:k]
            cut = min(k, len(truth))
            assert ours == len(set(distinct) & set(truth[:cut])) / cut
