"""Records assembled from vectors, ids and metadata that are held apart in memory."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from recallatk.datasets.checks import require_vectors
from recallatk.datasets.in_memory import as_column, as_frame, open_object
from recallatk.datasets.layout import ID, is_identifier
from recallatk.datasets.matrix import TableColumns
from recallatk.datasets.source import ROWS, OpenOptions
from recallatk.errors import FormatError, UsageError

if TYPE_CHECKING:
    from recallatk.core import Records


def assembled(vectors: Any, ids: Any, metadata: Any, name: str) -> Records:
    """Vectors with their ids and metadata, by position.

    Args:
        vectors: anything that `open_object` takes. Of a data frame, ids and metadata are taken too unless
            they are given here.
        ids: one id per vector, or None.
        metadata: a data frame or a mapping from names to columns, or None.
        name: what messages call it.
    """
    records = open_object(vectors, OpenOptions(), name).part(ROWS)
    if ids is not None or metadata is not None:
        records = _with_columns(records, ids, metadata)
    require_vectors(records)
    return records


def _with_columns(records: Records, ids: Any, metadata: Any) -> Records:
    own = records.columns.read(records.columns.schema.names, 0, records.rows)
    columns = {each: own[each] for each in own.column_names}
    identifier = records.id_column
    if metadata is not None:
        columns = {identifier: own[identifier]} if identifier is not None else {}
        columns |= _metadata(metadata, records.name)
    if ids is not None:
        if identifier is not None:
            del columns[identifier]
        if ID in columns:
            raise UsageError(f"{records.name}: ids are given twice, as ids and as the metadata column {ID!r}")
        identifier = ID
        columns[ID] = _ids(ids, records.name)
    for column, values in columns.items():
        if len(values) != records.rows:
            found = f"{records.rows} vectors but {len(values)} values of {column!r}"
            raise FormatError(records.name, found, "one value per vector")
    return replace(records, columns=TableColumns(pa.table(columns)), id_column=identifier)


def _metadata(metadata: Any, name: str) -> dict[str, Any]:
    frame = as_frame(metadata, name)
    if frame is None:
        found = f"metadata of type {type(metadata).__name__}"
        raise FormatError(name, found, "a data frame, or a mapping from names to columns")
    return {each: frame.table[each] for each in frame.table.column_names if each != frame.index}


def _ids(ids: Any, name: str) -> Any:
    array = as_column(ids, f"{name} (ids)")
    if not is_identifier(array.type):
        raise FormatError(name, f"ids of type {array.type}", "strings or integers")
    return array
