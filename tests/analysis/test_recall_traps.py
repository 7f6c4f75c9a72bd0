"""The mistakes that other tools make, one by one, and the words of the errors."""

import numpy as np
import pytest

from recallatk import make_corpus, score
from recallatk.core import Metric, Origin, Truth
from recallatk.errors import BadValueError, MismatchError, RecallError, UsageError

TEN = list("ABCDEFGHIJ")


def truth_of(rows, scores=None, overflow=None, metric=Metric.COSINE):
    rows = np.array(rows)
    return Truth(rows, None if scores is None else np.array(scores, float), None, metric, overflow=overflow)


def test_the_example_of_the_textbooks():
    result = score(truth=[list("ABCDE")], answers=[list("ACFDG")], at=[1, 5])
    assert result["recall@5"] == 0.6
    assert result["recall@1"] == 1.0
    assert result.queries == result.scored == 1


def test_ten_copies_of_the_right_id_are_one_hit():
    result = score(truth=[TEN], answers=[["A"] * 10], at=[10])
    assert result["recall@10"] == 0.1
    assert result.anomalies["duplicate"] == 9
    assert result.anomalies["short"] == 1


def test_padding_in_truth_and_answer_never_matches():
    for padding in (-1, None):
        result = score(
            truth=[[5, 6, 7, padding, padding]], answers=[[7, 9, padding, padding, padding]], at=[5]
        )
        assert result["recall@5"] == 1 / 3
        assert result.anomalies["padding"] == 3
    matrix = score(truth=truth_of([[4, -1, -1]]), answers=np.array([[-1, -1, -1]]), at=[3])
    assert matrix["recall@3"] == 0.0


def test_padding_in_the_truth_drops_no_neighbour():
    assert score(truth=[[5, 6, 7, -1, -1]], answers=[[5, 6, 7]], at=[5])["recall@5"] == 1.0
    assert score(truth=[[5, 6, 7, -1, -1]], answers=[[5]], at=[5])["recall@5"] == 1 / 3


def test_padding_in_the_middle_takes_no_place():
    assert score(truth=[[5, 6, 7]], answers=[[-1, 5, None, 6, -1, 7]], at=[3])["recall@3"] == 1.0


def test_the_string_minus_one_may_be_an_id():
    assert score(truth=[["-1"]], answers=[["-1"]], at=[1])["recall@1"] == 1.0


def test_a_filter_with_fewer_matches_than_k_can_reach_one():
    assert score(truth=[["A", "B", None], TEN], answers=[["A", "B"], TEN], at=[10])["recall@10"] == 1.0


def test_few_answers_are_measured_by_what_was_there_to_find():
    result = score(truth=[TEN], answers=[["A"]], at=[10])
    assert result["recall@10"] == 0.1
    assert result.anomalies["short"] == 1


def test_answers_beyond_k_do_not_count():
    assert score(truth=[TEN], answers=[[*"XYZ", *TEN]], at=[3])["recall@3"] == 0.0
    assert score(truth=[TEN], answers=[TEN[::-1]], at=[1])["recall@1"] == 0.0


def test_no_truth_is_an_error_and_never_one():
    for nothing in (None, [], "AB", 5):
        with pytest.raises(RecallError):
            score(truth=nothing, answers=[["A"]] if nothing != [] else [], at=[1])
    result = score(truth=[[None], [-1]], answers=[[], ["A"]], at=[1])
    assert result["recall@1"] is None
    assert result.scored == 0
    assert result.anomalies["no_eligible"] == 2


def test_a_query_without_eligible_rows_leaves_the_mean_and_is_counted():
    result = score(truth=[["A"], [None]], answers=[["A"], ["A"]], at=[1])
    assert result["recall@1"] == 1.0
    assert result.measures["recall@1"].n == 1
    assert (result.queries, result.scored, result.anomalies["no_eligible"]) == (2, 1, 1)


