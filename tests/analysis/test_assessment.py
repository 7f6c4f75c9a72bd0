"""What explains a score: groups of queries, spread, diagnosis, relevance and comparison."""

import math

import ir_measures
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recallatk import (
    Answers,
    assess,
    assessment_to_text,
    ground_truth,
    make_corpus,
    make_queries,
    open_dataset,
    score,
)
from recallatk.analysis.answers import answers_from_lists, last_answer, truth_from_lists
from recallatk.analysis.distribution import distribution, mean_of
from recallatk.analysis.segments import by_column, contrast, intrinsic_dimension
from recallatk.core import Metric, Truth
from recallatk.errors import MismatchError, UsageError
from recallatk.goals import parse_goal
from recallatk.goals.evaluation import target_estimate

RANDOM = np.random.default_rng(5)
QUERIES, DEPTH = 120, 10
VECTORS = RANDOM.normal(size=(30, 3)).astype("float32")


def truth_with(scores=None, metric=Metric.L2, **options):
    rows = np.argsort(RANDOM.random((QUERIES, 50)), axis=1)[:, :DEPTH]
    scores = np.sort(RANDOM.random(rows.shape) + 0.1, axis=1) if scores is None else scores
    return Truth(rows, scores, None, metric, **options)


def answers_with(truth, hits):
    """So many of the true rows, and wrong ones for the rest."""
    return [
        [*line[:count], *range(1000, 1000 + truth.depth - count)]
        for line, count in zip(truth.rows.tolist(), hits, strict=True)
    ]


def named(lists, name="answers", query_ids=None, **columns):
    flat = pa.array([each for row in lists for each in row], pa.int64())
    offsets = np.cumsum([0, *map(len, lists)])
    names = None if query_ids is None else pa.array(query_ids)
    return Answers(flat, offsets, names, columns=pa.table(columns) if columns else None, name=name)


HITS = RANDOM.integers(0, DEPTH + 1, QUERIES)


def test_groups_by_a_column_come_worst_first_with_their_own_means():
    kinds = [["good", "bad", "middling", None][query % 4] for query in range(QUERIES)]
    hits = [{"good": 10, "bad": 1, "middling": 5, None: 0}[kind] for kind in kinds]
    truth = truth_with(query_columns=pa.table({"kind": kinds}))
    found = assess(truth=truth, answers=answers_with(truth, hits), at=[10], by=["kind"]).segments["kind"]
    assert [each.name for each in found] == ["bad", "middling", "good"]
    assert [each.queries for each in found] == [30, 30, 30]
    assert [each.measures["recall@10"].value for each in found] == pytest.approx([0.1, 0.5, 1.0])
    for each in found:
        mean = each.measures["recall@10"]
        assert mean.low <= mean.value <= mean.high


def test_columns_may_stand_beside_the_answers_in_another_order():
    truth = truth_with()
    order = RANDOM.permutation(QUERIES)
    lists = answers_with(truth, HITS)
    answers = named(
        [lists[query] for query in order], query_ids=order, kind=[str(query % 3) for query in order]
    )
    found = {
        each.name: each
        for each in assess(truth=truth, answers=answers, at=[10], by=["kind"]).segments["kind"]
    }
    for kind in range(3):
        assert found[str(kind)].queries == 40
        assert found[str(kind)].measures["recall@10"].value == pytest.approx(HITS[kind::3].mean() / 10)


@pytest.mark.parametrize("values", [[True, False], [1, 2, 3], [0.5, 2.5], ["x", "y"]])
def test_few_values_of_any_kind_are_groups(values):
    column = [values[query % len(values)] for query in range(QUERIES)]
    truth = truth_with(query_columns=pa.table({"c": column}))
    found = assess(truth=truth, answers=answers_with(truth, HITS), at=[10], by=["c"]).segments["c"]
    assert sum(each.queries for each in found) == QUERIES
    assert len(found) == len(values)


@pytest.mark.parametrize("start", [0, 0.5, 1_700_000_000])
def test_numbers_of_many_values_are_cut_into_quarters(start):
    """The last start is a time in seconds: the quarters must stay apart in their names."""
    values = RANDOM.permutation(QUERIES) + start
    truth = truth_with(query_columns=pa.table({"size": values}))
    found = assess(truth=truth, answers=answers_with(truth, HITS), at=[10], by=["size"]).segments["size"]
    assert [each.queries for each in found] == [30, 30, 30, 30]
    ranks = np.argsort(np.argsort(values))
    for quarter, each in enumerate(found):
        inside = (ranks >= 30 * quarter) & (ranks < 30 * (quarter + 1))
        assert each.measures["recall@10"].value == pytest.approx(HITS[inside].mean() / 10)


