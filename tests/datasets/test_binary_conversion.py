"""From each binary format to each: the same numbers, read back by code that is not ours."""

import struct

import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest
from writers import (
    numbers,
    write_arrow,
    write_hdf5,
    write_npy,
    write_npz,
    write_parquet,
    write_vecs,
    write_xbin,
)

import recallatk
from recallatk.errors import BadValueError, RecallError, UsageError

TYPES = {
    "fvecs": "f4",
    "bvecs": "u1",
    "ivecs": "i4",
    "fbin": "f4",
    "hbin": "f2",
    "u8bin": "u1",
    "i8bin": "i1",
}


def read_back(path):
    """The vectors of a file, by numpy, struct and pyarrow alone."""
    ending = path.suffix[1:]
    if ending == "npy":
        return np.load(path)
    if ending in ("parquet", "arrow"):
        table = pq.read_table(path) if ending == "parquet" else pa.ipc.open_file(path).read_all()
        column = table["vector"].combine_chunks()
        return column.flatten().to_numpy(zero_copy_only=False).reshape(len(column), -1)
    raw = path.read_bytes()
    kind = np.dtype("<" + {**TYPES, "ibin": "i4"}[ending])
    if ending.endswith("vecs"):
        (dimension,) = struct.unpack_from("<i", raw)
        rows = np.frombuffer(raw, np.uint8).reshape(-1, 4 + dimension * kind.itemsize)
        assert (np.ascontiguousarray(rows[:, :4]).view("<i4") == dimension).all()
        return np.ascontiguousarray(rows[:, 4:]).view(kind)
    shape = struct.unpack_from("<II", raw)
    return np.frombuffer(raw, kind, offset=8).reshape(shape)


MATRIX = numbers(45, 6)
WHOLE = numbers(45, 6, "uint8") // 2
SOURCES = {
    "npy": lambda d: write_npy(d / "in.npy", MATRIX),
    "npy-columns": lambda d: write_npy(d / "in.npy", np.asfortranarray(MATRIX)),
    "npy-big-endian": lambda d: write_npy(d / "in.npy", MATRIX.astype(">f4")),
    "npz": lambda d: write_npz(d / "in.npz", MATRIX),
    "npz-compressed": lambda d: write_npz(d / "in.npz", MATRIX, compressed=True),
    "fvecs": lambda d: write_vecs(d / "in.fvecs", MATRIX),
    "fbin": lambda d: write_xbin(d / "in.fbin", MATRIX),
    "fbin-wide": lambda d: write_xbin(d / "in.fbin", MATRIX, wide=True),
    "parquet": lambda d: write_parquet(d / "in.parquet", MATRIX, row_group_rows=10),
    "parquet-fixed": lambda d: write_parquet(d / "in.parquet", MATRIX, kind="fixed"),
    "arrow": lambda d: write_arrow(d / "in.arrow", MATRIX, batch_rows=10),
    "arrow-large": lambda d: write_arrow(d / "in.arrow", MATRIX, kind="large_list", stream=True),
    "hdf5": lambda d: write_hdf5(d / "in.hdf5", MATRIX, MATRIX[:3]),
}
NARROW_SOURCES = {
    "bvecs": lambda d: write_vecs(d / "in.bvecs", WHOLE),
    "u8bin": lambda d: write_xbin(d / "in.u8bin", WHOLE),
    "i8bin": lambda d: write_xbin(d / "in.i8bin", WHOLE.astype(np.int8)),
    "npy-uint8": lambda d: write_npy(d / "in.npy", WHOLE),
    "hbin": lambda d: write_xbin(d / "in.hbin", WHOLE.astype(np.float16)),
}


@pytest.mark.parametrize("target", ["npy", "fvecs", "fbin", "parquet", "arrow"])
@pytest.mark.parametrize("source", SOURCES)
def test_float32_goes_everywhere_unchanged(tmp_path, source, target):
    done = recallatk.convert(SOURCES[source](tmp_path), tmp_path / f"out.{target}")
    found = read_back(tmp_path / f"out.{target}")
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, MATRIX)
    assert (done.rows, done.dimension, done.dtype, done.format) == (45, 6, "float32", target)


@pytest.mark.parametrize("target", ["npy", "fvecs", "fbin", "parquet", "arrow"])
@pytest.mark.parametrize("source", NARROW_SOURCES)
def test_narrow_numbers_are_widened_without_asking(tmp_path, source, target):
    done = recallatk.convert(NARROW_SOURCES[source](tmp_path), tmp_path / f"out.{target}")
    found = read_back(tmp_path / f"out.{target}")
    np.testing.assert_array_equal(found, WHOLE)
    assert done.dtype == found.dtype.name