def test_a_wrong_id_close_by_is_no_hit():
    # Within 1e-3 of the boundary, where absolute tolerances call wrong ids right.
    truth = truth_of([[0, 1, 2]], [[0.9, 0.8999, 0.8998]])
    assert score(truth=truth, answers=np.array([[0, 2, 3]]), at=[2])["recall@2"] == 0.5


def test_a_tie_at_the_boundary_may_be_answered_by_any_of_its_rows():
    truth = truth_of([[4, 1, 2]], [[0.9, 0.5, 0.5]], overflow=(np.array([0, 2]), np.array([7, 8])))
    result = score(truth=truth, answers=np.array([[4, 8]]), at=[2])
    assert result["recall@2"] == 1.0
    assert result.measures["recall@2"].ids == 0.5
    assert score(truth=truth, answers=np.array([[8, 7]]), at=[2])["recall@2"] == 0.5
    assert score(truth=truth, answers=np.array([[4, 7, 8]]), at=[3])["recall@3"] == 1.0
    assert score(truth=truth, answers=np.array([[4, 7, 9]]), at=[3])["recall@3"] == 2 / 3


def test_a_truth_that_holds_an_id_twice_is_refused():
    with pytest.raises(BadValueError, match="truth, row 1: an id is repeated"):
        score(truth=[["A", "B"], ["A", "A"]], answers=[["A"], ["A"]], at=[1])


@pytest.mark.parametrize("k", [6, 100])
def test_a_k_beyond_the_depth_is_an_error_that_names_the_depth(k):
    with pytest.raises(UsageError, match=f"query 0 has 5 ids, recall@{k} needs {k}"):
        score(truth=[list("ABCDE")], answers=[list("ABCDE")], at=[k])
    with pytest.raises(UsageError, match=f"recall@{k} .*has depth 5"):
        score(truth=truth_of([[0, 1, 2, 3, 4]]), answers=np.array([[0, 1]]), at=[k])


@pytest.mark.parametrize("at", [[0], [-1], [1, 0], []])
def test_a_k_below_one_and_no_k_are_refused(at):
    for answers, truth in ([list("ABCDE")], [list("ABCDE")]), (np.array([[0, 1]]), truth_of([[0, 1]])):
        with pytest.raises(UsageError, match=r"at = \[.*Accepted: one or more"):
            score(truth=truth, answers=answers, at=at)


def test_a_short_list_of_right_ids_has_to_say_that_there_are_no_more():
    for truth in ([["A", "B"], ["A"]], [["A", "B"], []]):
        with pytest.raises(UsageError, match=r"the truth of query 1 has . ids, recall@2 needs 2\..*None"):
            score(truth=truth, answers=[["A"], ["A"]], at=[1, 2])
    result = score(truth=[["A", "B"], ["A", None]], answers=[["A"], ["A"]], at=[1, 2])
    assert list(result.per_query["recall@2"]) == [0.5, 1.0]


def test_texts_against_numbers_match_as_texts_and_are_refused_where_nothing_does():
    # CSV files and TREC runs cannot say which of the two their ids are.
    assert score(truth=[["1"]], answers=[[1, None]], at=[1])["recall@1"] == 1.0
    corpus = make_corpus(np.ones((1, 1)), [30])
    assert score(truth=truth_of([[0]]), answers=[["30"]], at=[1], corpus=corpus)["recall@1"] == 1.0
    with pytest.raises(MismatchError, match="has numbers such as 1, the truth has text such as A"):
        score(truth=[["A"]], answers=[[1, None]], at=[1])
    with pytest.raises(MismatchError, match=r"has text such as x, the truth has numbers such as 30"):
        score(truth=truth_of([[0]]), answers=[["x"]], at=[1], corpus=corpus)


def test_missing_queries_score_zero_and_are_named():
    for answers, truth in (([["A"]], [["A"], ["B"]]), (np.array([[4]]), truth_of([[4], [5]]))):
        result = score(truth=truth, answers=answers, at=[1])
        assert (result["recall@1"], result.measures["recall@1"].n) == (0.5, 2)
        assert (result.anomalies["missing"], result.missing, result.anomalies["short"]) == (1, (1,), 0)


