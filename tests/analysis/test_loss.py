"""Attribution of lost recall: one cause for each missed neighbor, shares that add up to 1 - recall."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples import examples
from recallatk.analysis.loss import CAUSES, attribute, loss_by_cause, missed, missed_by
from recallatk.analysis.score import score_repeated
from recallatk.core import Build, Calls, Measurement, Others, Trial, Truth
from recallatk.core.losses import ABSENT, NOT_ASKED, Cause, LossEvidence
from recallatk.testing import tiny_dataset

ROWS = 12


def naive_missed(scores, answers, k):
    """From all scores of a query, best lowest: each missed row, what it costs, and where it may stand."""
    order = sorted(range(len(scores)), key=lambda row: (scores[row], row))
    cut = min(k, len(order))
    boundary = scores[order[cut - 1]]
    returned = list(dict.fromkeys(row for row in answers if 0 <= row < len(scores)))[:k]
    better = [row for row in order if scores[row] < boundary]
    tied = [row for row in order if scores[row] == boundary]
    lost = [(row, k) for row in better if row not in returned]
    lacking = cut - len(better) - len([row for row in tied if row in returned])
    spare = [(row, max(k, len(better) + len(tied))) for row in tied if row not in returned]
    return {row: (1 / cut, limit) for row, limit in lost + spare[: max(0, lacking)]}


def naive_cause(miss, scans, full_scans, whole):
    """The definition, line by line."""
    limit = miss["limit"]
    lists = [miss[name] for name in ("deeper", "reranked", "unfiltered", "full")]
    seen = any(rank >= 0 for rank in lists)
    if miss["held"] == 0 and not seen:
        return Cause.MISSING
    if any(miss[name] >= limit for name in ("deeper", "unfiltered", "full")):
        return Cause.RANKING
    if 0 <= miss["reranked"] < limit:
        return Cause.RANKING
    if miss["filtered"]:
        if miss["unfiltered"] == NOT_ASKED:
            return Cause.UNATTRIBUTED
        if 0 <= miss["unfiltered"] < limit and (miss["lacking"] or miss["deeper"] == ABSENT):
            return Cause.FILTER
        if 0 <= miss["unfiltered"] < limit and miss["deeper"] == NOT_ASKED:
            return Cause.UNATTRIBUTED
    if 0 <= miss["full"] < limit or 0 <= miss["deeper"] < limit:
        return Cause.EFFORT
    if miss["held"] == 1 and whole and full_scans and not scans:
        return Cause.EFFORT
    if not seen and miss["held"] != 1:
        return Cause.UNATTRIBUTED
    if scans or (full_scans and miss["full"] != NOT_ASKED):
        return Cause.RANKING
    return Cause.BUILD if miss["full"] == ABSENT else Cause.UNATTRIBUTED


def make_truth(scores, depth):
    """The truth of integer scores, lowest best, with every tie at its end."""
    scores = np.asarray(scores, float)
    order = np.argsort(scores, axis=1, kind="stable")
    ranked = np.take_along_axis(scores, order, axis=1)
    lists = [line[depth:][at[depth:] == at[depth - 1]] for line, at in zip(order, ranked, strict=True)]
    offsets = np.concatenate([[0], np.cumsum([len(each) for each in lists])])
    flat = np.concatenate([np.empty(0, np.int64), *lists]).astype(np.int64)
    return Truth(order[:, :depth], ranked[:, :depth], None, None, overflow=(offsets, flat))


tied_scores = st.lists(st.integers(0, 4), min_size=ROWS, max_size=ROWS)
answer_lines = st.lists(st.integers(-1, ROWS + 1), min_size=5, max_size=5)


@given(st.lists(st.tuples(tied_scores, answer_lines), min_size=1, max_size=4), st.integers(1, 5))
def test_missed_neighbors_are_those_that_recall_lacks(queries, k):
    scores, answers = zip(*queries, strict=True)
    truth, answers = make_truth(scores, 6), np.array(answers)
    answers[answers >= ROWS] = -1
    found = missed(truth, answers, k)
    for query in range(len(queries)):
        own = found.query == query
        rows, shares, limits = found.row[own], found.share[own], found.limit[own]
        listed = zip(rows.tolist(), shares.tolist(), limits.tolist(), strict=True)
        assert {row: (share, limit) for row, share, limit in listed} == naive_missed(
            scores[query], answers[query].tolist(), k
        )


def make_measurement(answers, times, others=None):
    calls = Calls(*(np.zeros(0, np.int64) for _ in range(7)))
    trial = Trial("faiss-hnsw", (), ())
    build = Build("faiss-hnsw", None, (), 1, None, None, None)
    return Measurement(trial, build, answers.shape[1], answers, calls, None, None, others, times=times)


@examples(20)
@given(st.data())
def test_shares_of_repeated_calls_add_up_to_what_recall_lost(data):
    queries, k = 4, data.draw(st.integers(1, 5))
    dataset = tiny_dataset(ROWS, queries)
    truth = make_truth([data.draw(tied_scores) for _ in range(queries)], 6)
    answers = np.array([data.draw(answer_lines) for _ in range(queries)])
    times = np.array(data.draw(st.lists(st.integers(0, 3), min_size=queries, max_size=queries)))
    times[0] = max(times[0], 1)
    changed = [query for query in range(queries) for _ in range(1, times[query]) if data.draw(st.booleans())]
    rows = np.array([data.draw(answer_lines) for _ in changed]).reshape(-1, 5)
    others = Others(np.arange(len(changed)), np.array(changed, np.int32), rows) if changed else None
    scored = score_repeated(answers, times, others, truth, dataset, [k]).per_query[f"recall@{k}"]
    found = missed_by(make_measurement(answers, times, others), truth, k, ROWS)
    lost = np.bincount(found.query, found.share, queries)[times > 0]
    np.testing.assert_allclose(lost, 1 - scored, atol=1e-12)
    assert len(set(zip(found.query.tolist(), found.row.tolist(), strict=True))) == len(found.query)


ranks = st.sampled_from([NOT_ASKED, ABSENT, 0, 3, 9, 10, 11, 50])
misses = st.fixed_dictionaries(
    {
        "limit": st.sampled_from([10, 11]),
        "filtered": st.booleans(),
        "lacking": st.sampled_from([0, 2]),
        "held": st.sampled_from([-1, 0, 1]),
        "deeper": ranks,
        "reranked": ranks,
        "unfiltered": ranks,
        "full": ranks,
    }
)


def make_evidence(listed, **changes):
    columns = {name: np.array([each[name] for each in listed]) for name in listed[0]}
    count = len(listed)
    return LossEvidence(
        **{
            "k": 10,
            "query": np.arange(count),
            "row": np.arange(count),
            "share": np.full(count, 0.1),
            "visited": np.full(count, -1, np.int8),
            "lacking": np.zeros(count, np.int64),
            "returned": np.full(count, NOT_ASKED),
            "removed": np.full(count, NOT_ASKED),
            **columns,
            **changes,
        }
    )


@given(st.lists(misses, min_size=1, max_size=20), st.booleans(), st.booleans(), st.booleans())
def test_each_miss_has_the_first_cause_that_holds(listed, scans, full_scans, whole):
    evidence = make_evidence(listed, scans=scans, full_scans=full_scans, whole=whole)
    found = [CAUSES[number] for number in attribute(evidence)]
    assert found == [naive_cause(each, scans, full_scans, whole) for each in listed]


@examples(6)
@given(st.lists(misses, min_size=5, max_size=10), st.integers(1, 40), st.integers(0, 9))
def test_shares_of_causes_add_up_to_one_minus_recall(kinds, queries, seed):
    random, k = np.random.default_rng(seed), 10
    lost = random.integers(0, k + 1, queries)
    lost[0] = max(lost[0], 1)
    query = np.repeat(np.arange(queries), lost)
    listed = [kinds[number] for number in random.integers(0, len(kinds), len(query))]
    recalls = 1 - lost / k
    means = loss_by_cause(make_evidence(listed, query=query), recalls)
    assert list(means) == list(Cause)
    assert sum(each.value for each in means.values()) == pytest.approx(1 - recalls.mean(), abs=1e-12)
    for each in means.values():
        assert 0 <= each.low <= each.value <= each.high <= 1
        assert each.n == queries


def test_queries_without_recall_are_left_out_of_every_share():
    one = {"limit": 10, "filtered": False, "held": 1, "deeper": -1, "reranked": -2, "unfiltered": -2}
    evidence = make_evidence([{**one, "full": 0}, {**one, "full": -1}])
    means = loss_by_cause(evidence, np.array([0.9, 0.9, np.nan, 1.0]))
    assert means[Cause.EFFORT].value == pytest.approx(0.1 / 3)
    assert means[Cause.BUILD].n == 3
    none = loss_by_cause(replace(evidence, query=evidence.query + 2), np.full(4, np.nan))
    assert none[Cause.EFFORT].value is None


def test_weights_count_for_losses_as_for_recall():
    one = {"limit": 10, "filtered": False, "held": 1, "deeper": -1, "reranked": -2, "unfiltered": -2}
    evidence = make_evidence([{**one, "full": 0}, {**one, "full": -1}])
    recalls, weights = np.array([0.9, 0.9, 1.0]), np.array([8.0, 1.0, 1.0])
    means = loss_by_cause(evidence, recalls, weights)
    assert means[Cause.EFFORT].value == pytest.approx(0.08)
    total = sum(each.value for each in means.values())
    assert total == pytest.approx(1 - np.average(recalls, weights=weights))
