"""The stages of a path: what each one contains and loses, against sets and fractions."""

from fractions import Fraction

import naive_measures as naive
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_measures import ROWS, SCORED, truth_of

from examples import examples
from recallatk import assess_stages, make_corpus, parse_measure, score, stages_to_dict
from recallatk.analysis.stages import staged_recall
from recallatk.core import Metric, Truth
from recallatk.core.weights import Weights
from recallatk.errors import MismatchError, UsageError

NAMES = ["first", "second", "third"]
LINE = st.lists(st.integers(-2, ROWS - 1), min_size=1, max_size=ROWS)
LISTS = st.lists(LINE, min_size=2, max_size=3)
PATHS = st.lists(st.tuples(SCORED, st.lists(LINE, min_size=3, max_size=3)), min_size=1, max_size=4)


def matrix(lines):
    width = max(map(len, lines))
    return np.array([line + [-1] * (width - len(line)) for line in lines])


def kept(line):
    return naive.distinct_known(line, range(ROWS))


def naive_losses(scored, lists, k):
    """By stage: how far recall falls if only rows remain that were answered or that no stage has dropped."""
    answer = kept(lists[-1])[:k]
    here, losses, before = set(range(ROWS)), [], Fraction(1)
    for place, line in enumerate(lists):
        here &= set(answer if place == len(lists) - 1 else kept(line))
        now = naive.recall([*answer, *here], scored, k, within=2 * ROWS)
        if now is None:
            return None
        losses.append(before - now)
        before = now
    return losses


@examples(200)
@given(PATHS, st.integers(1, 6), st.integers(2, 3))
def test_every_number_is_what_its_definition_says(paths, k, stages):
    truth = truth_of([scored for scored, _ in paths])
    lists = [matrix([lines[at] for _, lines in paths]) for at in range(stages)]
    found = staged_recall(NAMES[:stages], lists, truth, k)
    losses = [naive_losses(scored, lines[:stages], k) for scored, lines in paths]
    contained, recalls = [], []
    for at, stage in enumerate(found.stages):
        mine = [(kept(lines[at]), scored) for scored, lines in paths]
        contained.append([naive.recall(*each, k, within=ROWS) for each in mine])
        recalls.append([naive.recall(*each, k) for each in mine])
        assert stage.contained.value == pytest.approx(mean(contained[at]), abs=1e-12)
        assert stage.recall.value == pytest.approx(mean(recalls[at]), abs=1e-12)
        assert stage.lost.value == pytest.approx(
            mean([None if each is None else each[at] for each in losses]), abs=1e-12
        )
        sizes = [len(counted) for counted, _ in mine]
        assert (stage.candidates.least, stage.candidates.most) == (min(sizes), max(sizes))
        assert stage.candidates.median == np.median(sizes)
        if at == 0:
            assert stage.dropped is stage.gained is stage.added is None
            continue
        added = [set(kept(lines[at])) - set(kept(lines[at - 1])) for _, lines in paths]
        assert stage.added.count == sum(map(len, added))
        assert stage.added.queries == sum(map(bool, added))
        assert all(row in added[query] for query, row in stage.added.some)
        if stage.dropped is not None:
            assert stage.dropped.value == pytest.approx(mean(contained[at - 1]) - mean(contained[at]))
            assert stage.dropped.low <= stage.dropped.value <= stage.dropped.high
            assert stage.gained.value == pytest.approx(mean(recalls[at]) - mean(recalls[at - 1]))
    if found.last.recall.value is not None:
        total = sum(stage.lost.value for stage in found.stages)
        assert total == pytest.approx(1 - found.last.recall.value, abs=1e-12)
        assert all(stage.lost.value >= 0 for stage in found.stages)


def mean(values):
    there = [float(each) for each in values if each is not None]
    return sum(there) / len(there) if there else None


@examples(100)
@given(st.permutations(range(ROWS)), LISTS, st.integers(1, 6))
def test_without_ties_a_missed_neighbor_is_lost_where_it_first_is_not(order, lists, k):
    scores = np.arange(6.0)[None]
    truth = Truth(np.array([order[:6]]), scores, np.array([ROWS]), Metric.L2)
    names = NAMES[: len(lists)]
    found = staged_recall(names, [matrix([line]) for line in lists], truth, k)
    answer = kept(lists[-1])[:k]
    expected = dict.fromkeys(names, 0)
    for row in set(order[:k]) - set(answer):
        held = [*(kept(line) for line in lists[:-1]), answer]
        expected[next(name for name, rows in zip(names, held, strict=True) if row not in rows)] += 1
    for name, count in expected.items():
        assert found.lost[name][0] == pytest.approx(count / k, abs=1e-12)


TRUTH = [["a", "b", "c", "d"], ["c", "a", "e", "f"]]
ANN = [["b", "w", "a", "c", "x"], ["a", "e", "y", "z"]]
RERANK = [["a", "b", "x"], ["c", "a", "e"]]


def test_ids_of_lists_are_compared_between_stages():
    """Ids outside the truth have no rows of their own: they must still be the same in every stage."""
    found = assess_stages(TRUTH, {"ann": ANN, "rerank": RERANK}, at=[3])
    ann, rerank = found.at[3].stages
    assert ann.contained.value == pytest.approx((1 + 2 / 3) / 2)
    assert rerank.recall.value == pytest.approx((2 / 3 + 1) / 2)
    # c of the first query was dropped by the second stage; that of the second query was never passed on.
    assert (ann.lost.value, rerank.lost.value) == (0.0, pytest.approx(1 / 6))
    assert (rerank.added.count, rerank.added.queries) == (1, 1)
    assert found.added == {"rerank": ((1, "c"),)}
    text = " ".join(str(found).split())
    assert "rerank returned 1 row that ann did not pass on, for 1 query (c for query 1)" in text


