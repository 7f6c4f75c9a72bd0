"""Objects in memory as data: data frames, Arrow tables, series, arrays, tensors and lists."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np
import pyarrow as pa

from recallatk.core import ArrayVectors, Records
from recallatk.datasets.batches import list_matrix
from recallatk.datasets.layout import (
    VECTOR,
    VECTOR_NAMES,
    holds_text,
    id_column,
    is_identifier,
    numbered_columns,
    table_records,
    vector_array,
)
from recallatk.datasets.matrix import NO_COLUMNS
from recallatk.datasets.source import ROWS, OpenOptions, Source
from recallatk.errors import FormatError, UsageError
from recallatk.files import reading

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from recallatk.files import PathLike

ACCEPTED = (
    "a path, a data frame (pandas, polars, Arrow), a matrix (NumPy, or any tensor with __array__ or "
    "__dlpack__) or a list of vectors"
)
_FORMAT = "in memory"
_FILTER = "filter"
# How Arrow names an index of pandas that has no name.
_NAMELESS = "__index_level_"
INDEX = "index"


def is_path(value: object) -> TypeGuard[PathLike]:
    """Whether a value names a file, a folder or a URL."""
    return isinstance(value, str | os.PathLike)


class TableSource:
    """An Arrow table as a source of batches."""

    def __init__(self, table: pa.Table, text: str) -> None:
        self.table, self.text = table, text

    @property
    def rows(self) -> int:
        """Number of rows."""
        return int(self.table.num_rows)

    @property
    def schema(self) -> pa.Schema:
        """Names and types of all columns."""
        return self.table.schema

    head = schema

    def floor(self, row: int) -> int:
        """The row itself: a stream can begin anywhere."""
        return row

    def batches(self, names: list[str], start: int) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Batches from a row to the end, without copying."""
        for batch in self.table.select(names).slice(start).to_batches():
            yield start, batch
            start += batch.num_rows


@dataclass(frozen=True, eq=False)
class Frame:
    """A table in memory, with the column that was the index of a pandas object."""

    table: pa.Table
    index: str | None = None
    """An index with a name or with text labels, which identifies rows; other indexes are row positions."""


def as_frame(value: object, name: str) -> Frame | None:
    """The value as a table; None unless it is a data frame, a series, or columns or rows by name.

    Args:
        value: anything.
        name: what messages call it.
    """
    with reading(name, "table"):
        if isinstance(value, pa.Table):
            return Frame(value)
        if isinstance(value, pa.Array | pa.ChunkedArray):
            return Frame(pa.table({VECTOR: value}))
        if isinstance(value, Mapping):
            columns = {str(key): as_column(each, f"{name} ({key})") for key, each in value.items()}
            return Frame(pa.table(columns))
        if isinstance(value, np.ndarray) or is_path(value):
            return None
        if isinstance(value, list | tuple):
            by_name = bool(value) and all(isinstance(row, Mapping) for row in value)
            return Frame(pa.Table.from_pylist(list(value))) if by_name else None
        return _native_frame(value, name)


def _native_frame(value: object, name: str) -> Frame | None:
    """A frame or series of any library that narwhals knows, or anything that exports an Arrow stream."""
    # Costs every command that reads files only some 20 ms if imported above.
    import narwhals as nw

    native: Any = nw.from_native(value, pass_through=True, allow_series=True)
    if isinstance(native, nw.Series):
        native = native.alias(VECTOR).to_frame()
    if isinstance(native, nw.LazyFrame):
        native = native.collect(backend="pyarrow")
    if isinstance(native, nw.DataFrame):
        if native.implementation.is_pandas_like():
            return _indexed(_pandas_table(native, name))
        return Frame(native.to_arrow().replace_schema_metadata(None))
    if hasattr(value, "__arrow_c_stream__"):
        return Frame(pa.table(value).replace_schema_metadata(None))
    return None


