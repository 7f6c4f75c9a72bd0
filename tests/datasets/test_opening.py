"""From paths and arrays to a corpus, queries, a dataset."""

import numpy as np
import pyarrow as pa
import pytest
from writers import numbers, write_hdf5, write_npy, write_parquet, write_vecs

import recallatk
from recallatk.core import Metric
from recallatk.datasets import make_corpus, make_queries, open_corpus, open_dataset, open_queries, read_truth
from recallatk.errors import BadValueError, FilterError, FormatError, MismatchError, RecallError, UsageError
from recallatk.filters import parse_filter
from recallatk.fingerprint import fingerprint_vectors

MATRIX = numbers(6, 4)


def test_arrays_become_a_corpus(same):
    corpus = make_corpus(MATRIX, ids=list("abcdef"), metadata={"n": range(6)})
    same(corpus, MATRIX)
    assert corpus.ids.to_pylist() == list("abcdef")
    assert corpus.metadata.to_pydict() == {"n": [0, 1, 2, 3, 4, 5]}


def test_ids_without_metadata_and_metadata_without_ids_are_enough():
    assert make_corpus(MATRIX, ids=np.arange(6) * 2).ids.to_pylist() == [0, 2, 4, 6, 8, 10]
    assert make_corpus(MATRIX, ids=np.array(list("abcdef"))).ids.to_pylist() == list("abcdef")
    assert make_corpus(MATRIX, metadata=pa.table({"n": range(6)})).ids.to_pylist() == list(range(6))
    assert make_corpus(MATRIX.tolist()).vectors.dtype == np.float64


def test_the_byte_order_of_an_array_does_not_matter():
    made = make_corpus(MATRIX.astype(">f4"))
    assert made.vectors.dtype.isnative
    assert fingerprint_vectors(made.vectors) == fingerprint_vectors(make_corpus(MATRIX).vectors)


@pytest.mark.parametrize(
    "arguments",
    [
        {"vectors": [[1.0, 2.0], [3.0]]},
        {"vectors": [1.0, 2.0]},
        {"vectors": np.ones((2, 3, 4))},
        {"vectors": np.ones((0, 3))},
        {"vectors": [["a", "b"]]},
        {"vectors": np.ones((2, 2), np.int64)},
        {"vectors": np.ones((2, 2), complex)},
        {"vectors": np.array([[object()]])},
        {"vectors": MATRIX, "ids": ["a", "b"]},
        {"vectors": MATRIX, "ids": ["a", 1, 2, 3, 4, 5]},
        {"vectors": MATRIX, "ids": [0.5, 1, 2, 3, 4, 5]},
        {"vectors": MATRIX, "ids": [True] * 6},
        {"vectors": MATRIX, "ids": [1 << 70] * 6},
        {"vectors": MATRIX, "ids": np.arange(6)[:, None]},
        {"vectors": MATRIX, "ids": np.arange(6)[:, None].tolist()},
        {"vectors": MATRIX, "metadata": {"a": [1, 2]}},
        {"vectors": MATRIX, "metadata": {"a": range(6), "b": [1]}},
        {"vectors": MATRIX, "metadata": {"a": [1, "x", 2, 3, 4, 5]}},
        {"vectors": MATRIX, "ids": range(6), "metadata": {"id": range(6)}},
    ],
)
def test_arrays_that_make_no_corpus_are_refused(arguments):
    with pytest.raises(RecallError, match=r"^corpus"):
        make_corpus(**arguments)


@pytest.mark.parametrize(("ids", "row"), [([1, 2, 3, 2, 5, 6], 3), ([1, None, 3, 4, 5, 6], 1)])
def test_repeated_and_missing_ids_are_refused_with_their_row(ids, row):
    with pytest.raises(BadValueError) as caught:
        _ = make_corpus(MATRIX, ids=ids).ids
    assert caught.value.row == row


def test_a_number_that_is_none_is_refused_with_its_row():
    broken = MATRIX.copy()
    broken[4, 2] = np.nan
    with pytest.raises(BadValueError, match="nan at position 2") as caught:
        make_corpus(broken).vectors.read(2, 6)
    assert caught.value.row == 4


def test_queries_know_their_text_and_filters():
    filters = ["n > 2", None, "", "n > 2", None, ""]
    queries = make_queries(MATRIX, metadata={"query": ["q"] * 6, "filter": filters})
    assert queries.text_column == "query"
    assert [each is None for each in queries.filters] == [False, True, True, False, True, True]
    assert queries.filters[0] is queries.filters[3]


def test_a_filter_column_of_a_dictionary_is_not_overlooked():
    column = pa.array(["n > 2", None] * 3).dictionary_encode()
    assert make_queries(MATRIX, metadata={"filter": column}).filters[0] is not None


