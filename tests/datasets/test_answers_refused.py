"""Answers that cannot be understood are refused with the file, the row, and what is accepted."""

import json
import pickle
import re

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from test_answers import TABLES, TYPED, every_table, every_typed_table, written
from writers import numbers, write_hdf5, write_npz, write_vecs, write_xbin

from recallatk.datasets import read_answers
from recallatk.errors import BadValueError, DataError, FormatError, UsageError


def refused(path, found, *, row=None, kind=DataError, **options):
    with pytest.raises(kind, match=found) as caught:
        read_answers(path, **options)
    assert caught.value.row == row
    assert str(path) in str(caught.value)
    assert caught.value.accepted


@every_table
def test_a_repeated_query(tmp_path, suffix):
    path = written(tmp_path, suffix, {"query_id": ["a", "b", "a"], "neighbors": [[1], [2], [3]]})
    refused(path, "duplicate id a: row 0 has it too", row=2, kind=BadValueError)


@every_table
@pytest.mark.parametrize("layout", ["plain", "long"])
def test_a_query_without_an_id(tmp_path, suffix, layout):
    columns = {"neighbors": [[1], [2]]} if layout == "plain" else {"neighbor": [1, 2]}
    path = written(tmp_path, suffix, {"query_id": ["a", None], **columns})
    refused(path, r"\(query_id\), row 1: the id is null", row=1, kind=BadValueError)


@every_table
def test_scores_of_another_length(tmp_path, suffix):
    columns = {"neighbors": [[1], [2, 3]], "scores": [[0.5], [0.5, 0.25, 0.125]]}
    found = "row 1: 2 neighbors and 3 scores. Accepted: a score for each neighbor"
    refused(written(tmp_path, suffix, columns), found, row=1, kind=BadValueError)


@every_table
def test_scores_that_are_no_numbers(tmp_path, suffix):
    columns = {"neighbors": [[1], [2, 3]], "scores": [["0.5"], ["1", "high"]]}
    refused(written(tmp_path, suffix, columns), "'high' is not a number in the column 'scores'", row=1)


@every_table
def test_ranks_that_are_missing_or_no_numbers(tmp_path, suffix):
    columns = {"query_id": [1, 1], "neighbor": [5, 6], "rank": [1, None]}
    refused(written(tmp_path, suffix, columns), "no rank in the column 'rank'", row=1)
    columns["rank"] = ["1", "second"]
    refused(written(tmp_path, suffix, columns), "'second' is not a number in the column 'rank'", row=1)


@every_table
@pytest.mark.parametrize("bad", [3.5, 2.0**60, 1e300])
def test_floats_that_are_no_ids(tmp_path, suffix, bad):
    path = written(tmp_path, suffix, {"neighbors": [[1.0], [2.0, bad]]})
    refused(path, "is not an id in the column 'neighbors'", row=1, kind=BadValueError)


@every_typed_table
def test_float32_ids_may_have_been_rounded(tmp_path, suffix):
    ids = pa.array([[1.0], [2.0**24 + 2]], pa.list_(pa.float32()))
    refused(written(tmp_path, suffix, {"neighbors": ids}), "floats up to 16777216", row=1)


@every_typed_table
def test_no_end_of_the_numbers_is_an_id(tmp_path, suffix):
    path = written(tmp_path, suffix, {"neighbors": [[1.0], [float("inf")]]})
    refused(path, "inf is not an id in the column 'neighbors'", row=1, kind=BadValueError)


@every_typed_table
def test_ids_beyond_int64(tmp_path, suffix):
    ids = pa.array([[1], [2, 2**63]], pa.list_(pa.uint64()))
    refused(written(tmp_path, suffix, {"neighbors": ids}), "9223372036854775808 is not an id", row=1)


@every_typed_table
@pytest.mark.parametrize("ids", [[[True]], [[[1]]], [[b"a"]], [[{"id": 1}]]])
def test_ids_of_another_type(tmp_path, suffix, ids):
    refused(written(tmp_path, suffix, {"neighbors": ids}), "has ids of type", kind=FormatError)