@pytest.mark.parametrize("dtype", ["float16", "float64", "int8", "uint8"])
@pytest.mark.parametrize("target", ["npy", "parquet", "arrow"])
def test_formats_of_any_type_keep_it(tmp_path, same, dtype, target):
    matrix = numbers(45, 6, dtype)
    recallatk.convert(write_npy(tmp_path / "in.npy", matrix), tmp_path / f"out.{target}")
    found = read_back(tmp_path / f"out.{target}")
    assert found.dtype == matrix.dtype
    np.testing.assert_array_equal(found, matrix)
    same(recallatk.open_corpus(tmp_path / f"out.{target}"), matrix)


@pytest.mark.parametrize(
    ("dtype", "target"),
    [
        ("float64", "fvecs"), ("float64", "fbin"), ("float64", "hbin"), ("float32", "hbin"),
        ("float32", "bvecs"), ("float32", "u8bin"), ("float16", "i8bin"), ("uint8", "i8bin"),
        ("int8", "u8bin"), ("int8", "bvecs"),
    ],
)  # fmt: skip
def test_a_conversion_that_could_change_a_number_needs_a_word(tmp_path, dtype, target):
    matrix = np.abs(numbers(45, 6, dtype)) % 100
    source, out = write_npy(tmp_path / "in.npy", matrix), tmp_path / f"out.{target}"
    stored = np.dtype(TYPES[target]).name
    with pytest.raises(
        UsageError, match=rf"in\.npy: {dtype} numbers would be rounded to {stored}.*--dtype {stored}"
    ):
        recallatk.convert(source, out)
    assert not out.exists()
    done = recallatk.convert(source, out, dtype=stored)
    np.testing.assert_array_equal(
        read_back(out), np.rint(matrix) if stored[0] != "f" else matrix.astype(stored)
    )
    assert done.dtype == stored


def test_rounding_goes_to_the_nearest_and_stays_in_range(tmp_path):
    matrix = np.array([[1e300, -1e300, 0.1], [300.0, -5.0, 2.5]])
    source = write_npy(tmp_path / "in.npy", matrix)
    recallatk.convert(source, tmp_path / "a.u8bin", dtype="uint8")
    np.testing.assert_array_equal(read_back(tmp_path / "a.u8bin"), [[255, 0, 0], [255, 0, 2]])
    recallatk.convert(source, tmp_path / "a.i8bin", dtype="int8")
    np.testing.assert_array_equal(read_back(tmp_path / "a.i8bin"), [[127, -128, 0], [127, -5, 2]])
    for dtype, target in (("float32", "a.fvecs"), ("float16", "a.hbin")):
        recallatk.convert(source, tmp_path / target, dtype=dtype)
        largest = np.finfo(dtype).max
        np.testing.assert_array_equal(
            read_back(tmp_path / target), np.array([[largest, -largest, 0.1], [300, -5, 2.5]], dtype)
        )


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_neighbors_at_the_edge_of_a_type_stay_within_it(tmp_path, dtype):
    matrix = np.array([[np.finfo(dtype).max, np.finfo(dtype).min]], dtype)
    recallatk.convert(write_npy(tmp_path / "in.npy", matrix), tmp_path / "a.ibin", dtype="int32")
    expected = np.clip(matrix.astype(float), -(2**31), 2**31 - 1).astype(np.int32)
    np.testing.assert_array_equal(read_back(tmp_path / "a.ibin"), expected)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_no_number_is_not_rounded(tmp_path, bad):
    matrix = numbers(5, 4)
    matrix[3, 1] = bad
    with pytest.raises(BadValueError, match=r"in\.npy, row 3"):
        recallatk.convert(write_npy(tmp_path / "in.npy", matrix), tmp_path / "a.bvecs", dtype="uint8")
    assert list(tmp_path.iterdir()) == [tmp_path / "in.npy"]


@pytest.mark.parametrize("name", ["float8", "int64", "object", ""])
def test_an_unknown_type_is_refused(tmp_path, name):
    with pytest.raises(UsageError, match="float32"):
        recallatk.convert(write_npy(tmp_path / "in.npy", MATRIX), tmp_path / "a.fvecs", dtype=name)


@pytest.mark.parametrize("target", ["npy", "ivecs", "ibin"])
@pytest.mark.parametrize("source", ["npy", "npy64", "ivecs", "ibin"])
def test_neighbors_go_everywhere_unchanged(tmp_path, source, target):
    rows = np.array([[5, 2, 1], [7, 0, -1]], np.int32)
    write = {"ivecs": write_vecs, "ibin": write_xbin}.get(source, write_npy)
    given = rows.astype(np.int64) if source == "npy64" else rows
    recallatk.convert(write(tmp_path / f"in.{source.removesuffix('64')}", given), tmp_path / f"out.{target}")
    np.testing.assert_array_equal(read_back(tmp_path / f"out.{target}"), rows)
    np.testing.assert_array_equal(recallatk.load_truth(tmp_path / f"out.{target}").rows, rows)


def test_neighbors_beyond_int32_are_not_cut(tmp_path):
    source = write_npy(tmp_path / "in.npy", np.array([[1, 2**31]]))
    with pytest.raises(UsageError, match="int32"):
        recallatk.convert(source, tmp_path / "a.ivecs")


