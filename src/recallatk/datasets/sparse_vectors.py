"""Sparse vectors from big-ann files, Arrow columns and scipy matrices, as one checked CSR matrix."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recallatk.errors import BadValueError, FormatError, kind_of
from recallatk.files import atomic_file, locate, read_exactly, reading

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from scipy.sparse import csr_array

    from recallatk.files import PathLike

    SparseMatrix: TypeAlias = csr_array[np.float64, tuple[int, int]]

_HEADER_BYTES = 24
_WHOLE, _TERM, _WEIGHT = np.dtype("<i8"), np.dtype("<i4"), np.dtype("<f4")
_COLUMN_TYPES = (
    "a struct of the lists indices and values, a map from whole numbers to numbers, "
    "or a list of structs of index and value"
)


def read_csr(path: PathLike) -> SparseMatrix:
    """The sparse vectors of a big-ann `.csr` file.

    The file holds, little-endian: rows, terms and entries as int64, the start of each row and the end of the
    last one as int64, the term of each entry as int32, and its weight as float32.
    """
    location = locate(path)
    where = location.text
    rows, terms, entries = np.frombuffer(read_exactly(location, 0, _HEADER_BYTES), _WHOLE).tolist()
    if min(rows, terms, entries) < 0:
        raise FormatError(
            where, f"the header says {rows} rows, {terms} terms and {entries} entries", "counts from 0 on"
        )
    starts = _HEADER_BYTES + _WHOLE.itemsize * (rows + 1)
    expected = starts + (_TERM.itemsize + _WEIGHT.itemsize) * entries
    if location.size != expected:
        raise FormatError(
            where,
            f"{location.size} bytes, where the header promises {expected}",
            f"a complete file of {rows} rows with {entries} entries",
        )
    offsets = np.frombuffer(read_exactly(location, _HEADER_BYTES, starts - _HEADER_BYTES), _WHOLE)
    _check_offsets(offsets, entries, where)
    found = np.frombuffer(read_exactly(location, starts, _TERM.itemsize * entries), _TERM)
    weights = np.frombuffer(
        read_exactly(location, starts + found.nbytes, _WEIGHT.itemsize * entries), _WEIGHT
    )
    return _checked(offsets, found, weights, terms, where)


def write_csr(vectors: Any, path: PathLike) -> None:
    """Write a sparse matrix of scipy as a big-ann `.csr` file; weights become float32."""
    matrix = matrix_vectors(vectors)
    header = np.array([*matrix.shape, matrix.nnz], _WHOLE)
    parts = (header, matrix.indptr.astype(_WHOLE), matrix.indices.astype(_TERM), matrix.data.astype(_WEIGHT))
    with atomic_file(path) as scratch:
        scratch.write_bytes(b"".join(part.tobytes() for part in parts))


def matrix_vectors(vectors: Any, where: str = "sparse vectors") -> SparseMatrix:
    """A sparse matrix of scipy, of any layout, in the form of all others; repeated entries are added up."""
    from scipy.sparse import issparse

    given: Any = vectors
    if not issparse(vectors):
        raise FormatError(where, kind_of(vectors), "a sparse matrix of scipy")
    if given.ndim != 2:
        raise FormatError(where, f"a sparse array of shape {given.shape}", "one row per vector")
    matrix = given.tocsr().astype(np.float64, copy=True)
    matrix.sum_duplicates()
    return _checked(matrix.indptr, matrix.indices, matrix.data, matrix.shape[1], where)


def is_sparse(kind: pa.DataType) -> bool:
    """Whether columns of this type hold sparse vectors."""
    types = pa.types
    if types.is_map(kind):
        return types.is_integer(kind.key_type) and _is_number(kind.item_type)
    if types.is_struct(kind):
        return (
            _has(kind, "indices", "values")
            and all(_is_list(kind.field(i).type) for i in range(2))
            and (
                types.is_integer(kind.field("indices").type.value_type)
                and _is_number(kind.field("values").type.value_type)
            )
        )
    if _is_list(kind) and types.is_struct(kind.value_type):
        pair = kind.value_type
        return (
            _has(pair, "index", "value")
            and types.is_integer(pair.field("index").type)
            and _is_number(pair.field("value").type)
        )
    return False


def column_vectors(column: pa.ChunkedArray, where: str, terms: int | None = None) -> SparseMatrix:
    """The sparse vectors of an Arrow column; a null cell is a vector without terms.

    Args:
        column: struct of `indices` and `values`, map, or list of structs of `index` and `value`.
        where: file and column, for messages.
        terms: number of terms; default: the largest term of the column, plus 1.
    """
    kind = column.type
    if not is_sparse(kind):
        raise FormatError(where, f"a column of {kind}", _COLUMN_TYPES)
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if pa.types.is_struct(kind):
        offsets, indices = _flat(_child(whole, "indices"))
        ends, values = _flat(_child(whole, "values"))
        differ = np.flatnonzero(np.diff(offsets) != np.diff(ends))
        if len(differ):
            row = int(differ[0])
            counts = f"{np.diff(offsets)[row]} indices and {np.diff(ends)[row]} values"
            raise BadValueError(where, counts, "one value per index", row=row)
    elif pa.types.is_map(kind):
        entry = pa.struct([("index", kind.key_type), ("value", kind.item_type)])
        offsets, pairs = _flat(whole.cast(pa.large_list(entry)))
        indices, values = pairs.field("index"), pairs.field("value")
    else:
        offsets, pairs = _flat(whole)
        indices, values = _child(pairs, "index"), _child(pairs, "value")
    _check_filled(offsets, indices, values, where)
    with reading(where, "column of sparse vectors"):  # a term beyond int64
        found = np.asarray(indices.cast(pa.int64()).to_numpy(zero_copy_only=False), np.int64)
    weights = np.asarray(values.to_numpy(zero_copy_only=False), np.float64)
    count = int(found.max(initial=-1)) + 1 if terms is None else terms
    return _checked(offsets, found, weights, count, where)


def sparse_column(vectors: SparseMatrix) -> pa.Array:
    """Sparse vectors as an Arrow column that `column_vectors` reads."""
    offsets = pa.array(vectors.indptr, pa.int64())
    indices = pa.LargeListArray.from_arrays(offsets, pa.array(vectors.indices, pa.int64()))
    values = pa.LargeListArray.from_arrays(offsets, pa.array(vectors.data, pa.float64()))
    return pa.StructArray.from_arrays([indices, values], ["indices", "values"])


def query_pairs(vectors: SparseMatrix) -> list[list[tuple[int, float]]]:
    """Each vector as (term, weight) pairs, the form in which a query batch carries sparse queries."""
    terms, weights = vectors.indices.tolist(), vectors.data.tolist()
    ends = vectors.indptr.tolist()
    return [list(zip(terms[start:stop], weights[start:stop], strict=True)) for start, stop in pairwise(ends)]


def _checked(
    offsets: NDArray[Any], terms: NDArray[Any], weights: NDArray[Any], count: int, where: str
) -> SparseMatrix:
    """The CSR matrix in float64 with terms in order and without zeros; impossible entries are refused."""
    from scipy.sparse import csr_array

    for wrong, found, accepted in (
        ((terms < 0) | (terms >= count), "the term {term}", f"terms from 0 to {count - 1}"),
        (~np.isfinite(weights), "the weight {weight} of term {term}", "finite weights"),
    ):
        if wrong.any():
            place = int(np.argmax(wrong))
            said = found.format(term=terms[place], weight=weights[place])
            raise BadValueError(where, said, accepted, row=_row(offsets, place))
    matrix = csr_array(
        (weights.astype(np.float64), terms, offsets), shape=(len(offsets) - 1, count), copy=True
    )
    matrix.sort_indices()
    again = np.flatnonzero(np.diff(matrix.indices) == 0) + 1
    # The first entry of a row may repeat the last one of the row before.
    again = again[~np.isin(again, matrix.indptr)]
    if len(again):
        row = _row(matrix.indptr, int(again[0]))
        raise BadValueError(where, f"the term {matrix.indices[again[0]]} twice", "each term once", row=row)
    matrix.eliminate_zeros()
    return matrix


def _row(offsets: NDArray[Any], entry: int) -> int:
    return int(np.searchsorted(offsets, entry, side="right")) - 1


def _check_offsets(offsets: NDArray[np.int64], entries: int, where: str) -> None:
    if offsets[0] != 0 or offsets[-1] != entries:
        raise FormatError(
            where,
            f"the rows begin at entry {offsets[0]} and end at {offsets[-1]}",
            f"rows from entry 0 to {entries}",
        )
    falling = np.diff(offsets) < 0
    if falling.any():
        row = int(np.argmax(falling))
        raise FormatError(
            where,
            f"the row begins at entry {offsets[row]} and ends at {offsets[row + 1]}",
            "rows that end where they begin or later",
            row=row,
        )


def _check_filled(offsets: NDArray[np.int64], indices: pa.Array, values: pa.Array, where: str) -> None:
    for name, each in (("term", indices), ("weight", values)):
        if each.null_count:
            place = int(np.argmin(each.is_valid().to_numpy(zero_copy_only=False)))
            raise BadValueError(
                where, f"a {name} is null", f"a {name} in every entry", row=_row(offsets, place)
            )


def _flat(lists: pa.Array) -> tuple[NDArray[np.int64], pa.Array]:
    """Where each list begins and the last one ends, and all elements; null lists are empty."""
    lengths = np.asarray(pc.list_value_length(lists).fill_null(0), np.int64)
    return np.concatenate([[0], np.cumsum(lengths)]), lists.drop_null().flatten()


def _child(structs: pa.Array, name: str) -> pa.Array:
    """One field of a struct column, null where the struct is."""
    return pc.struct_field(structs, name)


def _has(kind: pa.DataType, *names: str) -> bool:
    return sorted(kind.field(i).name for i in range(kind.num_fields)) == sorted(names)


def _is_list(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_floating(kind) or pa.types.is_integer(kind))