@pytest.mark.parametrize("suffix", [*TYPED, ".jsonl"])
def test_neighbors_that_are_no_lists(tmp_path, suffix):
    refused(written(tmp_path, suffix, {"neighbors": ["1 2"]}), "the column 'neighbors' holds string")


@every_table
def test_a_table_of_something_else(tmp_path, suffix):
    path = written(tmp_path, suffix, {"query_id": [1], "score": [2.0]})
    refused(path, r"no column holds neighbors \(columns: query_id, score\).*'neighbors'", kind=FormatError)
    path = written(tmp_path, suffix, {"query_id": [1], "results": [[1, 2]]})
    refused(path, r"no column holds neighbors \(columns: query_id, results\)", kind=FormatError)
    path = written(tmp_path, suffix, {"neighbor": [1], "score": [2.0]})
    refused(path, "no column holds neighbors", kind=FormatError)


@every_table
@pytest.mark.parametrize("beside", [["id"], ["query_id"], ["query_id", "doc_id"]])
def test_a_table_of_vectors(tmp_path, suffix, beside):
    path = written(tmp_path, suffix, {**{name: [1] for name in beside}, "embedding": [[0.5, 0.25]]})
    refused(path, r"a table of vectors \(in the column 'embedding'\), not of answers", kind=FormatError)


def test_a_table_of_numbered_columns(tmp_path):
    (tmp_path / "x.csv").write_text("id,v0,v1\n1,0.5,0.25\n")
    refused(tmp_path / "x.csv", r"a table of vectors \(in the column 'v0'\)")


@every_table
def test_a_table_without_rows(tmp_path, suffix):
    if suffix == ".jsonl":
        (tmp_path / "answers.jsonl").write_text("\n")
        refused(tmp_path / "answers.jsonl", "it has no lines")
    else:
        ids = pa.array([], pa.list_(pa.int64()))
        refused(written(tmp_path, suffix, {"neighbors": ids}), "it has no rows")


def test_two_columns_of_one_name(tmp_path):
    table = pa.Table.from_arrays([pa.array([[1]]), pa.array([[2]])], ["neighbors", "neighbors"])
    pq.write_table(table, tmp_path / "x.parquet")
    refused(tmp_path / "x.parquet", "two columns are called 'neighbors'")


@pytest.mark.parametrize("name", ["x.parquet", "x.run", "x.csv", "x.npy", "x.hdf5", "x.ivecs", "x"])
@pytest.mark.parametrize("format", [None, "trec", "csv"])
def test_an_empty_file(tmp_path, name, format):
    (tmp_path / name).write_bytes(b"")
    refused(tmp_path / name, "the file is empty", kind=FormatError, format=format)


def test_a_folder_and_a_missing_file(tmp_path):
    refused(tmp_path, "a folder. Accepted: one file", kind=FormatError)
    with pytest.raises(UsageError, match="no such file"):
        read_answers(tmp_path / "nowhere.run")
    (tmp_path / "x.run").write_text("1 Q0 1 1 1 t\n")
    with pytest.raises(UsageError, match="no format 'trek'"):
        read_answers(tmp_path / "x.run", format="trek")


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", "uint8"])
def test_a_matrix_of_vectors(tmp_path, dtype):
    np.save(tmp_path / "x.npy", numbers(3, 2, dtype))
    refused(tmp_path / "x.npy", f"a matrix of {dtype}, which are vectors and not answers", kind=FormatError)


def test_binary_files_of_vectors(tmp_path):
    for path in (
        write_vecs(tmp_path / "x.fvecs", numbers(3, 2)),
        write_xbin(tmp_path / "x.fbin", numbers(3, 2)),
    ):
        refused(path, "a matrix of float32, which are vectors and not answers", kind=FormatError)
    path = write_npz(tmp_path / "x.npz", numbers(3, 2))
    refused(path, "no answers in a file of the format npz", kind=FormatError)