COLUMNS = {
    "id": [f"doc{row}é" for row in range(45)],
    "n": [None if row % 7 == 0 else row for row in range(45)],
    "tags": [["a"] * (row % 3) for row in range(45)],
    "colour": pa.array(["red", "green", None] * 15).dictionary_encode(),
}


@pytest.mark.parametrize("target", ["parquet", "arrow"])
@pytest.mark.parametrize("source", ["parquet", "arrow"])
def test_ids_and_metadata_survive_between_tables(tmp_path, source, target, monkeypatch):
    for name, value in (("parquet._ROW_GROUP_ROWS", 10), ("arrow._BATCH_ROWS", 10)):
        monkeypatch.setattr(f"recallatk.datasets.formats.{name}", value)
    write = {"parquet": write_parquet, "arrow": write_arrow}[source]
    units = {"parquet": {"row_group_rows": 17}, "arrow": {"batch_rows": 17, "stream": True}}[source]
    path = write(tmp_path / f"in.{source}", MATRIX, **units, **COLUMNS)
    done = recallatk.convert(path, tmp_path / f"out.{target}")
    assert done.left_out == ()
    out = tmp_path / f"out.{target}"
    table = pq.read_table(out) if target == "parquet" else pa.ipc.open_file(out).read_all()
    for name, column in COLUMNS.items():
        assert table[name].to_pylist() == pa.array(column).to_pylist()
    np.testing.assert_array_equal(read_back(out), MATRIX)
    again = recallatk.open_corpus(out)
    assert again.ids.to_pylist() == COLUMNS["id"]
    assert again.metadata_names == ["n", "tags", "colour"]


def test_dictionaries_that_differ_from_block_to_block_are_written(tmp_path, monkeypatch):
    monkeypatch.setattr("recallatk.datasets.formats.arrow._BATCH_ROWS", 5)
    colours = pa.chunked_array(
        [pa.array(["a", "b"] * 5).dictionary_encode(), pa.array(["c", "d"] * 5).dictionary_encode()]
    )
    recallatk.convert(
        write_arrow(tmp_path / "in.arrows", MATRIX[:20], batch_rows=10, stream=True, colour=colours),
        tmp_path / "out.arrow",
    )
    assert pa.ipc.open_file(tmp_path / "out.arrow").read_all()["colour"].to_pylist() == colours.to_pylist()


@pytest.mark.parametrize("target", ["npy", "fvecs", "fbin"])
def test_what_a_format_has_no_place_for_is_said(tmp_path, target):
    done = recallatk.convert(
        write_parquet(tmp_path / "in.parquet", MATRIX, **COLUMNS), tmp_path / f"out.{target}"
    )
    assert done.left_out == ("id", "n", "tags", "colour")


def test_without_ids_row_numbers_are_written_as_ids(tmp_path):
    recallatk.convert(write_npy(tmp_path / "in.npy", MATRIX), tmp_path / "out.parquet")
    assert pq.read_table(tmp_path / "out.parquet")["id"].to_pylist() == list(range(45))


def test_a_column_that_parquet_cannot_hold_is_an_error_of_ours(tmp_path):
    odd = pa.array([(1, 2, 3)] * 45, pa.month_day_nano_interval())
    with pytest.raises(RecallError, match=r"in\.arrow.*parquet"):
        recallatk.convert(write_arrow(tmp_path / "in.arrow", MATRIX, odd=odd), tmp_path / "out.parquet")
    assert not (tmp_path / "out.parquet").exists()


def test_the_queries_of_a_file_can_be_chosen(tmp_path):
    path = write_hdf5(tmp_path / "in.hdf5", MATRIX, MATRIX[7:10])
    recallatk.convert(path, tmp_path / "out.npy", part="queries")
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), MATRIX[7:10])
    with pytest.raises(UsageError, match="corpus or queries"):
        recallatk.convert(path, tmp_path / "out.npy", part="neighbors")


def test_a_file_can_be_converted_onto_itself(tmp_path):
    path = write_npy(tmp_path / "a.npy", MATRIX.astype(">f4"))
    recallatk.convert(path, path)
    np.testing.assert_array_equal(np.load(path), MATRIX)


def test_a_bad_source_leaves_the_target_as_it_was(tmp_path):
    source = write_vecs(tmp_path / "in.fvecs", MATRIX)
    whole = bytearray(source.read_bytes())
    whole[28 * 40 : 28 * 40 + 4] = bytes(4)
    source.write_bytes(bytes(whole))
    target = write_npy(tmp_path / "out.npy", MATRIX[:2])
    with pytest.raises(RecallError, match="row 40"):
        recallatk.convert(source, target)
    np.testing.assert_array_equal(np.load(target), MATRIX[:2])
    assert sorted(tmp_path.iterdir()) == [source, target]


def test_an_ending_that_cannot_be_written_is_refused_before_anything_is_read(tmp_path):
    with pytest.raises(UsageError, match=r"out\.xyz.*\.parquet"):
        recallatk.convert(tmp_path / "missing.npy", tmp_path / "out.xyz")
