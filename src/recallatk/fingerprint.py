"""Fingerprints: equal content gives an equal short text, whatever the file format.

A fingerprint is the BLAKE3 hash of a canonical form: type, shape and little-endian bytes, independent of
block size, shards and container.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from blake3 import blake3

from recallatk.core import QuerySet, Records, Vectors, blocks
from recallatk.filters.eligibility import distinct_filters

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from recallatk.core import Dataset, Measurement, Run, Truth

# Stored truth is found by the canonical forms below; any change to them must change this number.
# 1: first version.
# 2: the number of vectors comes last, so that a matrix can be recognized as the start of a longer one.
_VERSION = 2
_HEX_DIGITS = 32
_ROWS_AT_ONCE = 65_536
# A text file is read once per group of columns; with many columns, fewer rows are read at a time.
_MOST_PASSES = 16
_CELLS_AT_ONCE = 1 << 20
# Datasets are immutable, and hashing a large one takes as long as reading it.
_KNOWN: WeakKeyDictionary[Dataset, dict[str, str]] = WeakKeyDictionary()


class Hash:
    """A running fingerprint."""

    def __init__(self, kind: str, *header: object) -> None:
        self._state = blake3(json.dumps([_VERSION, kind, *header]).encode())

    def update(self, array: NDArray[Any]) -> None:
        """Add an array as little-endian bytes in row order."""
        import numpy as np

        array = array.astype(array.dtype.newbyteorder("<"), copy=False)
        self._state.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)

    def update_text(self, text: str) -> None:
        """Add text."""
        self._state.update(text.encode())

    def text(self) -> str:
        """The fingerprint so far."""
        return self._state.hexdigest()[:_HEX_DIGITS]


class VectorsHash(Hash):
    """The running fingerprint of a matrix, for callers that read its blocks anyway."""

    def __init__(self, vectors: Vectors) -> None:
        super().__init__("vectors", vectors.dtype.name, vectors.shape[1])
        self._rows = 0

    def update(self, array: NDArray[Any]) -> None:
        """Add the next rows."""
        super().update(array)
        self._rows += len(array)

    def text(self) -> str:
        """The fingerprint of the rows so far."""
        whole = self._state.copy()
        whole.update(f"{self._rows} rows".encode())
        return whole.hexdigest()[:_HEX_DIGITS]


def fingerprint_vectors(vectors: Vectors) -> str:
    """The fingerprint of a matrix."""
    return fingerprint_prefixes(vectors, ())[0]


def fingerprint_prefixes(vectors: Vectors, lengths: Collection[int]) -> tuple[str, dict[int, str]]:
    """Fingerprints of a matrix and of its first rows for each length, in one pass."""
    state = VectorsHash(vectors)
    cuts = sorted(length for length in set(lengths) if 0 < length < vectors.shape[0])
    found = {}
    for start, block in blocks(vectors):
        done = 0
        for cut in cuts:
            if start <= cut < start + len(block):
                state.update(block[done : cut - start])
                done = cut - start
                found[cut] = state.text()
        state.update(block[done:])
    return state.text(), found


def fingerprint_shards(vectors: Vectors, shards: Sequence[tuple[int, int]]) -> tuple[str, list[str]]:
    """Fingerprints of a matrix and of each of its shards, in one pass.

    Args:
        vectors: the matrix.
        shards: first row and end of each shard; together all rows, in order.
    """
    whole, parts = VectorsHash(vectors), [VectorsHash(vectors) for _ in shards]
    number = 0
    for start, block in blocks(vectors):
        whole.update(block)
        done = 0
        while done < len(block):
            piece = block[done : shards[number][1] - start]
            parts[number].update(piece)
            done += len(piece)
            number += start + done == shards[number][1]
    return whole.text(), [part.text() for part in parts]


def fingerprint_ids(records: Records) -> str:
    """Fingerprint of the ids; row numbers are the integers from 0."""
    state = _ColumnHash("ids")
    for start, stop in _ranges(records.rows, _ROWS_AT_ONCE):
        state.update(records.read_ids(start, stop))
    return state.text()


def fingerprint_metadata(records: Records) -> str:
    """Fingerprint of all other columns, in name order."""
    state = Hash("metadata", records.rows)
    names = sorted(records.metadata_names)
    step = -(-len(names) // _MOST_PASSES) or 1
    for first in range(0, len(names), step):
        for name, found in _fingerprint_columns(records, names[first : first + step]).items():
            state.update_text(json.dumps([name, found]))
    return state.text()


def _fingerprint_columns(records: Records, names: list[str]) -> dict[str, str]:
    """Fingerprints of some columns, in one pass over the rows."""
    columns = {name: _ColumnHash("column") for name in names}
    for start, stop in _ranges(records.rows, max(1, min(_ROWS_AT_ONCE, _CELLS_AT_ONCE // len(names)))):
        table = records.columns.read(names, start, stop)
        for name, column in zip(names, table.columns, strict=True):
            for chunk in column.chunks if len(names) == 1 else [column.combine_chunks()]:
                columns[name].update(chunk)
    return {name: column.text() for name, column in columns.items()}


def fingerprint_queries(queries: QuerySet) -> str:
    """Fingerprint of the queries: vectors, ids, filters and their own corpus rows."""
    state = Hash("queries", fingerprint_vectors(queries.vectors), fingerprint_ids(queries))
    distinct = distinct_filters(queries.filters or ())
    # If no query has a filter, there are no filters.
    if any(each is not None for each in distinct.filters):
        # Piece by piece, because all queries may share one long filter.
        keys = [json.dumps(None if each is None else each.key) for each in distinct.filters]
        for place, number in enumerate(distinct.numbers.tolist()):
            state.update_text(f"{', ' if place else '['}{keys[number]}")
        state.update_text("]")
    else:
        state.update_text(json.dumps(None))
    if queries.corpus_rows is not None:
        state.update_text("corpus rows")
        state.update(queries.corpus_rows)
    return state.text()


def fingerprints(dataset: Dataset, vectors: str | None = None) -> dict[str, str]:
    """Fingerprints of the content that, with the metric, determines the truth of a dataset.

    Args:
        dataset: the dataset.
        vectors: the fingerprint of the corpus vectors, if already computed.
    """
    if dataset not in _KNOWN:
        found = {
            "vectors": vectors or fingerprint_vectors(dataset.corpus.vectors),
            "ids": fingerprint_ids(dataset.corpus),
            "queries": fingerprint_queries(dataset.queries),
        }
        if dataset.queries.filters is not None:
            found["metadata"] = fingerprint_metadata(dataset.corpus)
        _KNOWN[dataset] = found
    return dict(_KNOWN[dataset])


def fingerprint_truth(truth: Truth) -> str:
    """Fingerprint of a truth: its rows, scores and ties."""
    state = Hash("truth", truth.metric, *truth.rows.shape)
    state.update(truth.rows)
    if truth.scores is not None:
        state.update(truth.scores)
    if truth.tied is not None:
        state.update(truth.tied)
    for part in truth.overflow or ():
        state.update(part)
    return state.text()


def fingerprint_measurement(run: Run, measurement: Measurement) -> str:
    """Identity of one measurement: two never have the same latencies."""
    found = blake3(f"{run.begun}\0".encode() + measurement.latencies_ns.tobytes())
    return found.hexdigest()[:_HEX_DIGITS]


def _ranges(rows: int, step: int) -> Iterator[tuple[int, int]]:
    for start in range(0, rows, step):
        yield start, min(start + step, rows)


class _ColumnHash:
    """The running fingerprint of a column.

    Its streams do not depend on chunk boundaries: validity, values, and lengths of text.
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.streams: dict[str, Hash] = {}

    def update(self, piece: pa.Array) -> None:
        """Add the next rows."""
        for path, array in _streams("", piece):
            self.streams.setdefault(path, Hash(path)).update(array)

    def text(self) -> str:
        """The fingerprint of the rows so far."""
        return Hash(self.kind, {path: state.text() for path, state in sorted(self.streams.items())}).text()


