"""Sparse vectors: one matrix from files, Arrow columns and scipy, and every kind of damage with its place."""

import struct

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import coo_array, csc_array, csr_array, csr_matrix

from recallatk.datasets.sparse_vectors import (
    column_vectors,
    is_sparse,
    matrix_vectors,
    query_pairs,
    read_csr,
    write_csr,
)
from recallatk.errors import BadValueError, FormatError, UsageError

DENSE = np.array([[0, 1.5, 0, -2], [0, 0, 0, 0], [4, 0, 0.25, 0]])


def packed(rows, terms, offsets, indices, values, entries=None):
    """A file, packed field by field as the format says."""
    entries = len(indices) if entries is None else entries
    return (
        struct.pack("<3q", rows, terms, entries)
        + struct.pack(f"<{len(offsets)}q", *offsets)
        + struct.pack(f"<{len(indices)}i", *indices)
        + struct.pack(f"<{len(values)}f", *values)
    )


def refused(tmp_path, content, message, error=FormatError):
    (tmp_path / "bad.csr").write_bytes(content)
    with pytest.raises(error, match=message) as problem:
        read_csr(tmp_path / "bad.csr")
    assert "bad.csr" in str(problem.value)


def test_a_file_packed_by_hand(tmp_path):
    content = packed(3, 4, [0, 2, 2, 4], [1, 3, 2, 0], [1.5, -2, 0.25, 4])
    (tmp_path / "a.csr").write_bytes(content)
    found = read_csr(tmp_path / "a.csr")
    assert found.toarray().tolist() == DENSE.tolist()
    assert found.dtype == np.float64
    assert found.has_sorted_indices


vectors = st.lists(
    st.dictionaries(st.integers(0, 9), st.floats(-(2.0**99), 2.0**99, width=32).filter(bool), max_size=6),
    min_size=1,
    max_size=6,
)


@given(vectors)
def test_every_form_gives_the_same_matrix(tmp_path, lists):
    dense = np.zeros((len(lists), 10))
    for row, each in enumerate(lists):
        for term, weight in each.items():
            dense[row, term] = weight
    write_csr(csr_array(dense), tmp_path / "a.csr")
    pairs = [list(each.items()) for each in lists]
    halves = [{"indices": list(each), "values": list(each.values())} for each in lists]
    entries = [[{"index": term, "value": weight} for term, weight in each] for each in pairs]
    lists_of = pa.struct([("indices", pa.list_(pa.uint32())), ("values", pa.large_list(pa.float32()))])
    entry = pa.list_(pa.struct([("index", pa.int32()), ("value", pa.float64())]))
    forms = [
        read_csr(tmp_path / "a.csr"),
        matrix_vectors(csc_array(dense)),
        matrix_vectors(csr_matrix(dense)),
        column_vectors(pa.chunked_array([pa.array(pairs, pa.map_(pa.int16(), pa.float32()))]), "x", 10),
        column_vectors(pa.chunked_array([pa.array(halves, lists_of)]), "x", 10),
        column_vectors(
            pa.chunked_array([pa.array(entries[:1], entry), pa.array(entries[1:], entry)]), "x", 10
        ),
    ]
    for form in forms:
        assert form.toarray().tolist() == dense.tolist()
        assert [dict(each) for each in query_pairs(form)] == lists


def test_null_cells_are_vectors_without_terms():
    found = column_vectors(
        pa.chunked_array([pa.array([None, [(3, 1.0)]], pa.map_(pa.int32(), pa.float32()))]), "x"
    )
    assert found.toarray().tolist() == [[0, 0, 0, 0], [0, 0, 0, 1]]
    structs = pa.array([{"indices": [1], "values": [2.0]}, None, {"indices": None, "values": None}])
    assert column_vectors(pa.chunked_array([structs]), "x").toarray().tolist() == [[0, 2], [0, 0], [0, 0]]
    assert column_vectors(pa.chunked_array([structs.slice(1)]), "x").shape == (2, 0)


def test_zeros_are_no_entries():
    found = column_vectors(
        pa.chunked_array([pa.array([[(3, 0.0), (1, 2.0)]], pa.map_(pa.int32(), pa.float32()))]), "x"
    )
    assert found.nnz == 1
    assert query_pairs(found) == [[(1, 2.0)]]


def test_repeated_entries_of_a_scipy_matrix_are_added_up():
    given_matrix = coo_array(([1.0, 2.0, 5.0], ([0, 0, 1], [2, 2, 0])), shape=(2, 3))
    assert matrix_vectors(given_matrix).toarray().tolist() == [[0, 0, 3], [5, 0, 0]]
    unsorted = csr_array((np.array([1.0, 2.0]), np.array([2, 0]), np.array([0, 2])), shape=(1, 3))
    assert matrix_vectors(unsorted).indices.tolist() == [0, 2]
    assert unsorted.indices.tolist() == [2, 0]
    with pytest.raises(FormatError, match=r"a ndarray. Accepted: a sparse matrix of scipy"):
        matrix_vectors(DENSE)


