"""Answers in every file that people keep them in: the ids come back as they were written."""

import csv
import json
from itertools import pairwise

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest
from writers import write_neighbors_with_distances, write_vecs, write_xbin

import recallatk
from recallatk.datasets import open_corpus, read_answers, read_truth

MATRIX = np.array([[3, 5, 7], [0, 2, -1], [9, -1, -1]])


def write_stream(path, table):
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table)


def write_jsonl(path, table):
    path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))


def write_csv(path, table):
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(table.column_names)
        for row in table.to_pylist():
            writer.writerow([json.dumps(cell) if isinstance(cell, list) else cell for cell in row.values()])


TYPED = {
    ".parquet": lambda path, table: pq.write_table(table, path),
    ".arrow": lambda path, table: pa.feather.write_feather(table, str(path)),
    ".arrows": write_stream,
}
TABLES = {**TYPED, ".jsonl": write_jsonl, ".csv": write_csv}
every_table = pytest.mark.parametrize("suffix", TABLES)
every_typed_table = pytest.mark.parametrize("suffix", TYPED)


def written(folder, suffix, columns):
    path = folder / f"answers{suffix}"
    TABLES[suffix](path, pa.table(columns))
    return path


def lists(answers):
    flat, bounds = answers.ids.to_pylist(), answers.offsets.tolist()
    return [flat[first:last] for first, last in pairwise(bounds)]


@every_table
def test_a_table_with_a_list_for_each_query(tmp_path, suffix):
    path = written(
        tmp_path,
        suffix,
        {
            "query_id": ["q2", "q0", "q1"],
            "neighbors": [["a", "b"], [], ["c", None, "a"]],
            "scores": [[0.5, 0.25], [], [1.0, None, -2.0]],
            "seconds": [0.5, 0.25, 1.5],
            "kind": ["x", "y", None],
        },
    )
    answers = read_answers(path)
    assert len(answers) == 3
    assert answers.query_ids.to_pylist() == ["q2", "q0", "q1"]
    assert lists(answers) == [["a", "b"], [], ["c", None, "a"]]
    assert answers.ids.type == answers.query_ids.type == pa.string()
    assert answers.offsets.dtype == np.int64
    np.testing.assert_array_equal(answers.scores, [0.5, 0.25, 1.0, np.nan, -2.0])
    assert answers.columns.to_pydict() == {"seconds": [0.5, 0.25, 1.5], "kind": ["x", "y", None]}
    assert answers.name == str(path)


@every_table
def test_integers_stay_integers_and_queries_may_go_by_position(tmp_path, suffix):
    answers = read_answers(written(tmp_path, suffix, {"neighbors": [[3, -1], None, [2**60 + 1]]}))
    assert lists(answers) == [[3, -1], [], [2**60 + 1]]
    assert answers.ids.type == pa.int64()
    assert (answers.query_ids, answers.scores, answers.columns) == (None, None, None)


@every_table
@pytest.mark.parametrize("query", ["query_id", "query-id", "qid"])
def test_columns_may_have_other_names(tmp_path, suffix, query):
    columns = {query: [7, 5], "neighbors_id": [[1], [2]], "distances": [[0.5], [2]]}
    answers = read_answers(written(tmp_path, suffix, columns))
    assert answers.query_ids.to_pylist() == [7, 5]
    assert lists(answers) == [[1], [2]]
    assert answers.scores.tolist() == [0.5, 2.0]
    assert answers.columns is None


@every_table
@pytest.mark.parametrize("name", ["neighbor", "id", "doc_id", "docid", "corpus_id", "corpus-id"])
def test_one_answer_a_row(tmp_path, suffix, name):
    columns = {"query_id": [4, 1, 4, 1, 4], name: ["a", "b", "c", "d", None], "score": [1.0, 2, 3, 4, 5]}
    answers = read_answers(written(tmp_path, suffix, columns))
    assert answers.query_ids.to_pylist() == [4, 1]
    assert lists(answers) == [["a", "c", None], ["b", "d"]]
    assert answers.scores.tolist() == [1.0, 3.0, 5.0, 2.0, 4.0]