def _pandas_table(frame: Any, name: str) -> pa.Table:
    """A pandas frame as Arrow; cells that are tensors become arrays first."""
    try:
        return frame.to_arrow()
    except pa.ArrowException as problem:
        native = frame.to_native().copy(deep=False)
        _require_text_filters(native, name)
        tensors = [each for each in frame.columns if any(map(is_tensor, native[each]))]
        if not tensors:
            said = ": ".join(str(each) for each in reversed(problem.args))[:200]
            hint = "Convert the column, for example with astype(str), or leave it out."
            raise FormatError(name, said, "columns whose values are of one type", hint=hint) from problem
        for each in tensors:
            native[each] = [array_of(cell, name) if is_tensor(cell) else cell for cell in native[each]]
        return pa.Table.from_pandas(native)


def _require_text_filters(native: Any, name: str) -> None:
    """Refuse a filter that is neither text nor missing, by its row."""
    cells = native[_FILTER] if _FILTER in native.columns else ()
    for row, cell in enumerate(cells):
        missing = cell is None or cell != cell
        if not missing and not isinstance(cell, str):
            raise FormatError(
                name,
                f"the filter of row {row} is {cell!r:.60}",
                'text such as "price < 20" in every row, or null for no filter',
            )


def _indexed(table: pa.Table) -> Frame:
    """Keep an index that identifies rows as a column; drop one that only numbers them."""
    said = (table.schema.pandas_metadata or {}).get("index_columns", [])
    levels = [level for level in said if isinstance(level, str)]
    table = table.replace_schema_metadata(None)
    index = None
    for level in said:
        # Arrow stores a range as its bounds, and never as a column.
        if isinstance(level, dict) and level["name"] is not None and level["name"] not in table.column_names:
            index = str(level["name"])
            labels = range(level["start"], level["stop"], level["step"])
            table = table.append_column(index, pa.array(labels, pa.int64()))
    for level in levels:
        kind = table.schema.field(level).type
        named = not level.startswith(_NAMELESS)
        if len(levels) == 1 and is_identifier(kind) and (named or holds_text(kind)):
            index = level if named or INDEX in table.column_names else INDEX
            table = table.rename_columns([index if each == level else each for each in table.column_names])
        elif not named:
            table = table.drop_columns([level])
    return Frame(table, index)


def as_column(values: object, name: str) -> Any:
    """One value per row, such as a series, an array or a list, as an Arrow array."""
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    if _is_scipy(values):
        from recallatk.datasets.sparse_vectors import matrix_vectors, sparse_column

        return sparse_column(matrix_vectors(values, name))
    with reading(name, "list of values"):
        if not isinstance(values, list | tuple | np.ndarray):
            frame = _native_frame(values, name)
            if frame is not None:
                column = next(each for each in frame.table.column_names if each != frame.index)
                return frame.table[column]
            if is_tensor(values):
                values = array_of(values, name)
        if isinstance(values, np.ndarray) and values.ndim == 2 and values.size:
            return vector_array(values)
        return pa.array(values)


def _is_scipy(value: object) -> bool:
    """Whether a value is a sparse matrix, told without importing scipy."""
    return type(value).__module__.startswith("scipy.sparse")


def open_object(value: object, options: OpenOptions, name: str) -> Source:
    """Open an object in memory; data frames are read without copying where their memory allows it.

    Args:
        value: a data frame, a series of vectors, a matrix, a tensor or a list of vectors.
        options: the columns of ids and vectors, if the value is a data frame.
        name: what messages call it.
    """
    frame = as_frame(value, name)
    if frame is not None:
        return Source(name, _FORMAT, {ROWS: _frame_records(frame, options, name)})
    unused = options.id_column or options.vector_column
    if unused is not None:
        raise UsageError(f"{name}: there is no column {unused!r}, because {kind_of(value)} has no columns")
    return Source(name, _FORMAT, {ROWS: Records(name, ArrayVectors(as_matrix(value, name)), NO_COLUMNS)})


