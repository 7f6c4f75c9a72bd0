"""Row ranges of tables that are streams of Arrow batches."""

from __future__ import annotations

import threading
from bisect import bisect_right
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa

from recallatk.errors import FormatError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray


class BatchSource(Protocol):
    """A table that can be streamed from certain rows on."""

    @property
    def text(self) -> str:
        """What messages call it."""

    @property
    def rows(self) -> int:
        """Number of rows."""

    @property
    def head(self) -> pa.Schema:
        """Names and types as the beginning of the file shows them; enough to find the vectors."""

    @property
    def schema(self) -> pa.Schema:
        """Names and types of all columns; a text file has to be read through for them."""

    def floor(self, row: int) -> int:
        """The last row at or before `row` from which a stream can begin."""

    def batches(self, names: list[str], start: int) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Batches from `start` (a floor) to the end, each with the number of its first row."""


class Shards:
    """Several sources of one schema, one after the other."""

    def __init__(self, sources: list[BatchSource]) -> None:
        self.sources = sources
        self.text = sources[0].text
        self.head = self.schema = sources[0].schema
        for source in sources[1:]:
            if not source.schema.equals(self.schema):
                raise FormatError(
                    source.text,
                    f"its columns differ from those of {self.text}: {_differing(source, self)}",
                    "shards of one table",
                )
        self.starts = np.cumsum([0, *(source.rows for source in sources)])

    @property
    def rows(self) -> int:
        """How many rows all shards have together."""
        return int(self.starts[-1])

    def _shard(self, row: int) -> int:
        return min(int(np.searchsorted(self.starts, row, "right")) - 1, len(self.sources) - 1)

    def shard(self, row: int) -> tuple[BatchSource, int]:
        """The shard that holds a row, and the row's number in it."""
        number = self._shard(row)
        return self.sources[number], row - int(self.starts[number])

    def floor(self, row: int) -> int:
        """The last row at or before `row` from which a stream can begin."""
        number = self._shard(row)
        before = int(self.starts[number])
        return before + self.sources[number].floor(row - before)

    def batches(self, names: list[str], start: int) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Batches from `start` to the end of the last shard."""
        for number in range(self._shard(start), len(self.sources)):
            before = int(self.starts[number])
            for first, batch in self.sources[number].batches(names, max(0, start - before)):
                yield before + first, batch


def _differing(source: BatchSource, other: Shards) -> str:
    mine, theirs = ({f"{field.name}: {field.type}" for field in table.schema} for table in (source, other))
    return ", ".join(sorted(mine ^ theirs)) or "their order"


def place_of(source: BatchSource, row: int) -> tuple[str, int]:
    """The file that holds a row, and the row's number in that file."""
    while isinstance(source, Shards):
        source, row = source.shard(row)
    return source.text, row


class Cursor:
    """Reads row ranges of some columns; going on from the last range costs no second reading."""

    def __init__(self, source: BatchSource, names: list[str]) -> None:
        self.source, self.names = source, names
        self.lock = threading.Lock()
        self.stream: Iterator[tuple[int, pa.RecordBatch]] = iter(())
        self.held: tuple[int, pa.RecordBatch] | None = None
        self.position = -1

    def read(self, start: int, stop: int) -> pa.Table:
        """Rows `start` to `stop`."""
        if not self.names or start == stop:
            fields = [self.source.schema.field(name) for name in self.names]
            return pa.schema(fields).empty_table()
        return pa.Table.from_batches(list(self.pieces(start, stop)))

    def pieces(self, start: int, stop: int) -> Iterator[pa.RecordBatch]:
        """Batches that together are rows `start` to `stop`."""
        found = 0
        with self.lock:
            for piece in self._pieces(start, stop):
                found += piece.num_rows
                yield piece
        if found != stop - start:
            raise FormatError(
                self.source.text, f"it ends after row {start + found}", f"{self.source.rows} rows"
            )

    def _pieces(self, start: int, stop: int) -> Iterator[pa.RecordBatch]:
        floor = self.source.floor(start)
        if not floor <= self.position <= start:
            self.stream, self.held = self.source.batches(self.names, floor), None
        self.position = -1  # until this range is read well, nothing can be continued
        while True:
            self.held = self.held or next(self.stream, None)
            if self.held is None:
                return
            first, batch = self.held
            end = first + batch.num_rows
            low, high = max(start, first), min(stop, end)
            if low < high:
                yield batch.slice(low - first, high - low)
            if end > stop:
                self.position = first
                return
            self.held = None
            if end == stop:
                self.position = end
                return


