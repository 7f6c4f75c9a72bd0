"""Data that a truth is not of are refused by what differs; what agrees only by position is told apart."""

from __future__ import annotations

import json

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from recallatk import assess, compare, ground_truth, make_corpus, make_queries, open_dataset, score
from recallatk.analysis.segments import by_column
from recallatk.cli import app
from recallatk.core import Origin, Truth
from recallatk.errors import MismatchError, UsageError

RANDOM = np.random.default_rng(0)
VECTORS, ASKED = (RANDOM.normal(size=(rows, 4)).astype(np.float32) for rows in (40, 6))
NAMES = [f"d{row}" for row in range(40)]
KINDS = pa.table({"kind": ["a", "b"] * 20})


def opened(rows=slice(None), queries=slice(None), where=None):
    corpus = make_corpus(
        VECTORS[rows], NAMES[rows] if isinstance(rows, slice) else [NAMES[r] for r in rows], KINDS
    )
    asked = [f"q{number}" for number in range(6)]
    order = range(6)[queries] if isinstance(queries, slice) else queries
    return open_dataset(
        corpus, make_queries(ASKED[list(order)], [asked[each] for each in order]), metric="l2", where=where
    )


DATA = opened()
TRUTH = ground_truth(DATA, depth=10)
RIGHT = [[NAMES[row] for row in line] for line in TRUTH.rows]


def test_the_data_of_the_truth_are_taken():
    assert score(truth=TRUTH, answers=RIGHT, at=[10], dataset=DATA)["recall@10"] == 1.0
    assert score(truth=TRUTH, answers=RIGHT, at=[10], corpus=DATA.corpus)["recall@10"] == 1.0


@pytest.mark.parametrize("door", [score, assess])
def test_a_truth_that_a_filter_contradicts_is_refused_by_its_query(door):
    filtered = opened(where="kind = 'b'")
    unfiltered = Truth(TRUTH.rows, None, None, None, Origin.IMPORTED)
    with pytest.raises(MismatchError, match="for query 0, whose filter excludes that row"):
        door(truth=unfiltered, answers=RIGHT, at=[10], dataset=filtered)
    lists = [[row for row in line if row % 2] for line in TRUTH.rows.tolist()]
    rows = np.asarray([line + [-1] * (10 - len(line)) for line in lists])
    after = Truth(rows, None, None, None, Origin.IMPORTED)
    said = f"query 0 lists {len(lists[0])} neighbors, but 20 rows are eligible and k is 10"
    with pytest.raises(MismatchError, match=said):
        door(truth=after, answers=RIGHT, at=[10], dataset=filtered)
    # As far as every list goes, its rows are the nearest eligible ones.
    k = min(len(line) for line in lists)
    answers = np.asarray([line[:k] for line in lists])
    assert door(truth=after, answers=answers, at=[k], dataset=filtered, row_numbers=True)


@pytest.mark.parametrize("door", [score, assess])
def test_lists_of_ids_are_scored_the_same_with_their_corpus(door):
    def recall(**known):
        found = door(truth=RIGHT, answers=RIGHT, at=[10], **known)
        return getattr(found, "score", found)["recall@10"]

    assert recall() == recall(corpus=DATA.corpus) == recall(dataset=DATA) == 1.0
    with pytest.raises(MismatchError, match="the truth lists zero, missing from"):
        door(truth=[["zero"] * 1 + line[1:] for line in RIGHT], answers=RIGHT, at=[10], corpus=DATA.corpus)


@pytest.mark.parametrize(
    ("others", "said"),
    [
        (
            lambda: {"corpus": opened(rows=list(range(40))[::-1]).corpus},
            "row 0 has the id 'd39' here and 'd0' in the truth",
        ),
        (
            lambda: {"dataset": opened(queries=[1, 0, 2, 3, 4, 5])},
            "query 0 has the id 'q1' here and 'q0' in the truth",
        ),
        (
            lambda: {"dataset": opened(where="kind = 'a'")},
            "20 rows are eligible for query 0, but 40 in the truth",
        ),
    ],
)
@pytest.mark.parametrize("door", [score, assess])
def test_other_data_are_refused_by_what_differs(others, said, door):
    with pytest.raises(MismatchError, match=said):
        door(truth=TRUTH, answers=RIGHT, at=[10], **others())


def test_queries_with_other_vectors_are_refused():
    moved = open_dataset(DATA.corpus, make_queries(ASKED + 1, [f"q{i}" for i in range(6)]), metric="l2")
    with pytest.raises(MismatchError, match="query vectors or filters differ"):
        score(truth=TRUTH, answers=RIGHT, at=[10], dataset=moved)


def written(path, **columns):
    pq.write_table(pa.table(columns), path)
    return str(path)


def scored(*arguments):
    found = CliRunner().invoke(app, ["score", *arguments, "--json"])
    assert found.exit_code == 0, found.output
    return json.loads(found.stdout)


def listed(vectors):
    return pa.array(vectors.tolist(), pa.list_(pa.float32()))


@pytest.mark.parametrize("names", [[2, 0, 1], ["c", "a", "b"]])
@pytest.mark.parametrize(("query", "list_name"), [("query_id", "neighbors"), ("id", "neighbors_id")])
@pytest.mark.parametrize("as_text", [False, True])
def test_a_truth_of_another_tool_goes_by_its_own_query_ids(tmp_path, names, query, list_name, as_text):
    corpus = written(tmp_path / "corpus.parquet", id=list(range(40)), vector=listed(VECTORS))
    right = [[5, 6], [1, 2], [3, 4]]
    told = [list(map(str, each)) for each in right] if as_text else right
    truth = written(tmp_path / "truth.parquet", **{query: names, list_name: told})
    order = [1, 2, 0]
    answers = written(
        tmp_path / "answers.parquet",
        query_id=[names[each] for each in order],
        neighbors=[right[each] for each in order],
    )
    assert scored(truth, answers, "--corpus", corpus, "--at", "2")["measures"]["recall@2"]["value"] == 1.0