def test_the_measures_are_those_of_score():
    stages = {"ann": ANN, "rerank": RERANK}
    found = assess_stages(TRUTH, stages, at=[2, 3])
    for k, staged in found.at.items():
        for stage in staged.stages:
            scored = score(truth=TRUTH, answers=stages[stage.name], at=[k], measures=[stage.within])
            assert stage.contained == scored.measures[stage.within]
            assert stage.recall == scored.measures[f"recall@{k}"]
            assert str(parse_measure(stage.within)) == stage.within


def test_the_default_k_is_the_headline():
    random = np.random.default_rng(1)
    rows = np.array([random.permutation(200)[:100] for _ in range(5)])
    found = assess_stages(rows.tolist(), {"a": rows, "b": rows[:, :20]})
    assert list(found.at) == [10]
    assert list(assess_stages(rows.tolist(), {"a": rows, "b": rows[:, :3]}).at) == [1]


def test_weights_and_segments_are_those_of_the_queries():
    import pyarrow as pa

    truth = Truth(
        np.array([[0, 1], [2, 3], [4, 5]]),
        None,
        np.array([9, 9, 9]),
        Metric.L2,
        corpus_rows=9,
        query_columns=pa.table({"kind": ["x", "x", "y"], "count": [1, 2, 7]}),
    )
    first, last = np.array([[0, 1], [2, 8], [4, 5]]), np.array([[0, 8], [2, 8], [7, 8]])
    found = assess_stages(truth, {"a": first, "b": last}, at=[2], by=["kind"], weight="count")
    lost = {stage.name: stage.lost for stage in found.at[2].stages}
    assert lost["a"].value == pytest.approx(0.5 * 2 / 10)
    assert lost["b"].value == pytest.approx((0.5 * 1 + 1.0 * 7) / 10)
    assert lost["b"].unweighted == pytest.approx(0.5)
    worst, better = found.segments["kind"]
    assert (worst.name, worst.queries, better.name) == ("y", 1, "x")
    assert (worst.lost["a"].value, worst.lost["b"].value) == (0.0, 1.0)
    assert better.lost["a"].value == pytest.approx(0.5 * 2 / 3)
    direct = staged_recall(["a", "b"], [first, last], truth, 2, Weights("count", np.array([1.0, 2, 7])))
    assert direct.last.lost == lost["b"]
    assert stages_to_dict(found)["weight"]["column"] == "count"


def test_relevance_is_that_of_every_stage_and_of_exact_search():
    truth = np.arange(40).reshape(2, 20)
    first, last = truth[:, 5:15], truth[:, 10:12]
    qrels = {"0": {"5": 1, "10": 1}, "1": {"20": 1}}
    found = assess_stages(truth.tolist(), {"a": first, "b": last}, at=[1], qrels=qrels).relevance
    assert list(found) == ["exact search", "a", "b"]
    assert found["exact search"]["R@10"].value == pytest.approx((0.5 + 1) / 2)
    assert found["a"]["R@10"].value == pytest.approx(0.5)
    assert found["b"]["RR@10"].value == pytest.approx(0.5)
    shallow = assess_stages(truth[:, :5].tolist(), {"a": first, "b": last}, at=[1], qrels=qrels)
    assert list(shallow.relevance) == ["a", "b"]
    assert "Exact search is left out: the truth is not 10 deep" in str(shallow)


def test_a_stage_that_is_short_is_named():
    corpus = make_corpus(np.ones((30, 1)))
    truth = np.arange(20).reshape(2, 10).tolist()
    lists = {"ann": np.array(truth), "rerank": [[0, 1, 99, -1], []]}
    found = assess_stages(truth, lists, at=[10], corpus=corpus)
    text = " ".join(str(found).split())
    assert "warning: rerank: 2 queries with fewer answers than eligible rows" in text
    assert "warning: rerank: 1 answer with an id that is not in the corpus" in text
    assert "ann:" not in text
    assert found.at[10].last.candidates.least == 0


@pytest.mark.parametrize(
    ("stages", "message"),
    [
        ({}, "no stages. Accepted: two or more"),
        ({"ann": ANN}, "one stage, ann. Accepted: two or more"),
        ({"ann": ANN, " ": RERANK}, "a stage has no name"),
        ([ANN, RERANK], "stages of type list. Accepted: a mapping"),
    ],
)
def test_impossible_stages_are_refused(stages, message):
    with pytest.raises(UsageError, match=message):
        assess_stages(TRUTH, stages)


def test_a_stage_of_other_queries_is_refused_by_name():
    with pytest.raises(MismatchError, match="stage rerank: query mismatch: there are answers to 3 queries"):
        assess_stages(TRUTH, {"ann": ANN, "rerank": [*RERANK, ["a"]]}, at=[2])
    with pytest.raises(MismatchError, match="stage b has 1 lists, the truth 2 queries"):
        staged_recall(["a", "b"], [np.zeros((2, 1), int), np.zeros((1, 1), int)], truth_of([[], []]), 1)
    with pytest.raises(UsageError, match="two stages are named a"):
        staged_recall(["a", "a"], [np.zeros((1, 1), int)] * 2, truth_of([[]]), 1)