class BatchColumns:
    """Non-vector columns of a batch source."""

    def __init__(self, source: BatchSource, vector: str) -> None:
        self.source, self.vector = source, vector
        self.cursors: dict[tuple[str, ...], Cursor] = {}

    @cached_property
    def schema(self) -> pa.Schema:
        """Names and types."""
        return pa.schema([field for field in self.source.schema if field.name != self.vector])

    def read(self, names: list[str], start: int, stop: int) -> pa.Table:
        """Some columns of some rows."""
        cursor = self.cursors.setdefault(tuple(names), Cursor(self.source, names))
        return cursor.read(start, stop)


class BatchVectors:
    """The vector column of a batch source as a matrix."""

    def __init__(self, source: BatchSource, column: str, dimension: int) -> None:
        self.source, self.column, self.dimension = source, column, dimension
        self.cursor = Cursor(source, [column])
        self.dtype: np.dtype[Any] = element_dtype(source.head.field(column).type)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and dimension."""
        return self.source.rows, self.dimension

    def place(self, row: int) -> tuple[str, int]:
        """The file that holds a row, and the row's number in it."""
        return place_of(self.source, row)

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Some rows; a row of another length or a missing number is an error that names it."""
        block = np.empty((0, self.dimension), self.dtype)
        row = start
        for piece in self.cursor.pieces(start, stop) if start < stop else ():
            part = list_matrix(piece.column(0), self.dimension, *self.place(row))
            if len(part) == stop - start:
                block = part
            else:
                # Filled piece by piece, so that no second copy of the block is ever held.
                block = block if len(block) else np.empty((stop - start, self.dimension), self.dtype)
                block[row - start : row - start + len(part)] = part
            row += len(part)
        return block


# Arrow's names for what numpy calls otherwise.
_FLOATS = {"halffloat": "float16", "float": "float32", "double": "float64"}


def element_dtype(kind: pa.DataType) -> np.dtype[Any]:
    """The numpy type of the numbers in a list column."""
    name = str(kind.value_type)
    return np.dtype(_FLOATS.get(name, name))


def is_number_list(kind: pa.DataType) -> bool:
    """Whether a column of this type can hold vectors or neighbors."""
    types = pa.types
    is_list = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
    return bool(is_list and (types.is_integer(kind.value_type) or types.is_floating(kind.value_type)))


def list_matrix(chunk: pa.Array, dimension: int, where: str, first_row: int) -> NDArray[Any]:
    """A list column as a matrix, refusing rows of another length and missing numbers."""
    if chunk.null_count:
        row = first_row + int(np.argmin(chunk.is_valid().to_numpy(zero_copy_only=False)))
        raise FormatError(where, "the vector is null", "a vector in every row", row=row)
    if pa.types.is_fixed_size_list(chunk.type):
        width = chunk.type.list_size
        lengths = None if width == dimension else np.full(len(chunk), width)
    else:
        offsets = chunk.offsets.to_numpy()
        lengths = np.diff(offsets)
    if lengths is not None and len(lengths) and (lengths != dimension).any():
        bad = int(np.argmax(lengths != dimension))
        raise FormatError(
            where,
            f"the vector has {lengths[bad]} numbers, the first one has {dimension}",
            "vectors of one length",
            row=first_row + bad,
        )
    values = chunk.flatten()
    if values.null_count:
        bad = int(np.argmin(values.is_valid().to_numpy(zero_copy_only=False))) // dimension
        raise FormatError(where, "a number is null or NaN", "numbers only", row=first_row + bad)
    matrix: NDArray[Any] = values.to_numpy(zero_copy_only=False).reshape(len(chunk), dimension)
    return matrix


def sound(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch itself, once Arrow has looked through its offsets, texts and dictionary indexes.

    Arrow trusts those of a file; damaged ones would end the process when they are followed.
    """
    batch.validate(full=True)
    return batch


def starts_of(sizes: list[int]) -> list[int]:
    """The first row of each unit (row group, batch, block) of these sizes."""
    return list(accumulate(sizes, initial=0))[:-1]


def start_before(starts: list[int], row: int) -> int:
    """The number of the unit (row group, batch, block) that holds a row."""
    return max(0, bisect_right(starts, row) - 1)
