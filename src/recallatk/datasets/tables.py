"""Records as Arrow tables: how ids, vectors and metadata are laid out when they are written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from recallatk.core import BLOCK_BYTES
from recallatk.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from recallatk.core import Records

ID, VECTOR = "id", "vector"


def table_schema(records: Records) -> pa.Schema:
    """`id`, `vector` as a fixed-size list, then the metadata."""
    clash = [name for name in records.metadata_names if name in (ID, VECTOR)]
    if clash:
        raise UsageError(
            f"{records.name}: the column {clash[0]!r} would stand beside the {clash[0]} itself; "
            "rename it before converting"
        )
    kind = pa.list_(pa.from_numpy_dtype(records.vectors.dtype), records.dimension)
    fields = [pa.field(ID, records.read_ids(0, min(1, records.rows)).type), pa.field(VECTOR, kind)]
    return pa.schema(fields + [_plain(records.columns.schema.field(n)) for n in records.metadata_names])


def _plain(field: pa.Field) -> pa.Field:
    # Each block may come with a dictionary of its own, and an Arrow file takes one for all.
    return field.with_type(field.type.value_type) if pa.types.is_dictionary(field.type) else field


def tables(records: Records, most_rows: int) -> Iterator[pa.Table]:
    """The records block by block, of at most so many rows and about one block of bytes."""
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