@pytest.mark.parametrize("column", [[{"n": 2}] * 6, [True] * 6, [b"n > 2"] * 6])
def test_filters_that_are_no_text_are_refused_and_not_passed_over(column):
    with pytest.raises(FormatError, match=r"queries \(filter\): filters of type .* Accepted: text"):
        make_queries(MATRIX, metadata={"filter": column})
    assert make_queries(MATRIX, metadata={"filter": pa.nulls(6)}).filters is None


def test_a_bad_filter_is_refused_with_its_row():
    with pytest.raises(FilterError, match="queries, row 1"):
        make_queries(MATRIX, metadata={"filter": ["n > 2", "n >", "", "", "", ""]})


def test_one_filter_for_each_query():
    filters = [parse_filter("n > 2"), None, None, None, None, None]
    assert make_queries(MATRIX, filters=filters).filters == tuple(filters)
    with pytest.raises(UsageError, match="6 queries but 1 filters"):
        make_queries(MATRIX, filters=filters[:1])


def test_one_matrix_is_corpus_or_queries_but_never_both(tmp_path):
    path = write_npy(tmp_path / "x.npy", MATRIX)
    assert open_corpus(path).rows == open_queries(path).rows == 6
    with pytest.raises(UsageError, match="has vectors but no queries"):
        open_dataset(path, metric="l2")
    with pytest.raises(UsageError, match="needs queries"):
        open_dataset(open_corpus(path), metric="l2")


def test_a_metric_is_stated_once(tmp_path):
    path = write_hdf5(tmp_path / "x.hdf5", MATRIX, MATRIX[:2], distance="angular")
    assert open_dataset(path).metric is Metric.COSINE
    assert open_dataset(path, metric="cosine").metric is Metric.COSINE
    with pytest.raises(UsageError, match="states cosine, not l2"):
        open_dataset(path, metric="l2")
    plain = write_npy(tmp_path / "x.npy", MATRIX)
    with pytest.raises(UsageError, match=r"Pass metric=.cosine"):
        open_dataset(plain, plain)
    with pytest.raises(UsageError, match="no metric 'dot'"):
        open_dataset(plain, plain, metric="dot")


def test_dimensions_must_agree(tmp_path):
    with pytest.raises(MismatchError, match=r"dimension mismatch: .* has 4, .* have 3"):
        open_dataset(
            write_npy(tmp_path / "c.npy", MATRIX), write_npy(tmp_path / "q.npy", MATRIX[:, :3]), metric="ip"
        )


def test_zero_vectors_are_refused_under_cosine_only(tmp_path):
    zero = MATRIX.copy()
    zero[3] = 0
    path = write_npy(tmp_path / "x.npy", zero)
    open_dataset(path, path, metric="l2").corpus.vectors.read(0, 6)
    with pytest.raises(BadValueError, match="zero vector") as caught:
        open_dataset(path, path, metric="cosine").corpus.vectors.read(0, 6)
    assert caught.value.row == 3


def test_one_filter_for_all_queries(tmp_path):
    corpus = make_corpus(MATRIX, metadata={"n": range(6)})
    dataset = open_dataset(corpus, make_queries(MATRIX[:2]), metric="l2", where="n >= 4")
    assert dataset.eligibility.counts.tolist() == [2, 2]
    assert recallatk.ground_truth(dataset, depth=3).rows.max() == 5


def test_neighbors_are_no_vectors(tmp_path):
    path = write_vecs(tmp_path / "x.ivecs", np.array([[0, 1]] * 3, np.int32))
    with pytest.raises(FormatError, match="the type of neighbor ids"):
        open_corpus(path)
    assert read_truth(path).rows.tolist() == [[0, 1]] * 3


def test_vectors_are_no_truth(tmp_path):
    with pytest.raises(FormatError, match="no ground truth"):
        read_truth(write_npy(tmp_path / "x.npy", MATRIX))


def test_ids_of_a_file_may_be_dictionaries_and_of_any_width(tmp_path):
    ids = pa.array(list("abcdef")).dictionary_encode()
    assert open_corpus(write_parquet(tmp_path / "a.parquet", MATRIX, id=ids)).ids.to_pylist() == list(
        "abcdef"
    )
    ids = pa.array(range(6), pa.uint8())
    assert open_corpus(write_parquet(tmp_path / "b.parquet", MATRIX, id=ids)).ids.type == pa.int64()
    ids = pa.array([*range(5), 2**64 - 1], pa.uint64())
    with pytest.raises(BadValueError, match="int64"):
        _ = open_corpus(write_parquet(tmp_path / "c.parquet", MATRIX, id=ids)).ids