def test_ids_that_are_row_numbers_as_far_as_the_truth_goes_are_ids_all_the_same():
    corpus = make_corpus(np.array([[1.0], [0.9], [0.8], [-1], [-2]], np.float32), [0, 1, 2, 10, 11])
    data = open_dataset(corpus, make_queries(np.ones((1, 1), np.float32)), metric="l2")
    whole = ground_truth(data, depth=2)
    truth = Truth(
        whole.rows, whole.scores, whole.eligible, whole.metric, corpus_ids=corpus.ids, corpus_rows=5
    )
    found = score(truth=truth, answers=[[10, 11, 0]], at=[1])
    assert (found["recall@1"], found.anomalies["unknown"]) == (0.0, 0)
    found = score(truth=truth, answers=[[3, 4, 0]], at=[1])
    assert (found["recall@1"], found.anomalies["unknown"]) == (1.0, 2)


@pytest.mark.parametrize("as_text", [False, True])
def test_unknown_answers_keep_their_place_before_relevant_ones(as_text):
    given = [[str(each) if as_text else each for each in (900, 901, 7)]]
    corpus = make_corpus(VECTORS, list(range(40)))
    truth = ground_truth(open_dataset(corpus, make_queries(ASKED[:1]), metric="l2"), depth=10)
    found = assess(truth=truth, answers=given, at=[10], qrels={"0": {"7": 1}}, corpus=corpus).relevance
    assert found["RR@10"].value == pytest.approx(1 / 3)
    assert (found["nDCG@10"].value, found["P@10"].value) == pytest.approx((0.5, 0.1))


def test_padding_is_not_what_an_index_was_asked_for():
    short = [[NAMES[39 - row] for row in range(10)] for _ in RIGHT]
    plain, padded = (
        assess(truth=TRUTH, answers=each, at=[10]).diagnosis
        for each in (short, [[*r, *[None] * 40] for r in short])
    )
    assert plain.finding == padded.finding == "cannot tell"


def test_a_blank_line_is_a_query_without_answers_where_there_is_one_column(tmp_path):
    truth = np.array([[0, 1], [2, 3], [4, 5]])
    np.save(tmp_path / "truth.npy", truth)
    (tmp_path / "answers.csv").write_text("neighbors\n0 1\n\n4 5\n")
    found = scored(str(tmp_path / "truth.npy"), str(tmp_path / "answers.csv"), "--at", "2")
    assert found["measures"]["recall@2"]["value"] == pytest.approx(2 / 3)


def test_few_differences_are_not_resampled():
    (few,) = compare({"a": np.array([0.5, 0.5, 0.5]), "b": np.array([0.6, 0.7, 0.6])})
    assert few.low < 0 < few.high and not few.significant
    (far,) = compare({"a": np.zeros(3), "b": np.array([2.0, 3.0, 4.0])})
    assert (far.low, far.high) == (None, None)


def test_numbers_of_64_bits_without_a_sign():
    truth = Truth(np.array([[5]]), None, None, None, corpus_rows=10)
    given = np.array([[2**63 + 5, 2**64 - 1, 5]], np.uint64)
    found = score(truth=truth, answers=given, at=[1]).anomalies
    assert (found["unknown"], found["padding"]) == (1, 1)


def test_lists_are_assessed_as_they_are_scored():
    assert assess(truth=[[1, 2]], answers=[[1, 2]], at=[2]).score["recall@2"] == 1.0


@pytest.mark.parametrize("kind", [pa.string_view(), pa.large_string(), pa.dictionary(pa.int8(), pa.string())])
def test_groups_by_text_however_it_is_laid_out(tmp_path, kind):
    np.save(tmp_path / "truth.npy", np.array([[0], [1]]))
    table = pa.table({"query_id": [0, 1], "neighbors": [[0], [9]], "kind": pa.array(["a", "b"]).cast(kind)})
    with pa.ipc.new_file(tmp_path / "answers.arrow", table.schema) as file:
        file.write_table(table)
    found = scored(str(tmp_path / "truth.npy"), str(tmp_path / "answers.arrow"), "--at", "1", "--by", "kind")
    assert {name: each["recall@1"]["value"] for name, each in found["segments"]["kind"].items()} == {
        "a": 1,
        "b": 0,
    }


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary(), pa.binary(1), pa.binary_view()])
def test_bytes_are_no_groups(kind):
    columns = pa.table({"raw": pa.array([b"\xff", b"\xfe"], pa.binary()).cast(kind)})
    with pytest.raises(UsageError, match="Accepted: columns of text or numbers"):
        by_column(columns, "raw")


def test_an_id_that_the_corpus_of_ann_benchmarks_has_not_is_unknown(tmp_path):
    path = tmp_path / "data.hdf5"
    with h5py.File(path, "w") as file:
        file["train"], file["test"] = VECTORS, ASKED
        file["neighbors"] = TRUTH.rows.astype(np.int32)
        file.attrs["distance"] = "euclidean"
    np.save(tmp_path / "answers.npy", np.hstack([np.full((6, 1), 1_000), TRUTH.rows]))
    found = scored(str(path), str(tmp_path / "answers.npy"), "--at", "1")
    assert (found["measures"]["recall@1"]["value"], found["anomalies"]["unknown"]) == (1.0, 6)