def test_answers_to_queries_that_the_truth_does_not_have_are_refused():
    for answers, truth in (([["A"], ["B"]], [["A"]]), (np.array([[4], [5]]), truth_of([[4]]))):
        with pytest.raises(MismatchError, match=r"answers to 2 queries, the truth has 1\. .*query 1 "):
            score(truth=truth, answers=answers, at=[1])


@pytest.mark.parametrize(
    "answers",
    [
        "AB",
        5,
        ["AB"],
        [1, 2],
        [["A"]],
        [[1.5]],
        [[[1]]],
        np.array([1, 2]),
        np.array([[0.5]]),
        np.array([["A"]]),
    ],
)
def test_what_is_no_answer_is_refused_with_what_would_be(answers):
    with pytest.raises(RecallError):
        score(truth=truth_of([[0]]), answers=answers, at=[1])
    with pytest.raises(UsageError):
        score(truth=[[1]], answers=[1, [2]], at=[1])


def test_an_array_of_one_dimension_is_refused_with_a_corpus_too():
    with pytest.raises(UsageError, match="one list of ids per query"):
        score(
            truth=truth_of([[0], [0]]), answers=np.array([1, 2]), at=[1], corpus=make_corpus(np.ones((3, 1)))
        )


def test_row_numbers_that_are_no_rows_overflow_nothing():
    largest = np.iinfo(np.int64).max
    truth = truth_of([[0, 1]] * 3)
    answers = np.array([[largest, 0], [largest - 1, largest], [1, 0]])
    assert list(score(truth=truth, answers=answers, at=[2]).per_query["recall@2"]) == [0.5, 0.0, 1.0]


def test_the_largest_unsigned_number_is_padding():
    answers = np.array([[0, 2**64 - 1]], np.uint64)
    result = score(truth=truth_of([[0, 1]]), answers=answers, at=[2])
    assert result["recall@2"] == 0.5
    assert result.anomalies["padding"] == 1


def test_what_could_not_be_told_is_null_and_not_zero():
    result = score(truth=[["A", "B"]], answers=[["A", "Q"]], at=[1])
    assert result.anomalies["unknown"] is None
    assert result.anomalies["ineligible"] is None
    corpus = make_corpus(np.ones((2, 1)), ["A", "B"])
    assert (
        score(truth=truth_of([[0, 1]]), answers=[["A", "Q"]], at=[1], corpus=corpus).anomalies["unknown"] == 1
    )


def test_integer_ids_are_looked_up_in_the_corpus():
    corpus = make_corpus(np.ones((3, 1)), [30, 10, 20])
    for answers in ([[10, 20]], np.array([[10, 20]]), [np.array([10, 20])]):
        assert score(truth=truth_of([[1, 0]]), answers=answers, at=[2], corpus=corpus)["recall@2"] == 0.5


def test_a_measure_that_was_not_scored_is_refused_with_those_that_were():
    with pytest.raises(UsageError, match=r"no measure 'recall@7'. Scored: recall@1, recall@2"):
        score(truth=[["A", "B"]], answers=[["A"]], at=[1, 2])["recall@7"]


def test_a_truth_without_scores_knows_no_ties():
    truth = Truth(np.array([[0, 1]]), None, None, None, Origin.IMPORTED)
    assert score(truth=truth, answers=np.array([[2, 1]]), at=[1, 2])["recall@2"] == 0.5


@pytest.mark.parametrize("at", ["5", [], [0], [-1], [1.5], [True], [None], iter(())])
def test_what_is_no_list_of_whole_numbers_is_no_list_of_k(at):
    with pytest.raises(UsageError, match="at = "):
        score(truth=[["A"]], answers=[["A"]], at=at)


def test_k_may_come_from_any_iterable():
    assert score(truth=[["A"]], answers=[["A"]], at=(k for k in [1]))["recall@1"] == 1.0
