"""Missed neighbors that mattered: stand-ins against exact arithmetic, and judgments."""

import json
from decimal import Decimal

import naive_measures as naive
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_measures import FILTERS, GROUPS, vector_queries

from examples import examples
from recallatk import assess, assessment_to_dict, ground_truth, make_corpus, make_queries, open_dataset
from recallatk.analysis import missed as module
from recallatk.analysis.loss import missed
from recallatk.analysis.missed import missed_neighbors, stand_ins
from recallatk.reporting.missed_neighbors import missed_lines

SLACK, TIE = Decimal("1e-9"), Decimal("1e-40")


@examples(150)
@given(vector_queries(), st.sampled_from(["l2", "cosine"]), st.integers(1, 5))
def test_a_stand_in_is_what_the_definition_says(data, metric, k):
    points, names, asked = data
    places = [place for place, _ in points]
    dataset = open_dataset(
        make_corpus(np.array(places, "float32"), names, {"group": [group for _, group in points]}),
        make_queries(
            np.array([place for place, _, _ in asked], "float32"),
            filters=[FILTERS[which] for _, which, _ in asked],
        ),
        metric=metric,
    )
    truth = ground_truth(dataset, depth=5, threads=1)
    answers = [[names.index(each) for each in answer if each in names] for _, _, answer in asked]
    rows = np.array([line + [-1] * (11 - len(line)) for line in answers])
    misses = missed(truth, rows, k)
    found = stand_ins(truth, rows, k, misses, dataset, np.arange(len(asked)))
    used = [
        (query, row) for query, row in zip(misses.query.tolist(), found.tolist(), strict=True) if row >= 0
    ]
    assert len(set(used)) == len(used)
    for query, row, chosen in zip(misses.query.tolist(), misses.row.tolist(), found.tolist(), strict=True):
        vector, which, _ = asked[query]
        eligible = [number for number, (_, group) in enumerate(points) if group in GROUPS[which]]
        distance = {number: naive.exact_distance(metric, vector, places[number]) for number in eligible}
        top = sorted(eligible, key=lambda number, by=distance: (by[number], number))[:k]
        last = distance[top[-1]]
        returned = naive.distinct_known(answers[query], range(len(points)))[:k]
        wrong = [number for number in returned if number in distance and distance[number] > last + TIE]
        others = [number for number in top if number != row]
        limit = min(
            [distance[row], *(naive.exact_distance(metric, places[row], places[other]) for other in others)]
        )
        near = {number: naive.exact_distance(metric, places[row], places[number]) for number in wrong}
        if chosen >= 0:
            assert near[chosen] <= limit + SLACK
        else:
            # Whatever is near enough is taken by another missed neighbor.
            assert all((query, number) in used for number in wrong if near[number] < limit - SLACK)


def lines(points, queries):
    corpus = make_corpus(np.array(points, "float32"), [f"p{number}" for number in range(len(points))])
    asked = make_queries(np.array(queries, "float32"), [f"q{number}" for number in range(len(queries))])
    dataset = open_dataset(corpus, asked, metric="l2")
    return dataset, ground_truth(dataset, depth=3, threads=1)


# Two texts near the query with a copy each, and one far away.
POINTS = [[1, 0], [-2, 0], [1.1, 0], [-2.2, 0], [30, 0]]


def test_copies_stand_in_and_far_rows_do_not():
    dataset, truth = lines(POINTS, [[0, 0]])
    np.testing.assert_array_equal(truth.rows[0], [0, 2, 1])
    # k = 1: the copy of the nearest row is returned, then a row that is not near it.
    for answer, covered in (([2], 1.0), ([1], 0.0), ([4], 0.0)):
        found = missed_neighbors(truth, np.array([answer]), 1, dataset=dataset)
        assert (found.lost.value, found.count) == (1.0, 1)
        assert (found.stood_in.value, found.without.value) == (covered, 1 - covered)
    # k = 3: the copy of the third stands in for it alone; the two others are gone.
    found = missed_neighbors(truth, np.array([[3, 4]]), 3, dataset=dataset)
    assert found.stood_in.value == pytest.approx(1 / 3)
    assert found.without.value == pytest.approx(2 / 3)


def test_a_row_stands_in_once_and_a_true_neighbor_never():
    dataset, truth = lines([[1, 0], [1, 0.1], [1, -0.1], [1, 0.21], [9, 9]], [[0, 0]])
    assert set(truth.rows[0]) == {0, 1, 2}
    found = missed_neighbors(truth, np.array([[3, -1, -1]]), 3, dataset=dataset)
    assert found.stood_in.value == pytest.approx(0)  # 0.11 from row 1, which row 0 is nearer to
    two = missed_neighbors(truth.take(np.array([0])), np.array([[0, 1]]), 3, dataset=dataset)
    assert (two.stood_in.value, two.without.value) == (0.0, pytest.approx(1 / 3))


def test_judgments_say_which_missed_neighbors_are_relevant():
    dataset, truth = lines(POINTS, [[0, 0], [0, 1], [0, 2]])
    qrels = {"q0": {"p0": 1, "p4": 2}, "q1": {"p0": 1, "p2": 0}}
    answers = [["p2", "p1", "p3"], ["p0", "p4"], []]
    found = assess(truth, answers, at=[3], qrels=qrels, dataset=dataset, missed=True)
    told = found.missed
    # The first query lacks p0, which is relevant; the second p1 and p2, which are not.
    assert (told.relevant.n, told.relevant_count) == (2, 1)
    assert told.relevant.value == pytest.approx((1 / 3 + 0) / 2)
    assert told.lost.value == pytest.approx(1 - found.score["recall@3"])
    assert told.stood_in.value + told.without.value == pytest.approx(told.lost.value)
    shown = assessment_to_dict(found)["missed"]
    assert json.loads(json.dumps(shown))["relevant_count"] == 1
    text = " ".join(str(found).split())
    assert "were judged relevant (1 neighbor, 2 queries with judgments)" in text
    assert "have a stand-in among the answers" in text


def test_without_vectors_or_distances_there_are_no_stand_ins():
    dataset, truth = lines(POINTS, [[0, 0]])
    found = assess(truth, [["p1"]], at=[3], qrels={"q0": {"p0": 1}}, missed=True)
    assert found.missed.stood_in is None
    assert found.missed.relevant.value == pytest.approx(1 / 3)
    assert assess(truth, [["p1"]], at=[3], missed=True).missed is None
    assert assess(truth, [["p1"]], at=[3], dataset=dataset).missed is None
    products = open_dataset(dataset.corpus, dataset.queries, metric="ip")
    best = ground_truth(products, depth=3, threads=1)
    assert assess(best, [["p1"]], at=[3], dataset=products, missed=True).missed.stood_in is None


def test_many_queries_are_sampled(monkeypatch):
    random = np.random.default_rng(3)
    dataset, truth = lines(random.normal(size=(60, 2)), random.normal(size=(40, 2)))
    rows = np.array([random.permutation(60)[:3] for _ in range(40)])
    whole = missed_neighbors(truth, rows, 3, dataset=dataset)
    monkeypatch.setattr(module, "MOST_QUERIES", 35)
    part = missed_neighbors(truth, rows, 3, dataset=dataset)
    assert (whole.queries, whole.sampled_from) == (40, None)
    assert (part.queries, part.sampled_from) == (35, 40)
    assert "random sample of 35 queries" in missed_lines(part)[0]
    assert "sample" not in missed_lines(whole)[0]
    assert part.count < whole.count
    assert part.lost.value == pytest.approx(whole.lost.value, abs=0.1)