def _streams(path: str, array: pa.Array) -> Iterator[tuple[str, NDArray[Any]]]:
    """Canonical arrays of a column: integers as int64, floats as float64, text as UTF-8."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    array = _plain(array)
    types, kind = pa.types, array.type
    yield f"{path}.valid", array.is_valid().to_numpy(zero_copy_only=False).astype(np.uint8)
    if types.is_boolean(kind):
        yield f"{path}.bool", _filled(array, False).astype(np.uint8)
    elif types.is_integer(kind):
        yield from _integer_streams(path, array)
    elif types.is_floating(kind):
        numbers = _filled(array.cast(pa.float64()), 0.0)
        yield f"{path}.float64", np.where(np.isnan(numbers), np.nan, numbers)
    elif _is_list(kind):
        yield f"{path}.lengths", _filled(pc.list_value_length(array).cast(pa.int64()), 0)
        yield from _streams(f"{path}.list", array.flatten())
    elif types.is_struct(kind):
        for field, child in zip(kind, array.flatten(), strict=True):
            yield from _streams(f"{path}.{json.dumps(field.name)}", child)
    elif types.is_nested(kind) or types.is_interval(kind):
        # Maps and other rare types that Arrow can neither flatten nor cast.
        rows = [None if row is None else repr(row) for row in array.to_pylist()]
        yield from _text_streams(f"{path}.{kind}", pa.array(rows, pa.large_string()))
    elif "binary" in str(kind):
        yield from _text_streams(f"{path}.binary", array.cast(pa.large_binary()))
    else:
        name = "text" if "string" in str(kind) else str(kind)
        yield from _text_streams(f"{path}.{name}", array.cast(pa.large_string()))


def _plain(array: pa.Array) -> pa.Array:
    """The column without container choices: extension type, dictionary, time unit."""
    import pyarrow as pa

    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        return _plain(array.storage)
    if pa.types.is_dictionary(kind):
        return _plain(array.cast(kind.value_type))
    if pa.types.is_null(kind):
        return array.cast(pa.string())
    if pa.types.is_timestamp(kind) and kind.unit != "ns":
        return array.cast(pa.timestamp("us", kind.tz))
    return array


def _is_list(kind: pa.DataType) -> bool:
    import pyarrow as pa

    types = pa.types
    views = types.is_list_view(kind) or types.is_large_list_view(kind)
    lists = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
    return bool(views or lists)


def _integer_streams(path: str, array: pa.Array) -> Iterator[tuple[str, NDArray[Any]]]:
    """Integers of any width as int64; those beyond its range are added a second time."""
    import numpy as np
    import pyarrow as pa

    if not pa.types.is_uint64(array.type):
        yield f"{path}.int64", _filled(array.cast(pa.int64()), 0)
        return
    numbers = _filled(array, 0)
    yield f"{path}.int64", numbers.view(np.int64)
    beyond = numbers[numbers > np.iinfo(np.int64).max]
    if beyond.size:
        yield f"{path}.beyond", beyond


def _text_streams(path: str, array: pa.Array) -> Iterator[tuple[str, NDArray[Any]]]:
    import numpy as np

    empty = b"" if "binary" in str(array.type) else ""
    filled = array.fill_null(empty)
    _, offsets, data = filled.buffers()
    bounds = np.frombuffer(offsets, np.int64)[filled.offset : filled.offset + len(filled) + 1]
    yield f"{path}.lengths", np.diff(bounds)
    raw = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    yield f"{path}.bytes", raw[bounds[0] : bounds[-1]] if len(bounds) else raw[:0]


def _filled(array: pa.Array, empty: Any) -> NDArray[Any]:
    result: NDArray[Any] = array.fill_null(empty).to_numpy(zero_copy_only=False)
    return result
