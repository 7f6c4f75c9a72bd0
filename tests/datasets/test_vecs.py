"""fvecs, bvecs and ivecs, packed number by number."""

import struct

import numpy as np
import pytest
from writers import numbers, write_vecs

import recallatk
from recallatk.errors import FormatError


@pytest.mark.parametrize(("ending", "dtype"), [("fvecs", "float32"), ("bvecs", "uint8")])
@pytest.mark.parametrize("shape", [(1, 1), (40, 6), (3, 129)])
def test_rows_behind_their_dimension_are_read(tmp_path, same, ending, dtype, shape):
    matrix = numbers(*shape, dtype)
    same(recallatk.open_corpus(write_vecs(tmp_path / f"a.{ending}", matrix)), matrix)


@pytest.mark.parametrize("dimension", [640, 896, 1152, 1408])
def test_a_dimension_whose_bytes_begin_a_pickle_is_a_dimension(tmp_path, same, dimension):
    matrix = numbers(3, dimension)
    same(recallatk.open_corpus(write_vecs(tmp_path / "a.fvecs", matrix)), matrix)


def test_ivecs_are_an_imported_truth(tmp_path):
    rows = np.array([[3, 1, 2], [0, 5, -1]], np.int32)
    path = write_vecs(tmp_path / "a.ivecs", rows)
    truth = recallatk.load_truth(path)
    np.testing.assert_array_equal(truth.rows, rows)
    assert truth.origin == "imported, not certified"
    assert (truth.scores, truth.metric, truth.eligible) == (None, None, None)
    with pytest.raises(FormatError, match=r"a\.ivecs.*int32"):
        recallatk.open_corpus(path)


@pytest.mark.parametrize("rows", [[[1, -2]], [[-1, 4]]])
def test_neighbors_below_or_after_padding_are_refused_with_their_row(tmp_path, rows):
    path = write_vecs(tmp_path / "a.ivecs", np.array([[1, 2], *rows], np.int32))
    with pytest.raises(FormatError, match=r"a\.ivecs, row 1"):
        recallatk.load_truth(path)


@pytest.mark.parametrize("ending", ["fvecs", "bvecs"])
def test_vectors_are_no_truth(tmp_path, ending):
    path = write_vecs(tmp_path / f"a.{ending}", numbers(3, 4, {"fvecs": "float32", "bvecs": "uint8"}[ending]))
    with pytest.raises(FormatError, match="no ground truth"):
        recallatk.load_truth(path)


def test_a_row_with_another_dimension_is_refused_with_row_and_byte(tmp_path, everything):
    path = write_vecs(tmp_path / "a.fvecs", numbers(20, 6))
    whole = bytearray(path.read_bytes())
    whole[11 * 28 : 11 * 28 + 4] = struct.pack("<i", 5)
    path.write_bytes(bytes(whole))
    corpus = recallatk.open_corpus(path)
    assert corpus.vectors.read(0, 11).shape == (11, 6)
    with pytest.raises(FormatError, match=r"a\.fvecs, row 11: at byte 308 .* 5 numbers.* 6"):
        everything(corpus)


@pytest.mark.parametrize("dimension", [0, -1, -(2**31), 2**31 - 1])
def test_an_impossible_first_dimension_is_refused(tmp_path, dimension):
    path = tmp_path / "a.fvecs"
    path.write_bytes(struct.pack("<i", dimension) + b"\0" * 64)
    with pytest.raises(FormatError, match=rf"a\.fvecs, row 0: at byte 0 the dimension is {dimension}"):
        recallatk.open_corpus(path)


def test_a_part_of_a_row_at_the_end_is_refused_with_its_byte(tmp_path):
    path = write_vecs(tmp_path / "a.fvecs", numbers(20, 6))
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(FormatError, match=r"a\.fvecs: 557 bytes.*25 left over at byte 532"):
        recallatk.open_corpus(path)


def test_fewer_bytes_than_a_dimension_are_refused(tmp_path):
    (tmp_path / "a.fvecs").write_bytes(b"\x01\x00")
    with pytest.raises(FormatError, match=r"a\.fvecs.*ends at byte 2"):
        recallatk.open_corpus(tmp_path / "a.fvecs")
