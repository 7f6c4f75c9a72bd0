"""Values that nothing can be measured with, and files that are none, in every binary format."""

import pickle

import numpy as np
import pyarrow as pa
import pytest
from writers import (
    numbers,
    vector_column,
    write_arrow,
    write_hdf5,
    write_npy,
    write_npz,
    write_parquet,
    write_vecs,
    write_xbin,
)

import recallatk
from recallatk.errors import BadValueError, FormatError, MismatchError, RecallError

FLOAT_FORMATS = {
    "npy": lambda folder, matrix: write_npy(folder / "a.npy", matrix),
    "npz": lambda folder, matrix: write_npz(folder / "a.npz", matrix),
    "npz compressed": lambda folder, matrix: write_npz(folder / "a.npz", matrix, compressed=True),
    "fvecs": lambda folder, matrix: write_vecs(folder / "a.fvecs", matrix),
    "fbin": lambda folder, matrix: write_xbin(folder / "a.fbin", matrix),
    "parquet": lambda folder, matrix: write_parquet(folder / "a.parquet", matrix, row_group_rows=10),
    "arrow": lambda folder, matrix: write_arrow(folder / "a.arrow", matrix, batch_rows=10),
    "stream": lambda folder, matrix: write_arrow(folder / "a.arrows", matrix, batch_rows=10, stream=True),
    "hdf5": lambda folder, matrix: write_hdf5(folder / "a.hdf5", matrix, numbers(3, matrix.shape[1])),
}
TABLES = {
    "parquet": lambda folder, **given: write_parquet(folder / "a.parquet", **given, row_group_rows=2),
    "arrow": lambda folder, **given: write_arrow(folder / "a.arrow", **given, batch_rows=2),
    "stream": lambda folder, **given: write_arrow(folder / "a.arrows", **given, batch_rows=2, stream=True),
}
every_float_format = pytest.mark.parametrize("write", FLOAT_FORMATS.values(), ids=FLOAT_FORMATS)
every_table = pytest.mark.parametrize("write", TABLES.values(), ids=TABLES)


@every_float_format
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_number_that_is_not_finite_is_refused_with_file_row_and_place(tmp_path, everything, write, bad):
    matrix = numbers(30, 5)
    matrix[23, 3] = bad
    path = write(tmp_path, matrix)
    with pytest.raises(BadValueError, match=rf"{path.name}.*row 23: {bad} at position 3.*finite"):
        everything(recallatk.open_corpus(path))


def test_numbers_that_only_add_up_to_infinity_are_accepted(tmp_path, same):
    matrix = np.full((4, 4), np.finfo(np.float64).max)
    same(recallatk.open_corpus(write_npy(tmp_path / "a.npy", matrix)), matrix)


@every_float_format
def test_a_vector_of_zeros_is_refused_under_cosine_only(tmp_path, everything, write):
    matrix = numbers(30, 5)
    matrix[17] = 0
    path = write(tmp_path, matrix)
    queries = write_npy(tmp_path / "queries.npy", numbers(4, 5))
    for metric in ("l2", "ip"):
        everything(recallatk.open_dataset(path, queries, metric=metric).corpus)
    corpus = recallatk.open_dataset(path, queries, metric="cosine").corpus
    with pytest.raises(BadValueError, match=rf"{path.name}.*row 17: a zero vector"):
        everything(corpus)


@every_float_format
def test_corpus_and_queries_of_different_dimensions_are_refused_with_both(tmp_path, write):
    path = write(tmp_path, numbers(30, 5))
    queries = write_npy(tmp_path / "queries.npy", numbers(4, 6))
    with pytest.raises(MismatchError, match=rf".*{path.name}.* has 5, .*queries\.npy have 6"):
        recallatk.open_dataset(path, queries, metric="l2")


@every_table
def test_a_repeated_id_is_refused_with_both_rows(tmp_path, write):
    path = write(tmp_path, matrix=numbers(5, 4), id=["a", "b", "c", "b", "a"])
    with pytest.raises(BadValueError, match=rf"{path.name}, column 'id', row 3: duplicate id b: row 1"):
        _ = recallatk.open_corpus(path).ids


@every_table
def test_a_missing_id_is_refused_with_its_row(tmp_path, write):
    path = write(tmp_path, matrix=numbers(5, 4), id=[1, 2, 3, None, 5])
    with pytest.raises(BadValueError, match=rf"{path.name}, column 'id', row 3: the id is null"):
        _ = recallatk.open_corpus(path).ids


def test_a_repeated_id_in_an_archive_is_refused(tmp_path):
    path = write_npz(tmp_path / "a.npz", numbers(3, 4), ids=np.array([5, 6, 5]))
    with pytest.raises(BadValueError, match=r"a\.npz.*row 2: duplicate id 5: row 0"):
        _ = recallatk.open_corpus(path).ids


@pytest.mark.parametrize(
    "kind", [pa.list_(pa.float32()), pa.large_list(pa.float32())], ids=["list", "large_list"]
)
@pytest.mark.parametrize(
    ("bad", "said"),
    [([1.0, 2.0], "2 numbers.*4"), ([1.0] * 5, "5 numbers.*4"), ([], "0 numbers.*4"), (None, "null")],
    ids=["shorter", "longer", "empty", "null"],
)
@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_a_ragged_row_is_refused_with_its_number(tmp_path, everything, ending, kind, bad, said):
    rows = numbers(30, 4).tolist()
    rows[21] = bad
    path = _write_column(tmp_path / f"a.{ending}", pa.array(rows, kind))
    with pytest.raises(FormatError, match=rf"a\.{ending}, row 21: .*{said}"):
        everything(recallatk.open_corpus(path))


