"""ann-benchmarks HDF5 files, as h5py writes them."""

import h5py
import numpy as np
import pytest
from writers import numbers, write_hdf5

import recallatk
from recallatk.datasets.conversion import convert_dataset
from recallatk.errors import BadValueError, FormatError, MismatchError, RecallError, UsageError

TRAIN, TEST = numbers(60, 6), numbers(5, 6, seed=8)
NEIGHBORS = np.arange(20).reshape(5, 4).astype(np.int32)
DISTANCES = np.linspace(0.25, 1.5, 20).reshape(5, 4).astype(np.float32)


def good(path, **changes):
    given = {"distance": "euclidean", "type": "dense", "dimension": 6, "point_type": "float", **changes}
    return write_hdf5(path, TRAIN, TEST, NEIGHBORS, DISTANCES, **given)


@pytest.mark.parametrize(
    ("distance", "metric", "scores"),
    [("euclidean", "l2", DISTANCES.astype(float)), ("angular", "cosine", 1.0 - DISTANCES.astype(float))],
    ids=["euclidean", "angular"],
)
def test_a_file_is_a_corpus_queries_a_metric_and_a_truth(tmp_path, same, distance, metric, scores):
    path = good(tmp_path / "a.hdf5", distance=distance)
    dataset = recallatk.open_dataset(path)
    same(dataset.corpus, TRAIN)
    same(dataset.queries, TEST)
    assert dataset.metric == metric
    truth = recallatk.load_truth(path)
    np.testing.assert_array_equal(truth.rows, NEIGHBORS)
    np.testing.assert_array_equal(truth.scores, scores)
    assert truth.metric == metric
    assert truth.origin == "imported, not certified"


@pytest.mark.parametrize("dtype", ["float16", "float64", "int8", "uint8", ">f4"])
@pytest.mark.parametrize("storage", [None, {"chunks": (4, 6), "compression": "gzip", "shuffle": True}])
def test_every_type_and_storage_is_read(tmp_path, same, dtype, storage):
    kind = np.dtype(dtype)
    matrix = numbers(60, 6, kind.newbyteorder("=").name)
    path = write_hdf5(tmp_path / "a.hdf5", matrix.astype(kind), TEST, storage=storage, distance="angular")
    same(recallatk.open_corpus(path), matrix)
    same(recallatk.open_queries(path), TEST)


def test_missing_attributes_are_tolerated_and_the_metric_then_stated(tmp_path):
    path = write_hdf5(tmp_path / "a.hdf5", TRAIN, TEST, NEIGHBORS, DISTANCES)
    assert recallatk.open_corpus(path).rows == 60
    with pytest.raises(UsageError, match=r"a\.hdf5.*metric"):
        recallatk.open_dataset(path)
    assert recallatk.open_dataset(path, metric="l2").metric == "l2"
    assert recallatk.load_truth(path).scores is None
    np.testing.assert_array_equal(recallatk.load_truth(path, metric="l2").scores, DISTANCES)


def test_attributes_may_be_bytes(tmp_path):
    path = good(tmp_path / "a.hdf5", distance=np.bytes_("angular"), type=b"dense")
    assert recallatk.open_dataset(path).metric == "cosine"


def test_a_metric_against_the_file_is_refused(tmp_path):
    path = good(tmp_path / "a.hdf5")
    for call in (recallatk.open_dataset, recallatk.load_truth):
        with pytest.raises(UsageError, match=r"a\.hdf5.*l2, not cosine"):
            call(path, metric="cosine")


@pytest.mark.parametrize("distance", ["hamming", "jaccard", "ip", "cosine", "normalized", ""])
def test_other_distances_are_refused_by_name(tmp_path, distance):
    path = good(tmp_path / "a.hdf5", distance=distance)
    for call in (recallatk.open_corpus, recallatk.open_dataset, recallatk.load_truth):
        with pytest.raises(FormatError, match=rf"a\.hdf5: the distance '{distance}'.*euclidean.*angular"):
            call(path)


