"""Parquet files, as pyarrow writes them."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from writers import numbers, table, vector_column, write_parquet

import recallatk
from recallatk.errors import FormatError, RecallError, UsageError

KINDS = ["list", "large_list", "fixed"]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", "uint8"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_list_column_is_read_in_its_own_type(tmp_path, same, kind, dtype):
    matrix = numbers(50, 6, dtype)
    path = write_parquet(tmp_path / "a.parquet", matrix, kind=kind, row_group_rows=20)
    same(recallatk.open_corpus(path), matrix)


@pytest.mark.parametrize("compression", ["none", "snappy", "zstd", "gzip", "lz4", "brotli"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_every_compression_and_page_version_is_read(tmp_path, same, compression, version):
    matrix = numbers(50, 6)
    options = {"compression": compression, "data_page_version": version}
    path = write_parquet(tmp_path / "a.parquet", matrix, options=options, id=list("abcde") * 10)
    same(recallatk.open_corpus(path), matrix)


@pytest.mark.parametrize(
    "ids",
    [
        pa.array(["x", "yé", "z"]),
        pa.array(["x", "yé", "z"], pa.large_string()),
        pa.array(["x", "yé", "z"]).dictionary_encode(),
        pa.array([10, 20, 30], pa.int32()),
        pa.array([10, 20, 30], pa.uint64()),
    ],
    ids=lambda ids: str(ids.type)[:12],
)
def test_ids_are_strings_or_integers(tmp_path, ids):
    corpus = recallatk.open_corpus(
        write_parquet(tmp_path / "a.parquet", numbers(3, 4), id=ids, colour=list("rgb"))
    )
    assert corpus.ids.to_pylist() == ids.to_pylist()
    assert corpus.ids.type in (pa.int64(), pa.string())
    assert corpus.metadata.to_pydict() == {"colour": ["r", "g", "b"]}


def test_without_ids_the_row_number_is_the_id(tmp_path):
    corpus = recallatk.open_corpus(write_parquet(tmp_path / "a.parquet", numbers(3, 4), colour=list("rgb")))
    assert corpus.id_column is None
    assert corpus.ids.to_pylist() == [0, 1, 2]


def test_an_id_beyond_int64_is_refused(tmp_path):
    ids = pa.array([1, 2**63], pa.uint64())
    corpus = recallatk.open_corpus(write_parquet(tmp_path / "a.parquet", numbers(2, 4), id=ids))
    with pytest.raises(RecallError, match=r"a\.parquet.*int64"):
        _ = corpus.ids


def test_columns_can_be_named(tmp_path, same):
    left, right = numbers(3, 4, seed=1), numbers(3, 5, seed=2)
    columns = {"left": vector_column(left), "right": vector_column(right), "key": list("abc")}
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    with pytest.raises(UsageError, match="left or right"):
        recallatk.open_corpus(tmp_path / "a.parquet")
    corpus = recallatk.open_corpus(tmp_path / "a.parquet", vector_column="right", id_column="key")
    same(corpus, right)
    assert corpus.ids.to_pylist() == ["a", "b", "c"]
    assert corpus.metadata_names == ["left"]
    for wrong in ({"vector_column": "key"}, {"id_column": "left"}, {"id_column": "nothing"}):
        with pytest.raises(UsageError, match=r"a\.parquet"):
            recallatk.open_corpus(tmp_path / "a.parquet", **wrong)


def test_one_giant_row_group_is_read_block_by_block(tmp_path):
    matrix = numbers(40_000, 128)
    path = write_parquet(
        tmp_path / "a.parquet", matrix, row_group_rows=40_000, options={"use_dictionary": False}
    )
    assert pq.ParquetFile(path).num_row_groups == 1
    corpus = recallatk.open_corpus(path)
    before = pa.total_allocated_bytes()
    most = 0
    for start in range(0, 40_000, 1000):
        block = corpus.vectors.read(start, start + 1000)
        most = max(most, pa.total_allocated_bytes() - before)
        np.testing.assert_array_equal(block, matrix[start : start + 1000])
    assert most < matrix.nbytes / 2


def test_shards_are_one_table_in_the_order_of_their_names(tmp_path, same):
    matrix = numbers(30, 4)
    for number in range(3):
        part = slice(number * 10, number * 10 + 10)
        write_parquet(tmp_path / f"part-{number}.parquet", matrix[part], id=list(range(30))[part])
    for path in (tmp_path, tmp_path / "part-*.parquet"):
        corpus = recallatk.open_corpus(path)
        same(corpus, matrix)
        assert corpus.ids.to_pylist() == list(range(30))


def test_a_shard_with_other_columns_is_named(tmp_path):
    write_parquet(tmp_path / "part-0.parquet", numbers(3, 4), id=[1, 2, 3])
    write_parquet(tmp_path / "part-1.parquet", numbers(3, 4), id=["a", "b", "c"])
    with pytest.raises(FormatError, match=r"part-1\.parquet.*id: string"):
        recallatk.open_corpus(tmp_path)


def test_a_shard_with_longer_vectors_is_refused_with_its_row(tmp_path, everything):
    write_parquet(tmp_path / "part-0.parquet", numbers(3, 4))
    write_parquet(tmp_path / "part-1.parquet", numbers(3, 5))
    with pytest.raises(FormatError, match=r"part-1.parquet, row 0.* 5 numbers"):
        everything(recallatk.open_corpus(tmp_path))


def test_a_table_without_vectors_is_refused_with_its_columns(tmp_path):
    pq.write_table(pa.table({"id": [1], "text": ["a"]}), tmp_path / "a.parquet")
    with pytest.raises(FormatError, match=r"a\.parquet.*id: int64, text: string"):
        recallatk.open_corpus(tmp_path / "a.parquet")


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_without_rows_is_refused(tmp_path, kind):
    pq.write_table(table(numbers(3, 4), kind).slice(0, 0), tmp_path / "a.parquet")
    with pytest.raises(FormatError, match=r"a\.parquet.*no rows"):
        recallatk.open_corpus(tmp_path / "a.parquet")


def test_two_columns_of_one_name_are_an_error_of_ours(tmp_path):
    twice = pa.Table.from_arrays(
        [pa.array([1, 2, 3]), pa.array([1, 2, 3]), vector_column(numbers(3, 4))], ["id", "id", "vector"]
    )
    pq.write_table(twice, tmp_path / "a.parquet")
    with pytest.raises(RecallError, match=r"a\.parquet.*id"):
        _ = recallatk.open_corpus(tmp_path / "a.parquet").ids


def test_text_that_is_no_utf8_is_an_error_of_ours(tmp_path):
    raw = pa.array([b"ok", b"\xff\xfe", b"ok"], pa.binary())
    text = pa.Array.from_buffers(pa.string(), 3, raw.buffers())
    path = write_parquet(tmp_path / "a.parquet", numbers(3, 4), id=[1, 2, 3], text=text)
    with pytest.raises(RecallError, match=r"a\.parquet"):
        recallatk.open_corpus(path).metadata.to_pylist()


def test_a_query_column_called_filter_is_read(tmp_path):
    path = write_parquet(
        tmp_path / "q.parquet", numbers(3, 4), filter=["n > 3", None, "n > 3"], text=list("abc")
    )
    queries = recallatk.open_queries(path)
    assert queries.text_column == "text"
    assert [each is None for each in queries.filters] == [False, True, False]


def test_an_encrypted_file_is_named_as_one(tmp_path):
    (tmp_path / "a.parquet").write_bytes(b"PARE" + b"\0" * 50 + b"PARE")
    with pytest.raises(FormatError, match=r"a\.parquet.*encrypted"):
        recallatk.open_corpus(tmp_path / "a.parquet")