def test_numbers_that_are_missing_are_in_no_group_and_infinite_ones_are():
    values = [None if query % 10 == 0 else float(query) for query in range(QUERIES)]
    values[1] = math.inf
    found = by_column(pa.table({"size": pa.array(values, pa.float64())}), "size")
    assert [label is None for label in found.labels] == [each is None for each in values]
    assert not any("nan" in label for label in found.labels if label is not None)


def test_a_column_that_is_not_there_is_refused_with_those_that_are():
    truth = truth_with(query_columns=pa.table({"kind": ["x"] * QUERIES}))
    with pytest.raises(UsageError, match=r"no query column 'colour'.*kind"):
        assess(truth=truth, answers=answers_with(truth, HITS), at=[10], by=["colour"])
    with pytest.raises(UsageError, match=r"no query column 'colour': there are none\. Accepted: hardness"):
        assess(truth=truth_with(), answers=answers_with(truth, HITS), at=[10], by=["colour"])


def naive_dimension(distances):
    logs = [math.log(each / distances[-1]) for each in distances if each > 0]
    return -1 / (sum(logs) / len(logs))


def quarters(values):
    """By rank, where all values differ and four divides them."""
    ranks = np.argsort(np.argsort(values))
    return ranks * 4 // len(values)


@pytest.mark.parametrize("metric", [Metric.L2, Metric.COSINE])
def test_hardness_is_that_of_a_direct_computation(metric):
    distances = np.sort(RANDOM.random((QUERIES, DEPTH)) + 0.1, axis=1)
    scores = distances if metric is Metric.L2 else 1 - distances**2 / 2
    truth = truth_with(scores, metric)
    dimension = np.array([naive_dimension(line.tolist()) for line in distances])
    ratio = distances[:, -1] / distances[:, 0]
    np.testing.assert_allclose(intrinsic_dimension(truth), dimension, rtol=1e-9)
    np.testing.assert_allclose(contrast(truth), ratio, rtol=1e-9)
    found = assess(truth=truth, answers=answers_with(truth, HITS), at=[10]).segments
    for name, hardness in {"intrinsic dimension": dimension, "contrast": -ratio}.items():
        groups = found[f"hardness by {name}"]
        assert [each.name for each in groups] == ["1 (easiest)", "2", "3", "4 (hardest)"]
        for quarter, each in enumerate(groups):
            inside = quarters(hardness) == quarter
            assert each.queries == inside.sum() == 30
            assert each.measures["recall@10"].value == pytest.approx(HITS[inside].mean() / 10)


def test_hardness_is_not_told_where_it_cannot_be():
    assert intrinsic_dimension(truth_with(metric=Metric.IP)) is None
    equal = truth_with(np.ones((QUERIES, DEPTH)))
    assert np.isnan(intrinsic_dimension(equal)).all()
    at_zero = truth_with(np.tile([0.0, *[1.0] * 9], (QUERIES, 1)))
    assert np.isnan(contrast(at_zero)).all()
    found = assess(truth=equal, answers=answers_with(equal, HITS), at=[10]).segments
    assert "hardness by intrinsic dimension" not in found


def test_a_row_parallel_to_its_query_is_at_distance_0_under_cosine():
    dataset = open_dataset(
        make_corpus(np.array([[1, 1], [1, 2], [1, 3]], "float32")),
        make_queries(np.array([[1, 1]], "float32")),
        metric="cosine",
    )
    assert np.isnan(contrast(ground_truth(dataset, depth=3, threads=1))).all()


def test_selectivity_goes_by_powers_of_ten():
    eligible = np.array([1000, 999, 100, 99, 10, 1, 0] * 10)
    rows = np.full((len(eligible), 1), 0)
    rows[eligible == 0] = -1
    truth = Truth(rows, None, eligible, None, corpus_rows=1000)
    found = assess(truth=truth, answers=[[0]] * len(eligible), at=[1]).segments["filter selectivity"]
    names = [each.name.removesuffix(" % of the rows") for each in found]
    assert names == ["all rows", "10 to 100", "1 to 10", "0.1 to 1"]
    # A query that excludes only its own row has no filter.
    assert [each.queries for each in found] == [20, 10, 20, 10]
    without = Truth(rows, None, np.full(len(eligible), 999), None, corpus_rows=1000)
    assert "filter selectivity" not in assess(truth=without, answers=[[0]] * len(eligible), at=[1]).segments


