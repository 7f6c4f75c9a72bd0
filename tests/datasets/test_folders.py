"""Plain folders, folders of shards and patterns of shards."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from writers import numbers, write_arrow, write_npy, write_parquet, write_xbin

import recallatk
from recallatk.datasets import inspect, open_corpus, open_dataset, open_queries
from recallatk.errors import FormatError, RecallError, UsageError

MATRIX = numbers(50, 4)
WRITERS = {"parquet": write_parquet, "arrow": write_arrow}


@pytest.fixture(params=sorted(WRITERS))
def shards(request, tmp_path):
    """A folder of shards, of which one has no rows."""
    folder = tmp_path / "my shards ü"
    folder.mkdir()
    for number, rows in enumerate(np.split(np.arange(50), [7, 7, 30, 31])):
        path = folder / f"part-{number}.{request.param}"
        texts = pa.array([f"t{i}" for i in rows], pa.string())
        WRITERS[request.param](path, MATRIX[rows], id=pa.array(rows, pa.int64()), s=texts)
    return folder


def test_a_folder_and_a_pattern_of_shards_are_one_table(shards, same):
    for path in (
        shards,
        f"{shards}/",
        f"{shards}/part-*",
        f"{shards}/part-[0-9].*",
        f"{shards}/part-?.{'*'}",
    ):
        corpus = open_corpus(path)
        same(corpus, MATRIX)
        assert corpus.ids.to_pylist() == list(range(50))
        np.testing.assert_array_equal(corpus.vectors.read(5, 33), MATRIX[5:33])
        assert corpus.columns.read(["s"], 29, 32)["s"].to_pylist() == ["t29", "t30", "t31"]


def test_one_file_of_a_pattern_is_that_file(shards, same):
    same(open_corpus(f"{shards}/part-2*"), MATRIX[7:30])


def test_a_file_whose_name_is_a_pattern_is_that_file(tmp_path, same):
    same(open_corpus(write_npy(tmp_path / "a[1]*?.npy", MATRIX)), MATRIX)


def test_a_pattern_relative_to_the_working_folder(shards, same, monkeypatch):
    monkeypatch.chdir(shards)
    same(open_corpus("part-*"), MATRIX)
    same(open_corpus("."), MATRIX)
    monkeypatch.chdir(shards.parent)
    same(open_corpus("./my shards ü/*"), MATRIX)


def test_a_pattern_without_files_is_refused(shards):
    with pytest.raises(UsageError, match="no file matches"):
        open_corpus(f"{shards}/nothing-*")
    with pytest.raises(UsageError, match="no such file or folder"):
        open_corpus(f"{shards}/nowhere/part-*")


def test_hidden_files_markers_descriptions_and_folders_are_passed_over(shards, same):
    (shards / "_SUCCESS").write_text("")
    (shards / ".part-9.parquet.crc").write_text("x")
    (shards / "dataset_info.json").write_text('{"rows": 50}')
    (shards / "README.md").write_text("# Shards")
    (shards / "part-9.parquet").mkdir()
    same(open_corpus(shards), MATRIX)
    same(open_corpus(f"{shards}/part-*"), MATRIX)


@pytest.mark.parametrize(
    "bad", [{"id": pa.array(["a", "b"])}, {"id": [50, 51]}, {"id": [50, 51], "s": [1, 2]}]
)
def test_shards_with_other_columns_are_refused(shards, bad):
    kind = next(shards.iterdir()).suffix[1:]
    WRITERS[kind](shards / f"part-9.{kind}", MATRIX[:2], **bad)
    for path in (shards, f"{shards}/*"):
        with pytest.raises(FormatError, match="columns differ"):
            open_corpus(path)


def test_shards_of_another_dimension_are_refused(shards):
    kind = next(shards.iterdir()).suffix[1:]
    WRITERS[kind](shards / f"part-9.{kind}", numbers(2, 3), id=[50, 51], s=["t", "u"])
    corpus = open_corpus(shards)
    with pytest.raises(FormatError, match="3 numbers"):
        corpus.vectors.read(0, corpus.rows)


def test_files_of_several_formats_are_refused(shards):
    write_npy(shards / "part-9.npy", MATRIX)
    for path in (shards, f"{shards}/*"):
        with pytest.raises(FormatError, match=r"several formats: (arrow|npy), (npy|parquet)"):
            open_corpus(path)


def test_several_files_of_a_format_without_shards_are_refused(tmp_path):
    for name in "ab":
        write_npy(tmp_path / f"{name}.npy", MATRIX)
    with pytest.raises(FormatError, match=r"2 npy files. Accepted: one file, or arrow or parquet shards"):
        open_corpus(tmp_path)


def test_a_folder_with_one_file_is_that_file(tmp_path, same):
    write_xbin(tmp_path / "x.fbin", MATRIX)
    same(open_corpus(tmp_path), MATRIX)


def test_an_empty_shard_file_is_refused(shards):
    (shards / "part-9.parquet").write_bytes(b"")
    with pytest.raises(FormatError, match="is empty"):
        open_corpus(shards)


def test_corpus_and_queries_in_one_folder_may_be_of_any_format(tmp_path, same):
    queries = numbers(3, 4, seed=8)
    write_parquet(tmp_path / "corpus.parquet", MATRIX, id=[f"c{i}" for i in range(50)])
    (tmp_path / "queries.jsonl").write_text(
        "".join(f'{{"id": "q{i}", "text": "t", "vector": {row.tolist()}}}\n' for i, row in enumerate(queries))
    )
    (tmp_path / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\nq0\tc1\t1\n")
    dataset = open_dataset(tmp_path, metric="l2")
    same(dataset.corpus, MATRIX)
    same(dataset.queries, queries)
    assert dataset.qrels == {"q0": {"c1": 1}}
    assert dataset.queries.text_column == "text"
    found = inspect(tmp_path)
    assert (found["format"], found["rows"], found["queries"]["rows"]) == ("folder", 50, 3)
    same(open_queries(tmp_path), queries)


def test_two_files_for_one_part_are_refused(tmp_path):
    for name in ("corpus.npy", "queries.npy"):
        write_npy(tmp_path / name, MATRIX)
    write_xbin(tmp_path / "corpus.fbin", MATRIX)
    with pytest.raises(FormatError, match=r"vectors of the corpus: corpus.fbin, corpus.npy"):
        open_corpus(tmp_path)


def test_a_folder_without_vectors_is_refused(tmp_path):
    (tmp_path / "README.md").write_text("nothing")
    with pytest.raises(FormatError, match="without vector files"):
        open_corpus(tmp_path)


@pytest.mark.parametrize("format", ["beir", "folder", "vectordbbench"])
def test_formats_that_are_folders_refuse_files_and_other_folders(tmp_path, format):
    path = write_npy(tmp_path / "x.npy", MATRIX)
    for each in (path, tmp_path):
        with pytest.raises(RecallError, match=f"a folder of the format {format}"):
            open_corpus(each, format=format)


def test_a_folder_can_be_opened_as_a_named_format(tmp_path, same):
    table = pa.table({"vector": pa.array(list(MATRIX), pa.list_(pa.float32()))})
    for name, rows in (("train", slice(0, 20)), ("test", slice(20, 50))):
        pq.write_table(table[rows], tmp_path / f"{name}.parquet")
    assert recallatk.inspect(tmp_path)["format"] == "vectordbbench"
    assert open_corpus(tmp_path, format="parquet").rows == 50


@pytest.mark.parametrize("bad", [[1.0, float("nan")], [1.0, 2.0, 3.0]])
def test_a_bad_row_is_named_by_its_own_shard(tmp_path, bad):
    for number, last in enumerate([[5.0, 6.0], bad]):
        table = pa.table({"vector": [[1.0, 2.0], [3.0, 4.0], last]})
        pq.write_table(table, tmp_path / f"part-{number}.parquet")
    corpus = recallatk.open_corpus(tmp_path)
    with pytest.raises(recallatk.RecallError, match=r"part-1\.parquet, row 2: "):
        corpus.vectors.read(0, 6)


def test_shards_are_counted_as_people_count(tmp_path):
    for number in range(12):
        pq.write_table(pa.table({"vector": [[float(number), 1.0]]}), tmp_path / f"part-{number}.parquet")
    corpus = recallatk.open_corpus(tmp_path)
    assert corpus.vectors.read(0, 12)[:, 0].tolist() == list(range(12))
    assert corpus.name == str(tmp_path)
    assert recallatk.inspect(tmp_path / "part-*.parquet")["file"] == str(tmp_path / "part-*.parquet")
