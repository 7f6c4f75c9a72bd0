"""Layout of records in tables: vector and id columns, read and written."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from recallatk.core import BLOCK_BYTES, Records
from recallatk.datasets.answer_ids import is_text
from recallatk.datasets.batches import (
    BatchColumns,
    BatchSource,
    BatchVectors,
    Cursor,
    is_number_list,
)
from recallatk.errors import FormatError, UsageError, choices

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from recallatk.datasets.source import OpenOptions

VECTOR_NAMES = ("vector", "vectors", "embedding", "embeddings", "emb", "values")
ID_NAMES = ("id", "_id", "ids", "query_id", "corpus_id", "doc_id", "docid", "qid")
TEXT_NAMES = ("text", "query")
FILTER_NAME = "filter"
_NUMBERED = re.compile(r"(?P<prefix>.*?)(?P<number>\d{1,9})\Z")


def table_records(source: BatchSource, options: OpenOptions) -> Records:
    """A table with a vector column, an id column where there is one, and the rest as metadata."""
    names = source.head.names
    repeated = next((name for name, count in Counter(names).items() if count > 1), None)
    if repeated is not None:
        raise FormatError(source.text, f"two columns are called {repeated!r}", "distinct column names")
    vector = vector_column(source, options.vector_column)
    identifier = id_column(source, options.id_column)
    dimension = _dimension(source, vector)
    return Records(
        name=source.text,
        vectors=BatchVectors(source, vector, dimension),
        columns=BatchColumns(source, vector),
        id_column=identifier,
    )


def vector_column(source: BatchSource, asked: str | None) -> str:
    """The vector column: the requested one, one with a usual name, or the only candidate."""
    lists = [field.name for field in source.head if is_number_list(field.type)]
    if asked is not None:
        if asked in lists:
            return asked
        raise UsageError(
            f"{source.text}: {_instead(source.head, asked, 'lists of numbers')}. "
            f"Columns of number lists: {choices(lists) or 'none'}"
        )
    usual = [name for name in VECTOR_NAMES if name in lists]
    if usual or len(lists) == 1:
        return (usual or lists)[0]
    if not lists:
        raise FormatError(
            source.text,
            f"no column holds lists of numbers (columns: {_described(source.head)})",
            "a list or fixed-size-list column of float16, float32, float64, int8 or uint8",
            hint=_unparsed(source.head),
        )
    raise UsageError(
        f"{source.text}: several columns could be the vector: {choices(lists)}. "
        f"Name one: vector_column={lists[0]!r} (--vector-column {lists[0]})"
    )


def numbered_columns(names: list[str]) -> list[str]:
    """Columns such as v0, v1, v2 (from 0 or 1, at least two), in the order of their numbers."""
    groups: dict[str, dict[int, str]] = {}
    for name in names:
        if match := _NUMBERED.match(name):
            groups.setdefault(match["prefix"], {})[int(match["number"])] = name
    largest = max(groups.values(), key=len, default={})
    first = min(largest, default=0)
    whole = sorted(largest) == list(range(first, first + len(largest)))
    return [largest[i] for i in sorted(largest)] if whole and first < 2 <= len(largest) else []


def id_column(source: BatchSource, asked: str | None) -> str | None:
    """The column with the ids; None when there is none of a usual name."""
    schema = source.head
    fitting = [field.name for field in schema if is_identifier(field.type)]
    if asked is not None:
        if asked in fitting:
            return asked
        raise UsageError(
            f"{source.text}: {_instead(schema, asked, 'strings or integers')}. "
            f"Columns that can hold ids: {choices(fitting) or 'none'}"
        )
    usual = next((name for name in ID_NAMES if name in schema.names), None)
    if usual is not None and usual not in fitting:
        raise FormatError(
            source.text,
            f"the column {usual!r} holds {schema.field(usual).type}",
            "ids that are strings or integers",
            hint="Name another column: id_column=NAME (--id-column NAME)",
        )
    return usual


def is_identifier(kind: pa.DataType) -> bool:
    """Whether a column of this type can hold ids."""
    return holds_text(kind) or bool(pa.types.is_integer(_decoded(kind)))


def holds_text(kind: pa.DataType) -> bool:
    """Whether a column of this type holds strings, also as categories."""
    return is_text(_decoded(kind))


def text_column(schema: pa.Schema) -> str | None:
    """The column with the text of a row, by its usual names; None if there is none."""
    usual = (name for name in TEXT_NAMES if name in schema.names)
    return next((name for name in usual if holds_text(schema.field(name).type)), None)


def _decoded(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _dimension(source: BatchSource, vector: str) -> int:
    kind = source.head.field(vector).type
    if pa.types.is_fixed_size_list(kind) and source.rows:
        dimension = kind.list_size
    else:
        first = next((batch for _, batch in source.batches([vector], 0) if batch.num_rows), None)
        if first is None:
            raise FormatError(source.text, "it has no rows", "at least one vector")
        value = first.column(0)[0]
        if not value.is_valid:
            raise FormatError(source.text, "the vector is null", "a vector in every row", row=0)
        dimension = len(value)
    if dimension == 0:
        raise FormatError(source.text, "the first vector is empty", "vectors with numbers", row=0)
    return int(dimension)


def column_of(source: BatchSource, name: str) -> pa.ChunkedArray:
    """One whole column, in memory."""
    return Cursor(source, [name]).read(0, source.rows)[name]


def _instead(schema: pa.Schema, name: str, wanted: str) -> str:
    """What a column holds instead of what it should."""
    if name not in schema.names:
        return f"there is no column {name!r}"
    return f"the column {name!r} holds {schema.field(name).type}, not {wanted}"


def _unparsed(schema: pa.Schema) -> str:
    """How to mend vectors that are text, as a CSV file that was read without parsing has them."""
    texts = [name for name in VECTOR_NAMES if name in schema.names and holds_text(schema.field(name).type)]
    if not texts:
        return ""
    return f"The column {texts[0]!r} holds text: parse it, for example with json.loads, or open the CSV file."


def _described(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name}: {field.type}" for field in schema) or "none"


ID, VECTOR = "id", "vector"


def table_schema(records: Records) -> pa.Schema:
    """`id`, `vector` as a fixed-size list, then the metadata."""
    clash = [name for name in records.metadata_names if name in (ID, VECTOR)]
    if clash:
        raise UsageError(
            f"{records.name}: the column {clash[0]!r} clashes with the {clash[0]} column that is written; "
            "rename it before converting"
        )
    kind = pa.list_(pa.from_numpy_dtype(records.vectors.dtype), records.dimension)
    fields = [pa.field(ID, records.read_ids(0, min(1, records.rows)).type), pa.field(VECTOR, kind)]
    return pa.schema(fields + [_plain(records.columns.schema.field(n)) for n in records.metadata_names])


def _plain(field: pa.Field) -> pa.Field:
    # Blocks may have different dictionaries, but an Arrow file stores one for all.
    return field.with_type(field.type.value_type) if pa.types.is_dictionary(field.type) else field


def tables(records: Records, most_rows: int) -> Iterator[pa.Table]:
    """Records in blocks, limited by rows and bytes."""
    schema = table_schema(records)
    row_bytes = records.dimension * records.vectors.dtype.itemsize
    step = max(1, min(most_rows, BLOCK_BYTES // row_bytes))
    for start in range(0, records.rows, step):
        stop = min(start + step, records.rows)
        columns = [records.read_ids(start, stop), vector_array(records.vectors.read(start, stop))]
        beside = records.columns.read(records.metadata_names, start, stop)
        plain = [
            column.cast(schema.field(name).type)
            for name, column in zip(beside.column_names, beside.columns, strict=True)
        ]
        yield pa.Table.from_arrays([*columns, *plain], schema=schema)


def vector_array(matrix: NDArray[Any]) -> pa.FixedSizeListArray:
    """A matrix as a fixed-size-list array."""
    flat = pa.array(np.ascontiguousarray(matrix).reshape(-1))
    return pa.FixedSizeListArray.from_arrays(flat, matrix.shape[1])