def test_text_goes_by_its_length():
    words = [1, 5, 6, 10, 11, 20, 21, 300]
    texts = [" ".join(["word"] * words[query % 8]) for query in range(QUERIES)]
    texts[0] = None
    truth = truth_with(query_columns=pa.table({"text": texts}))
    found = assess(truth=truth, answers=answers_with(truth, HITS), at=[10]).segments["text length"]
    names = [each.name for each in found]
    assert names == ["up to 5 words", "6 to 10 words", "11 to 20 words", "21 words and more"]
    assert [each.queries for each in found] == [29, 30, 30, 30]


def test_the_distribution_counts_queries():
    values = np.array([0.0, 0.0, 0.1, 0.3, 0.7, 0.7, 0.95, 1.0, 1.0, 1.0, np.nan])
    found = distribution(values)
    assert (found.n, found.least) == (10, 0.0)
    assert (found.zeros.value, found.ones.value) == (0.2, 0.3)
    assert found.histogram == (2, 1, 0, 1, 0, 0, 0, 2, 0, 4)
    assert found.quantiles["median"].value == 0.7
    assert found.quantiles["p1"].value == found.quantiles["p5"].value == 0.0
    assert found.zeros.low < 0.2 < found.zeros.high
    assert distribution(np.array([np.nan])) is None