@pytest.mark.parametrize("kind", [pa.list_(pa.float32()), pa.list_(pa.float32(), 4)], ids=["list", "fixed"])
@pytest.mark.parametrize("ending", ["parquet", "arrow"])
@pytest.mark.parametrize("bad", [[1.0, None, 2.0, 3.0], None], ids=["number", "vector"])
def test_what_is_null_is_refused_with_its_row(tmp_path, everything, ending, kind, bad):
    rows = numbers(30, 4).tolist()
    rows[21] = bad
    path = _write_column(tmp_path / f"a.{ending}", pa.array(rows, kind))
    with pytest.raises(FormatError, match=rf"a\.{ending}, row 21: .*null"):
        everything(recallatk.open_corpus(path))


@pytest.mark.parametrize("first", [[], None], ids=["empty", "null"])
@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_a_first_vector_without_numbers_is_refused(tmp_path, ending, first):
    path = _write_column(tmp_path / f"a.{ending}", pa.array([first, [1.0]], pa.list_(pa.float32())))
    with pytest.raises(FormatError, match=rf"a\.{ending}, row 0"):
        recallatk.open_corpus(path)


def _write_column(path, column):
    import pyarrow.parquet as pq

    table = pa.table({"vector": column})
    if path.suffix == ".parquet":
        pq.write_table(table, path, row_group_size=8)
    else:
        with pa.ipc.new_file(path, table.schema) as writer:
            writer.write_table(table, max_chunksize=8)
    return path


ENDINGS = ["npy", "npz", "fvecs", "bvecs", "ivecs", "fbin", "hbin", "u8bin", "i8bin", "ibin"]
ENDINGS += ["parquet", "arrow", "feather", "hdf5", "h5"]


@pytest.mark.parametrize("ending", ENDINGS)
def test_an_empty_file_is_refused(tmp_path, ending):
    path = tmp_path / f"a.{ending}"
    path.touch()
    for call in (recallatk.open_corpus, recallatk.open_queries, recallatk.load_truth):
        with pytest.raises(FormatError, match=rf"a\.{ending}: the file is empty"):
            call(path)


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("content", [b"x", b"<html><body>404 not found</body></html>", bytes(1000), b"\n"])
def test_another_file_under_the_name_is_refused(tmp_path, ending, content):
    path = tmp_path / f"a.{ending}"
    path.write_bytes(content)
    with pytest.raises(RecallError, match=rf"a\.{ending}"):
        recallatk.open_corpus(path)
    with pytest.raises(RecallError, match=rf"a\.{ending}"):
        recallatk.load_truth(path)


@pytest.mark.parametrize("ending", ["pkl", "pickle", "joblib", "pt", "pth", "bin", "npy", "parquet", "hdf5"])
@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_a_pickle_is_refused_and_never_loaded(tmp_path, ending, protocol):
    path = tmp_path / f"a.{ending}"
    path.write_bytes(pickle.dumps(_Trap(), protocol))
    with pytest.raises(FormatError, match=rf"a\.{ending}.*pickle"):
        recallatk.open_corpus(path)


@pytest.mark.parametrize("ending", ["fvecs", "fbin"])
def test_a_pickle_under_the_name_of_bare_numbers_is_refused(tmp_path, ending):
    path = tmp_path / f"a.{ending}"
    path.write_bytes(pickle.dumps(_Trap(), 4))
    with pytest.raises(FormatError, match=rf"a\.{ending}"):
        recallatk.open_corpus(path)


class _Trap:
    def __reduce__(self):
        return pytest.fail, ("the pickle was loaded",)


def test_a_column_of_neighbors_is_no_column_of_vectors(tmp_path):
    path = _write_column(tmp_path / "a.parquet", pa.array([[1, 2], [3, 4]], pa.list_(pa.int64())))
    with pytest.raises(FormatError, match=r"a\.parquet.*int64.*neighbor ids"):
        recallatk.open_corpus(path)


def test_a_fixed_size_list_of_nothing_is_refused(tmp_path):
    path = _write_column(tmp_path / "a.arrow", pa.array([[], []], pa.list_(pa.float32(), 0)))
    with pytest.raises(FormatError, match=r"a\.arrow.*empty"):
        recallatk.open_corpus(path)


def test_vector_columns_of_other_numbers_are_refused(tmp_path):
    path = _write_column(tmp_path / "a.parquet", pa.array([[1, 2]], pa.list_(pa.int16())))
    with pytest.raises(FormatError, match=r"a\.parquet.*int16"):
        recallatk.open_corpus(path)


def test_the_first_rows_can_be_read_before_the_damage_is_met(tmp_path):
    good = vector_column(numbers(8, 4))
    bad = pa.array([[1.0]], pa.list_(pa.float32()))
    path = _write_column(tmp_path / "a.parquet", pa.chunked_array([good, bad]))
    corpus = recallatk.open_corpus(path)
    assert corpus.vectors.read(0, 8).shape == (8, 4)
    with pytest.raises(FormatError, match="row 8"):
        corpus.vectors.read(4, 9)
    assert corpus.vectors.read(2, 6).shape == (4, 4)