@pytest.mark.parametrize(
    ("name", "value"), [("type", "sparse"), ("point_type", "bit"), ("point_type", "binary")]
)
def test_sparse_and_bit_points_are_refused_by_name(tmp_path, name, value):
    path = good(tmp_path / "a.hdf5", **{name: value})
    with pytest.raises(FormatError, match=rf"a\.hdf5: the attribute {name} is '{value}'"):
        recallatk.open_corpus(path)


def test_a_sparse_file_without_attributes_is_refused_by_its_shape(tmp_path):
    with h5py.File(tmp_path / "a.hdf5", "w") as file:
        file["train"] = np.arange(100)
        file["test"] = np.arange(10)
    with pytest.raises(FormatError, match=r"a\.hdf5 \(train\).*\(100,\)"):
        recallatk.open_corpus(tmp_path / "a.hdf5")


def test_neighbors_may_be_padded_at_the_end(tmp_path):
    rows, distances = NEIGHBORS.copy(), DISTANCES.copy()
    rows[2, 2:], distances[2, 2:] = -1, np.inf
    truth = recallatk.load_truth(
        write_hdf5(tmp_path / "a.hdf5", TRAIN, TEST, rows, distances, distance="euclidean")
    )
    np.testing.assert_array_equal(truth.rows, rows)
    assert np.isnan(truth.scores[2, 2:]).all()
    assert np.isfinite(truth.scores[2, :2]).all()


@pytest.mark.parametrize(("value", "place"), [(-2, (3, 3)), (-1, (3, 0)), (60, (3, 1))])
def test_neighbors_that_cannot_be_are_refused_with_their_row(tmp_path, value, place):
    rows = NEIGHBORS.copy()
    rows[place] = value
    path = write_hdf5(tmp_path / "a.hdf5", TRAIN, TEST, rows, DISTANCES, distance="euclidean")
    with pytest.raises(FormatError, match=r"a\.hdf5 \(neighbors\), row 3"):
        recallatk.load_truth(path)


def test_a_distance_that_is_no_number_is_refused_with_its_row(tmp_path):
    distances = DISTANCES.copy()
    distances[4, 1] = np.nan
    path = write_hdf5(tmp_path / "a.hdf5", TRAIN, TEST, NEIGHBORS, distances, distance="euclidean")
    with pytest.raises(BadValueError, match=r"a\.hdf5.*row 4.*nan"):
        recallatk.load_truth(path)


@pytest.mark.parametrize(
    ("neighbors", "distances"),
    [
        (NEIGHBORS[:4], DISTANCES[:4]),
        (NEIGHBORS, DISTANCES[:, :3]),
        (NEIGHBORS.astype(np.float32), DISTANCES),
    ],
    ids=["fewer queries", "fewer distances", "fractions"],
)
def test_a_truth_of_another_shape_or_type_is_refused(tmp_path, neighbors, distances):
    path = write_hdf5(tmp_path / "a.hdf5", TRAIN, TEST, neighbors, distances, distance="euclidean")
    with pytest.raises(FormatError, match=r"a\.hdf5 \(neighbors\)"):
        recallatk.load_truth(path)


def test_a_file_without_neighbors_has_no_truth(tmp_path):
    path = write_hdf5(tmp_path / "a.hdf5", TRAIN, TEST, distance="euclidean")
    with pytest.raises(FormatError, match=r"a\.hdf5.*no ground truth"):
        recallatk.load_truth(path)


@pytest.mark.parametrize("missing", ["train", "test"])
def test_a_missing_dataset_is_named_with_what_is_there(tmp_path, missing):
    path = good(tmp_path / "a.hdf5")
    with h5py.File(path, "a") as file:
        del file[missing]
        file.create_group(missing)
    with pytest.raises(FormatError, match=rf"a\.hdf5.*no dataset '{missing}'.*neighbors"):
        recallatk.open_dataset(path)


def test_queries_of_another_dimension_are_refused(tmp_path):
    path = write_hdf5(tmp_path / "a.hdf5", TRAIN, numbers(5, 7), distance="euclidean")
    with pytest.raises(MismatchError, match=r"a\.hdf5 \(train\) has 6, .*a\.hdf5 \(test\) have 7"):
        recallatk.open_dataset(path)