@pytest.mark.parametrize("k", range(1, 41))
def test_every_share_of_k_falls_into_its_own_tenth(k):
    for hits in range(k + 1):
        histogram = distribution(np.array([hits / k])).histogram
        assert histogram.index(1) == min(10 * hits // k, 9)


def diagnosed(first, further):
    """Answers that hold so many true rows among the first 10, and so many more among the next 40."""
    truth = truth_with()
    answers = [
        [*line[:first], *range(1000, 1010 - first), *line[first : first + further], *range(2000, 2040)]
        for line in truth.rows.tolist()
    ]
    return assess(truth=truth, answers=answers, at=[10]).diagnosis


def test_the_diagnosis_says_whether_rows_were_found_further_down():
    found = diagnosed(10, 0)
    assert (found.finding, found.in_words) == ("good", "no problem found: recall@10 is 1.0000.")
    found = diagnosed(4, 5)
    assert found.in_words.startswith(
        "found but not ranked: recall@10 is 0.4000, yet 0.9000 of the true top 10 are among the first 50"
    )
    assert "Rerank" in found.in_words
    found = diagnosed(4, 1)
    assert found.in_words.startswith(
        "not found: recall@10 is 0.4000, and only 0.5000 of the true top 10 are among the first 50"
    )
    assert "more effort" in found.in_words


def test_ten_answers_do_not_tell_what_came_after():
    truth = truth_with()
    found = assess(truth=truth, answers=answers_with(truth, [4] * QUERIES), at=[10]).diagnosis
    assert (found.finding, found.within) == ("cannot tell", 50)
    assert "Request more answers, such as 50" in found.in_words


def test_relevance_is_what_ir_measures_says():
    truth = truth_with()
    lists = answers_with(truth, HITS)
    lists[3] = [*lists[3][:2], lists[3][0], -1, *lists[3][2:]]
    judged = {
        str(query): {str(row): int(grade) for row, grade in zip(line, RANDOM.integers(0, 4, 5), strict=False)}
        for query, line in enumerate(truth.rows.tolist())
    }
    names = ["nDCG@10", "RR@10", "P@10", "R@10", "Success@10"]
    run = {}
    for query, line in enumerate(lists):
        distinct = [row for row in dict.fromkeys(line) if row != -1]
        run[str(query)] = {str(row): -float(place) for place, row in enumerate(distinct)}
    parsed = [ir_measures.parse_measure(name) for name in names]
    expected = ir_measures.calc_aggregate(parsed, judged, run)
    # A query that is judged and was not asked is not one that was answered badly.
    found = assess(truth=truth, answers=lists, at=[10], qrels=judged | {"never asked": {"1": 1}}).relevance
    assert list(found) == names
    assert {mean.n for mean in found.values()} == {len(judged)}
    assert {name: mean.value for name, mean in found.items()} == pytest.approx(
        {str(measure): value for measure, value in expected.items()}
    )


def judged_truth():
    """A truth of 40 queries, of which 30 are judged, and two systems that answer them."""
    truth = truth_with()
    random = np.random.default_rng(5)
    qrels = {
        str(query): {str(row): 1 for row in random.choice(line[:10], 3, replace=False)}
        for query, line in enumerate(truth.rows[:30].tolist())
    }
    answers = [[-1 if random.random() < 0.4 else row for row in line[:10]] for line in truth.rows.tolist()]
    return truth, qrels, answers


def evaluated(measure, qrels, lists):
    """One value per judged query, from ir-measures."""
    run = {
        str(query): {str(row): -float(place) for place, row in enumerate(line) if row != -1}
        for query, line in enumerate(lists)
        if str(query) in qrels
    }
    found = ir_measures.iter_calc([ir_measures.parse_measure(measure)], qrels, run)
    values = {each.query_id: each.value for each in found}
    return np.array([values.get(query, 0.0) for query in qrels])


def test_exact_search_stands_beside_judged_answers_with_the_paired_difference():
    truth, qrels, answers = judged_truth()
    before = [line[:5] for line in answers]
    asked = [str(query) for query in range(len(answers))]
    found = assess(
        truth=truth,
        answers=named(answers, "now", asked),
        at=[10],
        qrels=qrels | {"never asked": {"1": 1}},
        against=[named(before, "before", asked)],
    ).judged
    for name in ("nDCG@10", "RR@10", "P@10", "R@10", "Success@10"):
        now, exact, then = (evaluated(name, qrels, each) for each in (answers, truth.rows[:, :10], before))
        assert found.means[name].value == pytest.approx(now.mean()) and found.means[name].n == 30
        assert found.exact[name].value == pytest.approx(exact.mean())
        assert found.lost[name].value == pytest.approx((exact - now).mean())
        assert found.lost[name].low <= found.lost[name].value <= found.lost[name].high
        [pair] = found.differences[name]
        assert (pair.first, pair.second) == ("now", "before")
        assert pair.difference == pytest.approx((then - now).mean())
    assert found.notes[0].endswith("have no judgment and leave these means")
    assert found.notes[1] == "the qrels judge 1 query that the truth does not have; they count nowhere"


def test_a_truth_too_shallow_for_exact_search_says_so():
    truth, qrels, answers = judged_truth()
    shallow = Truth(truth.rows[:, :5], None, None, None)
    found = assess(truth=shallow, answers=answers, at=[5], qrels=qrels).judged
    assert not found.exact and not found.lost
    assert (
        "exact search is not shown: the truth has depth 5, but relevance is judged to rank 10" in found.notes
    )


def test_judgements_of_other_queries_are_refused():
    truth = truth_with()
    with pytest.raises(MismatchError, match="none of its queries"):
        assess(truth=truth, answers=answers_with(truth, HITS), at=[10], qrels={"another": {"1": 1}})


def test_answers_are_compared_query_by_query():
    truth = truth_with()
    worse, best = np.maximum(HITS - 2, 0), np.full(QUERIES, 10)
    found = assess(
        truth=truth,
        answers=named(answers_with(truth, HITS), "now"),
        at=[10],
        against=[named(answers_with(truth, worse), "before"), named(answers_with(truth, best), "exact")],
    )
    pairs = {(each.first, each.second): each for each in found.differences}
    assert set(pairs) == {("now", "before"), ("now", "exact"), ("before", "exact")}
    difference = pairs["now", "before"]
    assert difference.difference == pytest.approx((worse - HITS).mean() / 10)
    assert difference.n == QUERIES
    assert difference.differing == np.count_nonzero(worse != HITS)
    assert difference.significant
    assert "now is better than before by" in assessment_to_text(found)


def test_missing_queries_are_named_and_score_0():
    names = [f"q{query}" for query in range(QUERIES)]
    truth = truth_with(query_ids=pa.array(names))
    kept = [query for query in range(QUERIES) if query not in (3, 77)]
    lists = answers_with(truth, [10] * QUERIES)
    found = assess(
        truth=truth,
        answers=named([lists[query] for query in kept], query_ids=[names[query] for query in kept]),
        at=[10],
    )
    assert found.score.missing == ("q3", "q77")
    assert found.score.anomalies["missing"] == 2
    assert found.score["recall@10"] == pytest.approx(118 / 120)
    assert "q3, q77" in assessment_to_text(found)


@pytest.mark.parametrize(
    "answers",
    [
        [[1, 2, 3], [4]],
        np.array([[1, 2, 3, -1], [4, -1, -1, -1]]),
        answers_from_lists([[1, 2, 3, None], [4, None]]),
        answers_from_lists([["1", "2", "3", None], ["4"]]),
    ],
    ids=["lists", "matrix", "numbers", "names"],
)
def test_by_default_k_is_within_the_longest_list_of_answers(answers):
    assert last_answer(answers) == 3
    right = [list(range(10)), list(range(10))]
    found = assess(truth=right, answers=[[0, 1, 2], [3]]).score
    assert [name for name in found.measures if name.startswith("recall@")] == ["recall@1"]
    assert found.unreached == score(truth=right, answers=[[0, 1, 2], [3]]).unreached == (10,)
    assert "no query has 10 answers" in repr(found)
    assert score(truth=right, answers=[[0, 1, 2], [3]], at=[10])["recall@10"] == pytest.approx(0.2)
    assert last_answer([[], [None, -1]]) == 0


@given(st.integers(1, 400), st.integers(0, 10))
def test_the_mean_of_equal_values_is_their_value_and_in_its_interval(count, hits):
    value = hits / 10
    mean = mean_of(np.full(count, value), "recall@10", np.full(count, value))
    assert mean.value == mean.ids == value
    assert mean.low <= value <= mean.high
    assert target_estimate(parse_goal("recall@10 >= 0.5"), np.full(count, value)).value == value


def test_a_strict_recall_may_be_asked_for_beside_another_k():
    truth = truth_with()
    found = assess(truth=truth, answers=answers_with(truth, HITS), at=[1], measures=["recall@10(ids)"])
    assert found.score["recall@10(ids)"] == pytest.approx(HITS.mean() / 10)


def test_one_query_and_no_scored_query_can_be_assessed():
    one = Truth(np.array([[0, 1]]), np.array([[0.1, 0.2]]), None, Metric.L2)
    assert assess(truth=one, answers=[[0, 5]], at=[2]).score["recall@2"] == 0.5
    none = Truth(np.array([[-1, -1]]), np.full((1, 2), np.nan), np.array([0]), Metric.L2, corpus_rows=9)
    found = assess(truth=none, answers=[[0, 5]], at=[2])
    assert found.score["recall@2"] is None
    assert (found.distribution, found.at_least, found.diagnosis) == ({}, {}, None)
    assert "1 query without an eligible row, left out of the mean" in assessment_to_text(found)


@pytest.mark.parametrize(("rows", "asked", "metric"), [(20, 4, "l2"), (9, 4, "cosine"), (20, 3, "cosine")])
@pytest.mark.parametrize("door", [score, assess])
def test_a_dataset_that_the_truth_is_not_of_is_refused(rows, asked, metric, door):
    def made(rows, asked, metric):
        corpus, queries = make_corpus(VECTORS[:rows]), make_queries(VECTORS[-asked:])
        return open_dataset(corpus, queries, metric=metric)

    truth = ground_truth(made(20, 4, "cosine"), depth=5, threads=1)
    with pytest.raises(MismatchError):
        door(truth, truth.rows, [5], dataset=made(rows, asked, metric))


@pytest.mark.parametrize("door", [score, assess])
def test_a_corpus_that_the_truth_is_not_of_is_refused(door):
    truth = Truth(np.array([[7, 8]]), None, np.array([20]), None, corpus_rows=20)
    with pytest.raises(MismatchError):
        door(truth, [[7, 8]], [2], corpus=make_corpus(VECTORS[:5]))


def test_the_width_in_words_is_that_of_the_interval_beside_it_and_few_queries_have_none():
    truth = truth_with()
    found = assess(truth=truth, answers=answers_with(truth, HITS), at=[10])
    mean = found.score.measures["recall@10"]
    said = float(found.planning.partition("±")[2].partition(";")[0])
    assert said == pytest.approx((mean.high - mean.low) / 2, abs=5e-4)
    few = [["A", "B"], ["A", "C"]]
    short = assess(truth=truth_from_lists([["A", "B"], ["A", "B"]], 2), answers=few, at=[2])
    assert short.planning == ""
