"""NPY files, as numpy writes them."""

import numpy as np
import pytest
from writers import numbers, write_npy

import recallatk
from recallatk.core import Origin
from recallatk.errors import FormatError

DTYPES = ["float16", "float32", "float64", "int8", "uint8"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_saved_array_is_read_in_its_own_type(tmp_path, same, dtype):
    matrix = numbers(50, 6, dtype)
    corpus = recallatk.open_corpus(write_npy(tmp_path / "a.npy", matrix))
    same(corpus, matrix)
    assert corpus.ids.to_pylist() == list(range(50))
    assert corpus.metadata.num_columns == 0


def test_the_byte_order_of_another_machine_is_turned(tmp_path, same):
    matrix = numbers(20, 5)
    same(recallatk.open_corpus(write_npy(tmp_path / "a.npy", matrix.astype(">f4"))), matrix)


def test_an_array_in_column_order_is_read_by_rows(tmp_path, same):
    matrix = numbers(20, 5, "float64")
    same(recallatk.open_corpus(write_npy(tmp_path / "a.npy", np.asfortranarray(matrix))), matrix)


def test_a_header_of_version_2_is_read(tmp_path, same):
    matrix = numbers(20, 5)
    with (tmp_path / "a.npy").open("wb") as file:
        np.lib.format.write_array(file, matrix, version=(2, 0))
    same(recallatk.open_corpus(tmp_path / "a.npy"), matrix)


def test_a_header_that_python_2_wrote_is_read_without_a_warning(tmp_path, same):
    matrix = numbers(20, 5)
    header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (20L, 5L), }"
    header += b" " * (117 - len(header)) + b"\n"
    path = tmp_path / "a.npy"
    path.write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + matrix.tobytes())
    same(recallatk.open_corpus(path), matrix)


def test_the_magic_tells_the_format_whatever_the_name(tmp_path, same):
    matrix = numbers(20, 5)
    write_npy(tmp_path / "a.npy", matrix).rename(tmp_path / "a.dat")
    same(recallatk.open_corpus(tmp_path / "a.dat"), matrix)


def test_opening_does_not_read_the_numbers(tmp_path):
    path = write_npy(tmp_path / "a.npy", numbers(4, 4))
    with path.open("r+b") as file:
        header = file.read(128).replace(b"(4, 4), }" + b" " * 8, b"(400000000, 4), }")
        file.seek(0)
        file.write(header)
        file.truncate(128 + 400_000_000 * 16)  # sparse: 6.4 GB of which nothing is stored
    corpus = recallatk.open_corpus(path)
    assert corpus.rows == 400_000_000
    assert not corpus.vectors.read(399_999_990, 400_000_000).any()


@pytest.mark.parametrize("shape", [(5,), (2, 3, 4), (0, 4), (4, 0), ()])
def test_what_is_no_matrix_is_refused_with_its_shape(tmp_path, shape):
    path = write_npy(tmp_path / "a.npy", np.zeros(shape, np.float32))
    with pytest.raises(FormatError) as caught:
        recallatk.open_corpus(path)
    assert "a.npy" in str(caught.value)
    assert str(shape) in str(caught.value)


@pytest.mark.parametrize("dtype", ["int16", "complex64", "bool", "U4"])
def test_other_types_are_refused_by_name(tmp_path, dtype):
    path = write_npy(tmp_path / "a.npy", np.zeros((3, 3), dtype))
    with pytest.raises(FormatError, match=r"a\.npy.*float32"):
        recallatk.open_corpus(path)


def test_objects_are_a_pickle_and_never_loaded(tmp_path):
    path = tmp_path / "a.npy"
    np.save(path, np.array([[1, None]], dtype=object), allow_pickle=True)
    with pytest.raises(FormatError, match=r"a\.npy.*pickle"):
        recallatk.open_corpus(path)


def test_neighbors_are_no_vectors(tmp_path):
    path = write_npy(tmp_path / "a.npy", np.zeros((3, 3), np.int64))
    with pytest.raises(FormatError, match=r"a\.npy.*int64.*neighbor ids"):
        recallatk.open_corpus(path)


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint32"])
def test_an_integer_matrix_is_an_imported_truth(tmp_path, dtype):
    rows = np.arange(12).reshape(4, 3).astype(dtype)
    truth = recallatk.load_truth(write_npy(tmp_path / "a.npy", rows), metric="l2")
    np.testing.assert_array_equal(truth.rows, rows)
    assert truth.origin is Origin.IMPORTED
    assert truth.origin == "imported, not certified"
    assert truth.scores is None
    assert truth.metric == "l2"


def test_vectors_are_no_truth(tmp_path):
    path = write_npy(tmp_path / "a.npy", numbers(4, 4))
    with pytest.raises(FormatError, match=r"a\.npy.*no ground truth"):
        recallatk.load_truth(path)


@pytest.mark.parametrize("change", [-1, -100, 1])
def test_a_length_that_does_not_fit_the_header_is_refused_with_both(tmp_path, change):
    path = write_npy(tmp_path / "a.npy", numbers(40, 5))
    whole = path.read_bytes()
    path.write_bytes(whole[:change] if change < 0 else whole + b"x")
    with pytest.raises(FormatError) as caught:
        recallatk.open_corpus(path)
    assert f"{len(whole) + change} bytes" in str(caught.value)
    assert str(len(whole)) in str(caught.value)