def test_another_hdf5_file_is_refused(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["weights"] = TRAIN
    with pytest.raises(FormatError, match=r"a\.h5.*no dataset 'train' \(it has weights\)"):
        recallatk.open_corpus(tmp_path / "a.h5")


def test_a_file_that_is_no_hdf5_is_refused_by_its_first_bytes(tmp_path):
    (tmp_path / "a.hdf5").write_bytes(b"not hdf5" * 20)
    with pytest.raises(FormatError, match=r"a\.hdf5.*not hdf5.*HDF"):
        recallatk.open_corpus(tmp_path / "a.hdf5")


def test_a_text_heap_that_would_keep_the_library_busy_for_ever_is_refused(tmp_path):
    path = good(tmp_path / "a.hdf5")
    whole = bytearray(path.read_bytes())
    heap = whole.find(b"GCOL")
    at = heap + 16
    while number := int.from_bytes(whole[at : at + 2], "little"):
        assert number < 10
        at += 16 + -(-int.from_bytes(whole[at + 8 : at + 16], "little") // 8) * 8
    whole[at + 8 : at + 16] = bytes(8)  # free space of size 0
    path.write_bytes(bytes(whole))
    with pytest.raises(FormatError, match=r"a\.hdf5"):
        recallatk.open_corpus(path)


@pytest.mark.parametrize(("metric", "distance"), [("l2", "euclidean"), ("cosine", "angular")])
def test_what_is_written_is_what_ann_benchmarks_reads(tmp_path, metric, distance):
    corpus, queries = recallatk.make_corpus(TRAIN), recallatk.make_queries(TEST)
    dataset = recallatk.open_dataset(corpus, queries, metric=metric)
    truth = recallatk.ground_truth(dataset, depth=10)
    done = convert_dataset(dataset, truth, tmp_path / "a.hdf5")
    assert (done.rows, done.dimension, done.dtype, done.format) == (60, 6, "float32", "ann-benchmarks")
    with h5py.File(tmp_path / "a.hdf5") as file:
        assert dict(file.attrs) == {
            "type": "dense",
            "distance": distance,
            "dimension": 6,
            "point_type": "float",
        }
        np.testing.assert_array_equal(file["train"][:], TRAIN)
        np.testing.assert_array_equal(file["test"][:], TEST)
        np.testing.assert_array_equal(file["neighbors"][:], truth.rows)
        expected = 1 - truth.scores if metric == "cosine" else truth.scores
        np.testing.assert_allclose(file["distances"][:], expected, rtol=1e-6, atol=1e-6)
    again = recallatk.load_truth(tmp_path / "a.hdf5")
    np.testing.assert_array_equal(again.rows, truth.rows)


def test_a_truth_without_scores_is_written_without_distances(tmp_path):
    source = write_hdf5(tmp_path / "a.hdf5", TRAIN, TEST, NEIGHBORS, distance="euclidean")
    convert_dataset(recallatk.open_dataset(source), recallatk.load_truth(source), tmp_path / "b.hdf5")
    with h5py.File(tmp_path / "b.hdf5") as file:
        assert "distances" not in file
    assert recallatk.load_truth(tmp_path / "b.hdf5").scores is None


def test_inner_products_and_lone_matrices_are_not_written(tmp_path):
    dataset = recallatk.open_dataset(recallatk.make_corpus(TRAIN), recallatk.make_queries(TEST), metric="ip")
    truth = recallatk.ground_truth(dataset, depth=5)
    with pytest.raises(UsageError, match="ip"):
        convert_dataset(dataset, truth, tmp_path / "a.hdf5")
    np.save(tmp_path / "a.npy", TRAIN)
    with pytest.raises(RecallError, match="queries"):
        recallatk.convert(tmp_path / "a.npy", tmp_path / "a.hdf5")
    assert not (tmp_path / "a.hdf5").exists()
