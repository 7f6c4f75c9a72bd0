"""fbin, hbin, u8bin, i8bin and ibin, packed number by number."""

import struct

import numpy as np
import pytest
from writers import numbers, write_neighbors_with_distances, write_xbin

import recallatk
from recallatk.errors import BadValueError, FormatError, UsageError

KINDS = [("fbin", "float32"), ("hbin", "float16"), ("u8bin", "uint8"), ("i8bin", "int8")]
ROWS = np.array([[3, 1, 2], [0, 5, 4]], np.int32)
DISTANCES = np.array([[0.25, 1.0, 4.0], [0.0, 9.0, 16.0]], np.float32)


@pytest.mark.parametrize(("ending", "dtype"), KINDS)
@pytest.mark.parametrize("wide", [False, True], ids=["8-byte-header", "16-byte-header"])
@pytest.mark.parametrize("shape", [(1, 1), (1, 8), (40, 6), (8, 1)])
def test_counts_and_numbers_are_read_whichever_header(tmp_path, same, ending, dtype, wide, shape):
    matrix = numbers(*shape, dtype)
    same(recallatk.open_corpus(write_xbin(tmp_path / f"a.{ending}", matrix, wide=wide)), matrix)


@pytest.mark.parametrize("wide", [False, True])
def test_neighbors_alone_are_an_imported_truth(tmp_path, wide):
    truth = recallatk.load_truth(write_xbin(tmp_path / "a.ibin", ROWS, wide=wide), metric="cosine")
    np.testing.assert_array_equal(truth.rows, ROWS)
    assert truth.scores is None
    assert truth.origin == "imported, not certified"


@pytest.mark.parametrize("rows", [[[0, 1]], [[0], [0]], [[0, 1, 2, 3]]])
def test_small_neighbors_are_not_mistaken_for_another_layout(tmp_path, rows):
    rows = np.array(rows, np.int32)
    truth = recallatk.load_truth(write_xbin(tmp_path / "a.ibin", rows))
    np.testing.assert_array_equal(truth.rows, rows)


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize(
    ("metric", "scores"),
    [("l2", np.sqrt(DISTANCES)), ("ip", DISTANCES[:, ::-1]), (None, None)],
    ids=["l2", "ip", "none"],
)
def test_distances_after_the_neighbors_mean_what_the_metric_says(tmp_path, wide, metric, scores):
    stored = DISTANCES[:, ::-1] if metric == "ip" else DISTANCES
    path = write_neighbors_with_distances(tmp_path / "gt.ibin", ROWS, stored, wide=wide)
    truth = recallatk.load_truth(path, metric=metric)
    np.testing.assert_array_equal(truth.rows, ROWS)
    assert truth.metric == metric
    assert truth.origin == "imported, not certified"
    if scores is None:
        assert truth.scores is None
    else:
        np.testing.assert_array_equal(truth.scores, scores)


def test_distances_are_not_taken_for_cosines(tmp_path):
    path = write_neighbors_with_distances(tmp_path / "gt.ibin", ROWS, DISTANCES)
    with pytest.raises(UsageError, match=r"gt\.ibin.*squared l2 or ip"):
        recallatk.load_truth(path, metric="cosine")


def test_a_padded_neighbor_has_no_score(tmp_path):
    rows = np.array([[3, 1, -1]], np.int32)
    distances = np.array([[1.0, 4.0, np.inf]], np.float32)
    truth = recallatk.load_truth(
        write_neighbors_with_distances(tmp_path / "a.ibin", rows, distances), metric="l2"
    )
    np.testing.assert_array_equal(truth.scores, [[1.0, 2.0, np.nan]])


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_neighbor_without_a_finite_distance_is_refused_with_its_row(tmp_path, bad):
    distances = DISTANCES.copy()
    distances[1, 2] = bad
    path = write_neighbors_with_distances(tmp_path / "gt.ibin", ROWS, distances)
    with pytest.raises(BadValueError, match=rf"gt\.ibin, row 1: the distance of neighbor 2 is {bad}"):
        recallatk.load_truth(path, metric="l2")


def test_neighbors_are_no_vectors(tmp_path):
    with pytest.raises(FormatError, match=r"a\.ibin.*int32"):
        recallatk.open_corpus(write_xbin(tmp_path / "a.ibin", ROWS))


@pytest.mark.parametrize(("ending", "dtype"), KINDS)
@pytest.mark.parametrize("change", [-1, 1, 1000])
def test_a_length_that_fits_no_header_is_refused(tmp_path, ending, dtype, change):
    path = write_xbin(tmp_path / f"a.{ending}", numbers(40, 6, dtype))
    whole = path.read_bytes()
    path.write_bytes(whole[:change] if change < 0 else whole + b"x" * change)
    with pytest.raises(FormatError, match=rf"a\.{ending}.*{len(whole) + change} bytes.*40 rows, 6 columns"):
        recallatk.open_corpus(path)


@pytest.mark.parametrize("content", [b"\x01", struct.pack("<II", 0, 0), struct.pack("<QQ", 0, 4)])
def test_a_file_without_numbers_is_refused(tmp_path, content):
    (tmp_path / "a.fbin").write_bytes(content)
    with pytest.raises(FormatError, match=r"a\.fbin"):
        recallatk.open_corpus(tmp_path / "a.fbin")
    (tmp_path / "a.ibin").write_bytes(content)
    with pytest.raises(FormatError, match=r"a\.ibin"):
        recallatk.load_truth(tmp_path / "a.ibin")


def test_counts_that_begin_like_another_format_stay_counts(tmp_path, same):
    matrix = numbers(0x0280, 3)  # the first bytes of a pickle
    same(recallatk.open_corpus(write_xbin(tmp_path / "a.fbin", matrix)), matrix)