def _frame_records(frame: Frame, options: OpenOptions, name: str) -> Records:
    if not frame.table.num_rows:
        raise FormatError(name, "it has no rows", "at least one vector")
    source = TableSource(_with_vectors(frame.table, options), name)
    if options.id_column is None and frame.index is not None and id_column(source, None) is None:
        options = replace(options, id_column=frame.index)
    records = table_records(source, options)
    column = source.table[records.vectors.column]  # type: ignore[attr-defined]
    first_row, parts = 0, []
    for chunk in column.chunks:
        # Refused now and not at the first read: the rows are in memory anyway.
        parts.append(list_matrix(chunk, records.dimension, name, first_row))
        first_row += len(chunk)
    return replace(records, vectors=ArrayVectors(parts[0])) if len(parts) == 1 else records


def _with_vectors(table: pa.Table, options: OpenOptions) -> pa.Table:
    """The table; numbered columns such as v0, v1, v2 become one of vectors, as in CSV files."""
    wide = numbered_columns(table.column_names)
    numbers = [name for name in wide if _is_number(table.schema.field(name).type)]
    if options.vector_column or not wide or numbers != wide or set(VECTOR_NAMES) & set(table.column_names):
        return table
    matrix = np.column_stack([table[name].to_numpy() for name in wide])
    return table.drop_columns(wide).append_column(VECTOR, vector_array(matrix))


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_floating(kind) or pa.types.is_integer(kind))


def as_matrix(value: object, name: str) -> NDArray[Any]:
    """An array, a tensor or a list of rows as a matrix, without copying where that is possible."""
    rows = _rows_of(value)
    if rows is not None:
        array = _stacked(rows, name)
    elif is_tensor(value):
        array = array_of(value, name)
    else:
        hint = "Pass sparse vectors as a column beside the dense ones." if _is_scipy(value) else ""
        raise FormatError(name, f"an object of type {kind_of(value)}", ACCEPTED, hint=hint)
    array = array.astype(array.dtype.newbyteorder("="), copy=False)
    if array.ndim != 2 or 0 in array.shape:
        hint = "It is empty." if not array.size else ""
        hint = "For a single vector: vector.reshape(1, -1)." if array.ndim == 1 and array.size else hint
        raise FormatError(
            name, f"an array of shape {array.shape}", "a matrix of vectors, one per row", hint=hint
        )
    return array


def _rows_of(value: object) -> Sequence[Any] | None:
    """The rows of a list, or of an array of objects such as `df["vector"].to_numpy()`."""
    if isinstance(value, np.ndarray):
        return list(value) if value.dtype == object and value.ndim == 1 and len(value) else None
    return value if isinstance(value, list | tuple) else None


def _stacked(rows: Sequence[Any], name: str) -> NDArray[Any]:
    lengths = [len(row) if hasattr(row, "__len__") and not isinstance(row, str) else None for row in rows]
    odd = next((row for row, length in enumerate(lengths) if length != lengths[0]), None)
    if odd is not None:
        if rows[odd] is None:
            raise FormatError(name, "the vector is null", "a vector in every row", row=odd)
        found = "no vector" if lengths[odd] is None else f"{lengths[odd]} numbers"
        first = "no vector" if lengths[0] is None else f"{lengths[0]}"
        raise FormatError(name, f"{found}, but row 0 has {first}", "vectors of one length", row=odd)
    with reading(name, "matrix of vectors"):
        return np.asarray([array_of(row, name) if is_tensor(row) else row for row in rows])


def is_tensor(value: object) -> bool:
    """Whether a value is an array or a tensor that NumPy can take."""
    return hasattr(value, "__array__") or hasattr(value, "__dlpack__")


def array_of(value: Any, name: str) -> NDArray[Any]:
    """A tensor as a NumPy array, through `__array__` or `__dlpack__`."""
    with reading(name, "array"):
        array: NDArray[Any] = np.asarray(value) if hasattr(value, "__array__") else np.from_dlpack(value)
        return array


def kind_of(value: object) -> str:
    """The type of a value, as its library calls it."""
    kind = type(value)
    module = kind.__module__.partition(".")[0]
    return kind.__name__ if module == "builtins" else f"{module} {kind.__name__}"
