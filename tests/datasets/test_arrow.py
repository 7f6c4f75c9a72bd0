"""Arrow files and streams and Feather, as pyarrow writes them."""

import warnings

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.ipc
import pytest
from writers import numbers, table, vector_column, write_arrow

import recallatk
from recallatk.errors import FormatError, RecallError

KINDS = ["list", "large_list", "fixed"]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", "uint8"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("stream", [False, True], ids=["file", "stream"])
def test_every_kind_of_list_column_is_read_in_its_own_type(tmp_path, same, kind, dtype, stream):
    matrix = numbers(50, 6, dtype)
    ids = [f"doc{row}" for row in range(50)]
    path = write_arrow(
        tmp_path / "a.arrow", matrix, kind=kind, batch_rows=20, stream=stream, id=ids, n=list(range(50))
    )
    corpus = recallatk.open_corpus(path)
    same(corpus, matrix)
    assert corpus.ids.to_pylist() == ids
    assert corpus.metadata.to_pydict() == {"n": list(range(50))}


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
@pytest.mark.parametrize("stream", [False, True], ids=["file", "stream"])
def test_compressed_batches_are_read(tmp_path, same, compression, stream):
    matrix = numbers(500, 6)
    path = write_arrow(tmp_path / "a.arrow", matrix, batch_rows=200, compression=compression, stream=stream)
    same(recallatk.open_corpus(path), matrix)


@pytest.mark.parametrize("compression", ["lz4", "uncompressed"])
def test_feather_is_read(tmp_path, same, compression):
    matrix = numbers(50, 6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # newer versions of Arrow say that Feather is Arrow IPC
        pa.feather.write_feather(table(matrix), tmp_path / "a.feather", compression=compression, chunksize=20)
    same(recallatk.open_corpus(tmp_path / "a.feather"), matrix)


def test_feather_version_1_is_refused_by_name(tmp_path):
    (tmp_path / "a.feather").write_bytes(b"FEA1" + b"\0" * 40 + b"FEA1")
    with pytest.raises(FormatError, match=r"a\.feather.*version 1"):
        recallatk.open_corpus(tmp_path / "a.feather")


def test_ids_from_a_dictionary_are_read(tmp_path):
    ids = pa.array(["x", "y", "z"])
    path = write_arrow(tmp_path / "a.arrow", numbers(3, 4), id=ids.dictionary_encode())
    assert recallatk.open_corpus(path).ids.to_pylist() == ["x", "y", "z"]


def test_one_giant_batch_is_read_block_by_block(tmp_path):
    matrix = numbers(40_000, 64)
    path = write_arrow(tmp_path / "a.arrow", matrix, kind="fixed", batch_rows=40_000)
    with pa.ipc.open_file(path) as reader:
        assert reader.num_record_batches == 1
    corpus = recallatk.open_corpus(path)
    before = pa.total_allocated_bytes()
    for start in range(0, 40_000, 1000):
        block = corpus.vectors.read(start, start + 1000)
        np.testing.assert_array_equal(block, matrix[start : start + 1000])
        assert pa.total_allocated_bytes() - before < matrix.nbytes / 4


def test_a_batch_larger_than_a_block_is_read_in_pieces(tmp_path, same, monkeypatch):
    monkeypatch.setattr("recallatk.datasets.formats.arrow.BLOCK_BYTES", 1000)
    matrix = numbers(300, 6)
    for compression in (None, "lz4"):
        path = write_arrow(tmp_path / f"{compression}.arrow", matrix, compression=compression)
        same(recallatk.open_corpus(path), matrix)


def test_empty_batches_between_others_are_passed_over(tmp_path, same):
    matrix = numbers(30, 4)
    whole = table(matrix)
    with pa.ipc.new_file(tmp_path / "a.arrow", whole.schema) as writer:
        for start, stop in ((0, 0), (0, 10), (10, 10), (10, 30), (30, 30)):
            rows = whole.slice(start, stop - start).to_pylist()
            writer.write_batch(pa.RecordBatch.from_pylist(rows, whole.schema))
    same(recallatk.open_corpus(tmp_path / "a.arrow"), matrix)


def test_shards_are_one_table(tmp_path, same):
    matrix = numbers(30, 4)
    write_arrow(tmp_path / "a-0.arrow", matrix[:10], batch_rows=4)
    write_arrow(tmp_path / "a-1.arrow", matrix[10:], batch_rows=7)
    same(recallatk.open_corpus(tmp_path / "a-*.arrow"), matrix)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("stream", [False, True], ids=["file", "stream"])
def test_a_table_without_rows_is_refused(tmp_path, kind, stream):
    schema = table(numbers(3, 4), kind).schema
    with (pa.ipc.new_stream if stream else pa.ipc.new_file)(tmp_path / "a.arrow", schema):
        pass
    with pytest.raises(FormatError, match=r"a\.arrow.*no rows"):
        recallatk.open_corpus(tmp_path / "a.arrow")


def test_a_table_without_columns_is_refused(tmp_path):
    with pa.ipc.new_file(tmp_path / "a.arrow", pa.schema([])):
        pass
    with pytest.raises(FormatError, match=r"a\.arrow.*no columns"):
        recallatk.open_corpus(tmp_path / "a.arrow")


def test_offsets_that_lead_outside_are_refused_and_not_followed(tmp_path, everything):
    good = write_arrow(tmp_path / "a.arrow", numbers(1, 4)).read_bytes()
    damaged = good.replace(np.array([0, 4], "<i4").tobytes(), np.array([2**30, 2**30 + 4], "<i4").tobytes())
    assert damaged != good
    (tmp_path / "a.arrow").write_bytes(damaged)
    with pytest.raises(RecallError, match=r"a\.arrow"):
        everything(recallatk.open_corpus(tmp_path / "a.arrow"))


def test_text_that_is_no_utf8_is_an_error_of_ours(tmp_path):
    raw = pa.array([b"ok", b"\xff\xfe", b"ok"], pa.binary())
    text = pa.Array.from_buffers(pa.string(), 3, raw.buffers())
    corpus = recallatk.open_corpus(write_arrow(tmp_path / "a.arrow", numbers(3, 4), id=text))
    with pytest.raises(RecallError, match=r"a\.arrow"):
        _ = corpus.ids


def test_a_column_name_that_is_no_utf8_is_an_error_of_ours(tmp_path):
    path = write_arrow(tmp_path / "a.arrow", numbers(3, 4), colour=list("abc"))
    path.write_bytes(path.read_bytes().replace(b"colour", b"col\xff\xfer"))
    with pytest.raises(FormatError, match=r"a\.arrow"):
        recallatk.open_corpus(path)


def test_an_arrow_file_without_its_end_is_refused(tmp_path):
    path = write_arrow(tmp_path / "a.arrow", numbers(30, 4))
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(FormatError, match=r"a\.arrow.*end"):
        recallatk.open_corpus(path)


def test_several_vector_columns_have_to_be_chosen_from(tmp_path, same):
    left, right = numbers(3, 4, seed=1), numbers(3, 5, seed=2)
    made = pa.table({"left": vector_column(left), "right": vector_column(right)})
    with pa.ipc.new_file(tmp_path / "a.arrow", made.schema) as writer:
        writer.write_table(made)
    same(recallatk.open_corpus(tmp_path / "a.arrow", vector_column="right"), right)