@pytest.mark.parametrize(
    "array",
    [
        np.arange(3),
        np.zeros((2, 0), int),
        np.zeros((0, 2), int),
        np.zeros((2, 2, 2), int),
        np.ones((2, 2), bool),
    ],
    ids=str,
)
def test_an_array_that_is_no_matrix_of_ids(tmp_path, array):
    np.save(tmp_path / "x.npy", array)
    refused(tmp_path / "x.npy", "an array of ", kind=FormatError)


def test_a_matrix_beyond_int64(tmp_path):
    np.save(tmp_path / "x.npy", np.array([[1], [2**63]], np.uint64))
    refused(tmp_path / "x.npy", "beyond int64", row=1, kind=BadValueError)


def test_a_matrix_of_letters_that_do_not_exist(tmp_path):
    np.save(tmp_path / "x.npy", np.full((2, 2), 0x7FFFFFFF, np.uint32))
    text = (tmp_path / "x.npy").read_bytes().replace(b"'<u4'", b"'<U1'")
    (tmp_path / "x.npy").write_bytes(text)
    refused(tmp_path / "x.npy", "cannot be read as matrix of strings", kind=FormatError)


def test_a_data_set_of_ann_benchmarks(tmp_path):
    write_hdf5(tmp_path / "x.hdf5", numbers(5, 2), numbers(2, 2), distance="euclidean")
    refused(
        tmp_path / "x.hdf5", "it has 'train': a data set with its truth, not the answers", kind=FormatError
    )


def test_results_that_do_not_fit_together(tmp_path):
    path = tmp_path / "x.hdf5"
    with h5py.File(path, "w") as file:
        file.create_dataset("neighbors", data=np.ones((2, 3), int))
        file.create_dataset("distances", data=np.ones((2, 2), "float32"))
    refused(path, re.escape("(2, 3) neighbors and (2, 2) distances"), kind=FormatError)
    with h5py.File(path, "w") as file:
        file.create_dataset("distances", data=np.ones((2, 2), "float32"))
    refused(path, "it has no dataset 'neighbors'", kind=FormatError)


@pytest.mark.parametrize("name", ["x.pkl", "x.npy", "x.run", "x.csv"])
def test_a_pickle(tmp_path, name):
    (tmp_path / name).write_bytes(pickle.dumps([[1, 2]]))
    refused(tmp_path / name, "pickle, which can run code", kind=FormatError)


def test_python_objects_in_an_array(tmp_path):
    np.save(tmp_path / "x.npy", np.array([["a", "b"]], object), allow_pickle=True)
    refused(tmp_path / "x.npy", "Python objects, a pickle", kind=FormatError)


@pytest.mark.parametrize("suffix", [*TABLES, ".run", ".npy", ".hdf5"])
def test_damaged_bytes_are_an_error_or_answers(tmp_path, suffix):
    path = tmp_path / f"answers{suffix}"
    if suffix == ".npy":
        np.save(path, np.array([["a", "b"], ["c", "d"]]))
    elif suffix == ".hdf5":
        with h5py.File(path, "w") as file:
            file.create_dataset("neighbors", data=np.ones((2, 3), "int32"))
    elif suffix == ".run":
        path.write_text("q Q0 a 1 0.5 t\n" * 4)
    else:
        written(tmp_path, suffix, {"query_id": ["a", "b"], "neighbors": [["x", "y"], ["z"]], "n": [1, 2]})
    sound, generator = path.read_bytes(), np.random.default_rng(3)
    for _ in range(200):
        damaged = bytearray(sound[: generator.integers(1, len(sound) + 1)])
        damaged[generator.integers(len(damaged))] = generator.integers(256)
        path.write_bytes(damaged)
        try:
            answers = read_answers(path)
        except DataError as problem:
            assert str(path) in str(problem)
        else:
            assert answers.offsets[-1] == len(answers.ids)
            json.dumps(answers.ids.to_pylist())
