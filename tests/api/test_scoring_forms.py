"""Truth and answers in every form score the same, in one order of arguments."""

import inspect

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import recallatk
from recallatk import RecallError, assess, compare, load_truth, make_corpus, save_truth, score
from recallatk.errors import UsageError

TRUTH = np.array([[3, 1, 4], [1, 5, 9], [2, 6, 5]])
FOUND = np.array([[3, 1, 7], [9, 5, 1], [0, 8, 7]])
RECALL = 5 / 9
QUERIES = ["a", "b", "c"]
CORPUS = make_corpus(np.eye(10, dtype="float32"))


def frames(rows):
    """One list of ids per query, in the layouts of answer files."""
    lists = rows.tolist()
    long = {
        "query_id": [query for query in QUERIES for _ in range(3)],
        "neighbor": rows.reshape(-1).tolist(),
        "rank": [1, 2, 3] * 3,
    }
    return {
        "pandas": pd.DataFrame({"query_id": QUERIES, "neighbors": lists}),
        "pandas index": pd.DataFrame({"neighbors": lists}, index=QUERIES),
        "pandas series": pd.Series(lists, index=QUERIES),
        "pandas long": pd.DataFrame(long),
        "polars": pl.DataFrame({"query_id": QUERIES, "neighbors": lists}),
        "polars lazy": pl.LazyFrame({"query_id": QUERIES, "neighbors": lists}),
        "polars long": pl.DataFrame(long),
        "arrow": pa.table({"query_id": QUERIES, "neighbors": lists}),
        "columns": {"query_id": QUERIES, "neighbors": lists},
        "mapping": dict(zip(QUERIES, lists, strict=True)),
        "rows": [{"query_id": q, "neighbors": each} for q, each in zip(QUERIES, lists, strict=True)],
    }


def nameless(rows):
    """The same without ids of queries."""
    return {
        "lists": rows.tolist(),
        "tuples": tuple(map(tuple, rows.tolist())),
        "numpy": rows,
        "objects": np.array(rows.tolist(), dtype=object),
        "wide pandas": pd.DataFrame(rows),
        "pandas": pd.DataFrame({"neighbors": rows.tolist()}),
        "polars series": pl.Series(rows.tolist()),
        "arrow array": pa.array(rows.tolist()),
    }


@pytest.mark.parametrize("form", frames(FOUND))
def test_answers_by_query_id(form):
    given = frames(FOUND)[form]
    backwards = {"query_id": QUERIES[::-1], "neighbors": TRUTH[::-1].tolist()}
    assert score(truth=pa.table(backwards), answers=given, at=[3])["recall@3"] == pytest.approx(RECALL)
    assert score(truth=frames(TRUTH)[form], answers=given, at=[3])["recall@3"] == pytest.approx(RECALL)
    read = recallatk.read_answers(given)
    assert read.query_ids.to_pylist() == QUERIES and read.ids.to_pylist() == FOUND.reshape(-1).tolist()
    assert recallatk.read_answers(read) is read


@pytest.mark.parametrize("form", nameless(FOUND))
def test_answers_by_position(form):
    given, truth = nameless(FOUND)[form], nameless(TRUTH)[form]
    assert score(truth=truth, answers=given, at=[3])["recall@3"] == pytest.approx(RECALL)
    assert score(load_truth(truth), given, [3])["recall@3"] == pytest.approx(RECALL)
    assert assess(truth=truth, answers=given, at=[3]).score["recall@3"] == pytest.approx(RECALL)
    assert recallatk.read_answers(given).ids.to_pylist() == FOUND.reshape(-1).tolist()


@pytest.mark.parametrize("form", {**frames(TRUTH), **nameless(TRUTH)})
def test_a_truth_in_memory_is_imported(form):
    truth = load_truth({**frames(TRUTH), **nameless(TRUTH)}[form], corpus=np.eye(10), metric="l2")
    assert truth.origin == "imported, not certified" and truth.certificate is None
    assert truth.rows.tolist() == TRUTH.tolist() and truth.metric == "l2" and truth.corpus_rows == 10


def test_files_are_named_by_path(tmp_path):
    dataset = recallatk.open_dataset(CORPUS, np.eye(10)[:3], metric="cosine")
    truth = recallatk.ground_truth(dataset, depth=3, store=False)
    save_truth(truth, tmp_path / "truth.parquet")
    np.save(tmp_path / "answers.npy", truth.rows)
    np.save(tmp_path / "truth.npy", truth.rows)
    for file in ("truth.parquet", "truth.npy"):
        found = score(
            truth=tmp_path / file, answers=str(tmp_path / "answers.npy"), at=[1, 3], corpus=np.eye(10)
        )
        assert found["recall@3"] == 1.0 and found.anomalies["unknown"] == 0
    (tmp_path / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\n0\t0\t1\n")
    judged = assess(truth, truth.rows, [3], qrels=tmp_path / "qrels.tsv")
    assert judged.relevance["RR@10"].value == 1.0


def test_others_are_compared_by_name():
    named = assess(truth=TRUTH, answers=FOUND, at=[3], against={"mine": TRUTH, "yours": FOUND[::-1]})
    assert [each.second for each in named.differences[:2]] == ["mine", "yours"]
    counted = assess(truth=TRUTH, answers=FOUND, at=[3], against=[TRUTH, FOUND.tolist()])
    assert [each.second for each in counted.differences[:2]] == ["answers 2", "answers 3"]


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame, pa.table, dict])
def test_systems_are_compared_in_a_frame(frame):
    values = {"a": [0.5] * 40, "b": [0.6, 0.7] * 20}
    (found,) = compare(frame(values))
    assert (found.first, found.second, found.significant) == ("a", "b", True)