def test_truncated_and_longer_files_are_refused(tmp_path):
    content = packed(2, 4, [0, 1, 2], [1, 3], [1.0, 2.0])
    for end in range(len(content)):
        refused(tmp_path, content[:end], "bytes")
    refused(tmp_path, content + b"x", f"{len(content) + 1} bytes, where the header promises {len(content)}")
    with pytest.raises(UsageError, match=r"missing\.csr"):
        read_csr(tmp_path / "missing.csr")


def test_impossible_headers_and_rows_are_refused(tmp_path):
    refused(tmp_path, packed(-1, 4, [], [], []), "the header says -1 rows, 4 terms and 0 entries")
    refused(tmp_path, packed(2, 4, [0, 1, 2], [1, 3], [1.0, 2.0], entries=1 << 60), "promises")
    refused(tmp_path, packed(2, 4, [1, 1, 2], [1, 3], [1.0, 2.0]), "begin at entry 1 and end at 2")
    refused(tmp_path, packed(2, 4, [0, 1, 1], [1, 3], [1.0, 2.0]), "begin at entry 0 and end at 1")
    refused(
        tmp_path,
        packed(3, 4, [0, 2, 1, 2], [1, 3], [1.0, 2.0]),
        "row 1: the row begins at entry 2 and ends at 1",
    )


def test_impossible_entries_are_refused_with_their_row(tmp_path):
    for term in (-1, 4):
        content = packed(3, 4, [0, 1, 1, 2], [1, term], [1.0, 2.0])
        refused(tmp_path, content, f"row 2: the term {term}. Accepted: terms from 0 to 3", BadValueError)
    for weight in (float("nan"), float("inf"), float("-inf")):
        content = packed(3, 4, [0, 1, 1, 2], [1, 3], [1.0, weight])
        refused(tmp_path, content, f"row 2: the weight {weight} of term 3", BadValueError)
    content = packed(2, 4, [0, 1, 3], [1, 1, 1], [1.0, 2.0, 3.0])
    refused(tmp_path, content, "row 1: the term 1 twice", BadValueError)


@pytest.mark.parametrize(
    ("cells", "kind", "message"),
    [
        ([[(1, 1.0)], [(2, None)]], pa.map_(pa.int32(), pa.float32()), "row 1: a weight is null"),
        ([[(1, 1.0)], [(-2, 1.0)]], pa.map_(pa.int32(), pa.float32()), "row 1: the term -2"),
        ([[(1, 1.0), (1, 2.0)]], pa.map_(pa.int32(), pa.float32()), "row 0: the term 1 twice"),
        ([[(1, float("nan"))]], pa.map_(pa.int32(), pa.float32()), "row 0: the weight nan of term 1"),
        ([[None, {"index": 1, "value": 1.0}]], None, "row 0: a term is null"),
        ([{"indices": [1], "values": [1.0, 2.0]}], None, "row 0: 1 indices and 2 values"),
        ([{"indices": [1, None], "values": [1.0, 2.0]}], None, "row 0: a term is null"),
        (
            [[(2**64 - 1, 1.0)]],
            pa.map_(pa.uint64(), pa.float32()),
            "cannot be read as column of sparse vectors",
        ),
    ],
)
def test_impossible_cells_are_refused_with_their_row(cells, kind, message):
    with pytest.raises((BadValueError, FormatError), match=f"corpus, column 'terms'.*{message}"):
        column_vectors(pa.chunked_array([pa.array(cells, kind)]), "corpus, column 'terms'")


def test_only_sparse_types_are_sparse():
    sparse = [
        pa.map_(pa.int32(), pa.float16()),
        pa.struct([("values", pa.list_(pa.float64())), ("indices", pa.list_(pa.int64()))]),
        pa.large_list(pa.struct([("index", pa.uint8()), ("value", pa.int32())])),
    ]
    others = [
        pa.map_(pa.string(), pa.float32()),
        pa.struct([("values", pa.list_(pa.float64())), ("indices", pa.list_(pa.string()))]),
        pa.struct([("values", pa.float64()), ("indices", pa.int64())]),
        pa.struct([("indices", pa.list_(pa.int64()))]),
        pa.list_(pa.struct([("index", pa.float32()), ("value", pa.float32())])),
        pa.list_(pa.float32()),
        pa.float32(),
        pa.string(),
    ]
    assert all(map(is_sparse, sparse))
    assert not any(map(is_sparse, others))
    with pytest.raises(FormatError, match=r"a column of string. Accepted: a struct of the lists"):
        column_vectors(pa.chunked_array([pa.array(["x"])]), "x")