@every_table
def test_ranks_order_the_answers_of_a_query_and_equal_ones_stay_in_order(tmp_path, suffix):
    columns = {"qid": ["x"] * 4 + ["y"], "neighbor": [10, 11, 12, 13, 14], "rank": [10, 2, 1, 2, 1]}
    answers = read_answers(written(tmp_path, suffix, columns))
    assert lists(answers) == [[12, 11, 13, 10], [14]]
    assert answers.scores is None


@every_typed_table
@pytest.mark.parametrize(
    "kind",
    [
        *(pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.int32(), pa.uint32(), pa.int64(), pa.uint64()),
        *(pa.float16(), pa.float32(), pa.float64()),
    ],
    ids=str,
)
def test_numbers_of_any_width_are_ids(tmp_path, suffix, kind):
    if kind == pa.float16() and suffix != ".parquet":
        kind = pa.float32()
    values = [[3, 5], [], [120, None]]
    for made in (pa.array(values, pa.list_(kind)), pa.array(values, pa.large_list(kind))):
        answers = read_answers(written(tmp_path, suffix, {"neighbors": made}))
        assert answers.ids.type == pa.int64()
        assert lists(answers) == values


@every_typed_table
@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()], ids=str)
def test_texts_of_any_layout_are_ids(tmp_path, suffix, kind):
    if pa.types.is_string_view(kind) and suffix == ".parquet":
        kind = pa.string()
    ids = pa.ListArray.from_arrays([0, 2, 3], pa.array(["a", "b", "a"], kind))
    answers = read_answers(written(tmp_path, suffix, {"neighbors": ids, "qid": pa.array(["x", "y"], kind)}))
    assert lists(answers) == [["a", "b"], ["a"]]
    assert answers.ids.type == answers.query_ids.type == pa.string()


@every_typed_table
def test_dictionaries_stand_for_their_values(tmp_path, suffix):
    columns = {
        "qid": pa.array(["x", "y"]).dictionary_encode(),
        "neighbors": pa.ListArray.from_arrays([0, 2, 3], pa.array(["a", "b", "a"]).dictionary_encode()),
        "kind": pa.array(["k", "k"]).dictionary_encode(),
    }
    answers = read_answers(written(tmp_path, suffix, columns))
    assert lists(answers) == [["a", "b"], ["a"]]
    assert answers.query_ids.to_pylist() == ["x", "y"]
    assert answers.columns.to_pydict() == {"kind": ["k", "k"]}


@every_typed_table
def test_lists_of_one_length_may_be_null(tmp_path, suffix):
    ids = pa.array([[1, 2], None, [3, 4]], pa.list_(pa.int32(), 2))
    answers = read_answers(written(tmp_path, suffix, {"neighbors": ids}))
    assert lists(answers) == [[1, 2], [], [3, 4]]


def test_list_views_are_lists(tmp_path):
    ids = pa.ListViewArray.from_arrays([2, 0, 0], [1, 2, 0], pa.array([1, 2, 3]))
    assert lists(read_answers(written(tmp_path, ".arrows", {"neighbors": ids}))) == [[3], [1, 2], []]


@every_typed_table
def test_floats_with_gaps_are_the_integers_they_were(tmp_path, suffix):
    nan = float("nan")
    columns = {"query_id": [2.0, 1.0], "neighbors": [[3.0, nan], [-1.0]], "scores": [[0.5, nan], [2.0]]}
    answers = read_answers(written(tmp_path, suffix, columns))
    assert lists(answers) == [[3, None], [-1]]
    assert answers.query_ids.to_pylist() == [2, 1]


@every_table
def test_lists_without_an_id_are_answers_too(tmp_path, suffix):
    answers = read_answers(written(tmp_path, suffix, {"query_id": [1, 2], "neighbors": [[], []]}))
    assert lists(answers) == [[], []]
    assert len(answers.ids) == 0


@every_typed_table
def test_what_is_nested_is_left_out_and_the_rest_stays(tmp_path, suffix):
    columns = {
        "neighbors": [[1], [2]],
        "vector": [[0.5], [0.25]],
        "more": [{"a": 1}, {"a": 2}],
        "on": pa.array([1, 2], pa.date32()),
        "good": [True, None],
    }
    kept = read_answers(written(tmp_path, suffix, columns)).columns
    assert kept.column_names == ["on", "good"]
    assert kept["good"].to_pylist() == [True, None]