class TestTheOrderOfArguments:
    truth = load_truth(TRUTH)

    @pytest.mark.parametrize("call", [score, assess])
    def test_the_truth_comes_first(self, call):
        expected = call(truth=TRUTH, answers=FOUND, at=[3])
        for same in (
            call(self.truth, FOUND, [3]),
            call(self.truth, answers=FOUND, at=[3]),
            call(FOUND, truth=TRUTH, at=[3]),
            call(FOUND, [3], truth=TRUTH),
            call(TRUTH, answers=FOUND, at=[3]),
        ):
            found, wanted = (getattr(each, "score", each) for each in (same, expected))
            assert found["recall@3"] == wanted["recall@3"] == pytest.approx(RECALL)

    @pytest.mark.parametrize("call", [score, assess])
    def test_the_old_order_is_refused_with_the_new_one(self, call):
        form = rf"{call.__name__}\(truth=…, answers=…\)"
        for arguments in (
            (FOUND, self.truth),
            (FOUND, TRUTH),
            ("answers.npy", "truth.parquet"),
            (FOUND,),
            (),
        ):
            with pytest.raises(UsageError, match=form):
                call(*arguments)

    def test_the_signature_is_the_new_one(self):
        assert list(inspect.signature(score).parameters)[:3] == ["truth", "answers", "at"]
        assert list(inspect.signature(assess).parameters)[:3] == ["truth", "answers", "at"]


NAMED = make_corpus(np.eye(10, dtype="float32"), [f"d{row}" for row in range(10)])


def test_ids_are_looked_up_in_the_corpus():
    texts = [[f"d{each}" for each in line] for line in TRUTH.tolist()]
    truth = load_truth(texts, corpus=NAMED)
    assert truth.rows.tolist() == TRUTH.tolist()
    assert truth.ids_of(truth.rows[0]).to_pylist() == texts[0]
    assert load_truth(TRUTH, corpus=NAMED, row_numbers=True).rows.tolist() == TRUTH.tolist()
    assert load_truth(truth, corpus=NAMED) is truth
    assert score(truth=pd.Series(texts), answers=pl.Series(texts), at=[3])["recall@3"] == 1.0


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (
            lambda: load_truth(5),
            "truth: an object of type int. Accepted: a path, a data frame with neighbors",
        ),
        (lambda: load_truth([]), "truth: .* no rows"),
        (lambda: load_truth(TRUTH[0]), r"truth: an array of shape \(3,\)"),
        (lambda: load_truth(TRUTH / 2), "truth: a matrix of float64"),
        (lambda: load_truth([["x"]]), r"truth: the neighbors are text, such as x\. Pass the corpus"),
        (lambda: load_truth([["x"]], corpus=NAMED), "truth: the neighbor x is not an id of corpus"),
        (lambda: load_truth([[1]], corpus=NAMED), "pass row_numbers=True"),
        (lambda: load_truth([[11]], corpus=CORPUS), "the neighbor 11 is not an id"),
        (lambda: load_truth([[1, 1]]), "row 0: a neighbor is repeated"),
        (lambda: load_truth([[1, 2], [3]]), "row 1: 1 neighbors, where the longest list has 2"),
        (lambda: load_truth([[1, 2], 5]), "row 1: 5, not a list of ids"),
        (lambda: load_truth(pd.DataFrame({"v": [[0.1]]})), "a table of vectors"),
        (lambda: load_truth(pl.DataFrame({"n": [1]})), r"no column holds neighbors \(columns: n\)"),
        (lambda: score(truth=TRUTH, answers=None, at=[3]), "answers: an object of type NoneType"),
        (lambda: score(truth=object(), answers=FOUND, at=[3]), "truth: an object of type object"),
        (lambda: score(truth=TRUTH, answers={"a": 1}, at=[3]), "row 0: 1, not a list of ids"),
        (
            lambda: score(truth=TRUTH, answers={"a": [1], "b": [2]}, at=[3]),
            "answers has queries a, b, missing from the truth",
        ),
        (lambda: score(truth=TRUTH, answers=FOUND, at=[3], corpus=5), "corpus: an object of type int"),
        (lambda: compare(5), "values of type int. Accepted: a mapping"),
        (lambda: compare({"a": ["x"], "b": [1.0]}), "values of a are not numbers"),
    ],
)
def test_what_is_neither_is_refused(call, said):
    with pytest.raises(RecallError, match=said):
        call()


def test_none_at_the_end_of_a_truth_says_that_there_are_no_more():
    assert load_truth([[1, 2], [3, None]]).rows.tolist() == [[1, 2], [3, -1]]
