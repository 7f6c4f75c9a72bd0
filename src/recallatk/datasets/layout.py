"""Which column of a table is the vector and which the id, and the Records that follow."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pyarrow as pa

from recallatk.core import Records
from recallatk.datasets.batches import (
    BatchColumns,
    BatchSource,
    BatchVectors,
    Cursor,
    is_number_list,
)
from recallatk.errors import FormatError, UsageError, choices

if TYPE_CHECKING:
    from recallatk.datasets.source import OpenOptions

VECTOR_NAMES = ("vector", "vectors", "embedding", "embeddings", "emb", "values")
ID_NAMES = ("id", "_id", "ids", "query_id", "corpus_id", "doc_id", "docid", "qid")
TEXT_NAMES = ("text", "query")
FILTER_NAME = "filter"


def table_records(source: BatchSource, options: OpenOptions) -> Records:
    """A table with a vector column, an id column where there is one, and the rest as metadata."""
    names = source.head.names
    repeated = next((name for name, count in Counter(names).items() if count > 1), None)
    if repeated is not None:
        raise FormatError(source.text, f"two columns are called {repeated!r}", "columns of distinct names")
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
    """The column with the vectors: the one asked for, one of the usual name, or the only one."""
    lists = [field.name for field in source.head if is_number_list(field.type)]
    if asked is not None:
        if asked in lists:
            return asked
        raise UsageError(
            f"{source.text}: {asked!r} is no column of number lists. Those are: {choices(lists) or 'none'}"
        )
    usual = [name for name in VECTOR_NAMES if name in lists]
    if usual or len(lists) == 1:
        return (usual or lists)[0]
    if not lists:
        raise FormatError(
            source.text,
            f"no column holds lists of numbers (columns: {_described(source.head)})",
            "a list or fixed-size-list column of float16, float32, float64, int8 or uint8",
        )
    raise UsageError(
        f"{source.text}: several columns could be the vector: {choices(lists)}. "
        f"Name one: --vector-column {lists[0]}"
    )


def id_column(source: BatchSource, asked: str | None) -> str | None:
    """The column with the ids; None when there is none of a usual name."""
    schema = source.head
    fitting = [field.name for field in schema if _is_identifier(field.type)]
    if asked is not None:
        if asked in fitting:
            return asked
        raise UsageError(
            f"{source.text}: {asked!r} is no column of strings or integers. "
            f"Those are: {choices(fitting) or 'none'}"
        )
    usual = next((name for name in ID_NAMES if name in schema.names), None)
    if usual is not None and usual not in fitting:
        raise FormatError(
            source.text,
            f"the column {usual!r} holds {schema.field(usual).type}",
            "ids that are strings or integers",
            hint="Name another column: --id-column NAME",
        )
    return usual


def _is_identifier(kind: pa.DataType) -> bool:
    types = pa.types
    if types.is_dictionary(kind):
        kind = kind.value_type
    text = types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)
    return bool(text or types.is_integer(kind))


def _dimension(source: BatchSource, vector: str) -> int:
    kind = source.head.field(vector).type
    if pa.types.is_fixed_size_list(kind) and source.rows:
        dimension = kind.list_size
    else:
        first = next((batch for _, batch in source.batches([vector], 0) if batch.num_rows), None)
        if first is None:
            raise FormatError(source.text, "it has no rows", "at least one vector")
        value = first.column(0)[0]
        dimension = len(value) if value.is_valid else 0
    if dimension == 0:
        raise FormatError(source.text, "the first vector is empty", "vectors with numbers", row=0)
    return int(dimension)


def column_of(source: BatchSource, name: str) -> pa.ChunkedArray:
    """One whole column, in memory."""
    return Cursor(source, [name]).read(0, source.rows)[name]


def _described(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name}: {field.type}" for field in schema) or "none"