def test_blocks_of_lines_agree_on_one_type(tmp_path, monkeypatch):
    monkeypatch.setattr("recallatk.datasets.formats.jsonl._BLOCK_BYTES", 16)
    for ids in ([[], ["a"], None, ["2020-01-01", None]], [[], [2**60 + 1], [], [None, 3]]):
        path = written(tmp_path, ".jsonl", {"neighbors": ids})
        assert lists(read_answers(path)) == [each or [] for each in ids]


def test_many_row_groups_are_one_table(tmp_path):
    ids = [[i, i + 1] for i in range(3000)]
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"neighbors": ids, "n": list(range(3000))}), path, row_group_size=700)
    answers = read_answers(path)
    assert lists(answers) == ids
    assert answers.columns["n"].to_pylist() == list(range(3000))


@pytest.mark.parametrize("dtype", ["int16", "uint16", "int32", "int64", "uint32", "uint64", ">i4", ">i8"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_a_matrix_of_integers(tmp_path, dtype, order):
    matrix = np.maximum(MATRIX, 0) if "u" in dtype else MATRIX
    np.save(tmp_path / "x.npy", np.asarray(matrix, dtype, order=order))
    answers = read_answers(tmp_path / "x.npy")
    assert lists(answers) == matrix.tolist()
    assert answers.ids.type == pa.int64()


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["<U4", ">U4"])
def test_a_matrix_of_strings(tmp_path, order, dtype):
    np.save(tmp_path / "x.npy", np.array([["a", "日本"], ["né", ""]], dtype, order=order))
    assert lists(read_answers(tmp_path / "x.npy")) == [["a", "日本"], ["né", None]]


def test_ivecs_and_ibin(tmp_path):
    for path in (
        write_vecs(tmp_path / "x.ivecs", MATRIX.astype("int32")),
        write_xbin(tmp_path / "x.ibin", MATRIX.astype("int32")),
        write_xbin(tmp_path / "wide.ibin", MATRIX.astype("int32"), wide=True),
    ):
        answers = read_answers(path)
        assert lists(answers) == MATRIX.tolist()
        assert answers.scores is None


def test_ibin_with_distances(tmp_path):
    distances = np.arange(9, dtype="float32").reshape(3, 3) / 4
    path = tmp_path / "x.ibin"
    write_neighbors_with_distances(path, MATRIX.astype("int32"), distances)
    answers = read_answers(path)
    assert lists(answers) == MATRIX.tolist()
    assert answers.scores.tolist() == distances.reshape(-1).tolist()
    path.rename(tmp_path / "x.bin")
    assert lists(read_answers(tmp_path / "x.bin", format="ibin")) == MATRIX.tolist()


@pytest.mark.parametrize("with_distances", [True, False])
def test_a_result_of_ann_benchmarks(tmp_path, with_distances):
    distances = np.where(MATRIX < 0, np.inf, 0.5).astype("float32")
    with h5py.File(tmp_path / "x.hdf5", "w") as file:
        file.attrs["algo"], file.attrs["distance"], file.attrs["count"] = "hnsw", "hamming", 3
        file.create_dataset("neighbors", data=MATRIX.astype("int32"))
        file.create_dataset("times", data=np.ones(3))
        if with_distances:
            file.create_dataset("distances", data=distances)
    answers = read_answers(tmp_path / "x.hdf5")
    assert lists(answers) == MATRIX.tolist()
    assert (answers.scores is not None) == with_distances
    if with_distances:
        assert answers.scores.tolist() == distances.reshape(-1).tolist()


def test_paths_may_have_spaces(tmp_path):
    folder = tmp_path / "my answers #1"
    folder.mkdir()
    for suffix in TABLES:
        assert lists(read_answers(written(folder, suffix, {"neighbors": [[1, 2]]}))) == [[1, 2]]
    (folder / "of today.run").write_text("1 Q0 7 1 0.5 me\n")
    assert lists(read_answers(str(folder / "of today.run"))) == [[7]]


def test_the_package_has_the_door():
    assert recallatk.read_answers is read_answers


def test_reading_answers_changes_nothing_about_vectors_and_truth(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_text('{"id": 1, "values": [1, 2]}\n')
    assert open_corpus(path).vectors.dtype == np.float32
    np.save(tmp_path / "x.npy", np.array([[1, 0]]))
    assert read_truth(tmp_path / "x.npy").rows.tolist() == [[1, 0]]
