"""What `inspect` says of a file, and that all of it is JSON."""

import json

import numpy as np
import pyarrow as pa
import pytest
from writers import numbers, write_hdf5, write_npy, write_parquet, write_vecs, write_xbin

from recallatk.datasets import inspect
from recallatk.datasets import inspection as module
from recallatk.errors import FormatError, UsageError


def look(path, **options):
    """What is found, once it is sure that it is JSON of the strict kind."""
    found = inspect(path, **options)
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    return found


def test_shape_types_columns_and_ids_are_said(tmp_path):
    ids, label = [f"r{i}" for i in range(6)], pa.array(list("aabbcc")).dictionary_encode()
    found = look(
        write_parquet(tmp_path / "x.parquet", numbers(6, 4, "float16"), id=ids, n=range(6), label=label)
    )
    assert (found["format"], found["rows"], found["dimension"], found["dtype"]) == (
        "parquet",
        6,
        4,
        "float16",
    )
    assert (found["id_column"], found["id_type"]) == ("id", "string")
    assert found["columns"] == {"n": "int64", "label": "dictionary<values=string, indices=int32, ordered=0>"}
    assert set(found["fingerprint"]) == {"vectors", "ids", "metadata"}
    assert found["file"].endswith("x.parquet")


def test_rows_without_ids_have_their_numbers(tmp_path):
    found = look(write_npy(tmp_path / "x.npy", numbers(3, 2)))
    assert (found["id_column"], found["id_type"], found["columns"], found["metric"]) == (
        None,
        "int64",
        {},
        None,
    )


def test_norms_are_those_that_numpy_computes(tmp_path):
    matrix = np.random.default_rng(0).standard_normal((50, 7)).astype(np.float32)
    matrix[:10] /= np.linalg.norm(matrix[:10], axis=1, keepdims=True)
    norms = np.linalg.norm(matrix.astype(np.float64), axis=1)
    norm = look(write_npy(tmp_path / "x.npy", matrix))["norm"]
    assert norm["min"] == pytest.approx(norms.min(), rel=1e-12)
    assert norm["max"] == pytest.approx(norms.max(), rel=1e-12)
    assert norm["mean"] == pytest.approx(norms.mean(), rel=1e-12)
    assert norm["unit_share"] == pytest.approx((abs(norms - 1) <= 1e-3).mean())


@pytest.mark.parametrize("size", [1e300, 1e-300, 1.7e308, 5e-324])
def test_very_large_and_very_small_vectors_have_norms(tmp_path, size):
    found = look(write_npy(tmp_path / "x.npy", np.full((100, 1), size)))
    assert found["norm"]["mean"] == pytest.approx(size)
    assert found["zero_vectors"] == 0


def test_zero_and_repeated_vectors_are_counted(tmp_path):
    matrix = np.arange(1, 41, dtype=np.float32).reshape(10, 4)
    matrix[[2, 5]] = 0
    matrix[5, 1] = -0.0
    matrix[[7, 8]] = matrix[0]
    found = look(write_npy(tmp_path / "x.npy", matrix))
    assert (found["zero_vectors"], found["zero_share"]) == (2, 0.2)
    assert (found["duplicate_vectors"], found["duplicate_share"]) == (5, 0.5)
    assert found["largest_duplicate_group"] == 3


def test_distinct_vectors_are_no_duplicates(tmp_path):
    found = look(write_npy(tmp_path / "x.npy", np.eye(300, dtype=np.float32) * np.float32(-1)))
    assert (found["duplicate_vectors"], found["duplicate_share"], found["largest_duplicate_group"]) == (
        0,
        0.0,
        1,
    )


@pytest.mark.parametrize("dtype", ["int8", "uint8", "float16", "float64"])
@pytest.mark.parametrize("dimension", [1, 3, 8])
def test_duplicates_are_found_in_every_type_and_width(tmp_path, dtype, dimension):
    matrix = (np.arange(1, 21)[:, None] + np.arange(dimension)).astype(dtype)
    matrix[19] = matrix[3]
    found = look(write_npy(tmp_path / "x.npy", matrix))
    assert (found["duplicate_vectors"], found["dtype"]) == (2, dtype)


def test_numbers_that_are_none_are_counted_and_not_refused(tmp_path):
    matrix = numbers(6, 4)
    matrix[1, :2] = np.nan
    matrix[1, 2] = np.inf
    matrix[4, 0] = -np.inf
    found = look(write_npy(tmp_path / "x.npy", matrix))
    assert (found["nan"], found["infinite"], found["rows_not_finite"]) == (2, 2, 2)
    assert found["norm"]["max"] == pytest.approx(
        np.linalg.norm(matrix[[0, 2, 3, 5]].astype(float), axis=1).max()
    )


def test_nothing_but_bad_numbers_has_no_norm(tmp_path):
    found = look(write_npy(tmp_path / "x.npy", np.full((3, 2), np.nan, np.float32)))
    assert found["norm"] == {"min": None, "mean": None, "max": None, "unit_share": None}


def test_bad_numbers_in_text_are_counted_too(tmp_path):
    (tmp_path / "x.jsonl").write_text('{"vector": [1, NaN]}\n{"vector": [Infinity, 2]}\n')
    (tmp_path / "x.csv").write_text("vector\n1 nan\ninf 2\n")
    for name in ("x.jsonl", "x.csv"):
        assert (look(tmp_path / name)["nan"], look(tmp_path / name)["infinite"]) == (1, 1)


def test_a_file_with_corpus_and_queries_describes_both(tmp_path):
    path = write_hdf5(
        tmp_path / "x.hdf5",
        numbers(9, 4),
        numbers(3, 4, seed=1),
        np.zeros((3, 2), np.int32),
        distance="angular",
    )
    found = look(path)
    assert (found["rows"], found["queries"]["rows"], found["metric"]) == (9, 3, "cosine")
    assert found["has_truth"]
    assert not found["has_qrels"]
    assert found["details"]["distance"] == "angular"
    assert found["queries"]["fingerprint"]["vectors"] != found["fingerprint"]["vectors"]


def test_neighbors_are_described(tmp_path):
    matrix = np.arange(12, dtype=np.int32).reshape(4, 3)
    for path in (write_vecs(tmp_path / "x.ivecs", matrix), write_xbin(tmp_path / "x.ibin", matrix)):
        found = look(path)
        assert (found["rows"], found["dimension"], found["dtype"]) == (4, 3, "int32")


def test_the_columns_can_be_named(tmp_path):
    (tmp_path / "x.jsonl").write_text('{"key": "k", "a": [1, 2], "b": [1, 2, 3]}\n')
    with pytest.raises(UsageError, match="several columns"):
        inspect(tmp_path / "x.jsonl")
    found = look(tmp_path / "x.jsonl", vector_column="b", id_column="key", format="jsonl")
    assert (found["dimension"], found["id_column"]) == (3, "key")


def test_blocks_change_nothing_and_progress_is_told(tmp_path, monkeypatch):
    path = write_npy(tmp_path / "x.npy", np.vstack([numbers(50, 4), numbers(50, 4)]))
    whole = inspect(path)
    all_blocks = module.blocks
    monkeypatch.setattr(module, "blocks", lambda vectors: all_blocks(vectors, 7 * 16))
    told = []
    assert look(path, progress=lambda done, rows: told.append((done, rows))) == whole
    assert told[0] == (7, 100)
    assert told[-1] == (100, 100)
    assert whole["duplicate_vectors"] == 100


def test_a_damaged_file_is_refused(tmp_path):
    path = write_npy(tmp_path / "x.npy", numbers(50, 4))
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(FormatError, match="truncated"):
        inspect(path)
