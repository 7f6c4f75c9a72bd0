"""Matrices in memory, or in a file as rows of fixed width."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from recallatk.core import ArrayVectors, blocks
from recallatk.errors import FormatError
from recallatk.files import Location, read_exactly

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from numpy.typing import DTypeLike, NDArray

    from recallatk.core import Vectors


@dataclass(frozen=True, eq=False)
class VectorsView:
    """A matrix over another one, of the same shape and type; subclasses add to what `read` does."""

    vectors: Vectors

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and dimension."""
        return self.vectors.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The stored type."""
        return self.vectors.dtype

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Some rows."""
        return self.vectors.read(start, stop)


@dataclass(frozen=True, eq=False)
class TableColumns:
    """Columns in memory."""

    table: pa.Table

    @property
    def schema(self) -> pa.Schema:
        """Names and types."""
        return self.table.schema

    def read(self, names: list[str], start: int, stop: int) -> pa.Table:
        """Some columns of some rows, without copying."""
        return self.table.select(names).slice(start, stop - start)


NO_COLUMNS = TableColumns(pa.table({}))


@dataclass(frozen=True, eq=False)
class FileMatrix:
    """A matrix in a file: rows of one width, each perhaps behind a few bytes of its own."""

    location: Location
    offset: int
    shape: tuple[int, int]
    stored: np.dtype[Any]
    """The type in the file, in its byte order."""
    row_header: int = 0
    column_major: bool = False

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type in memory, in the machine's byte order."""
        return self.stored.newbyteorder("=")

    @property
    def row_bytes(self) -> int:
        """The distance from one row to the next."""
        return self.row_header + self.shape[1] * self.stored.itemsize

    @property
    def end(self) -> int:
        """Where the last row ends."""
        return self.offset + self.shape[0] * self.row_bytes

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Some rows: mapped when the file is local, fetched when it is not."""
        if self.column_major:
            return self._read_columns(start, stop)
        raw = self.raw(start, stop)
        rows = self._rows(raw, stop - start, self.row_header, self.stored, self.shape[1])
        # Numbers at odd addresses (an array inside an archive) are copied: compiled code may not take them.
        return rows.astype(self.dtype, copy=not rows.flags.aligned)

    def row_headers(self, start: int, stop: int, dtype: DTypeLike) -> NDArray[Any]:
        """Header of each row."""
        raw = self.raw(start, stop)
        return self._rows(raw, stop - start, 0, np.dtype(dtype), 1)[:, 0]

    def raw(self, start: int, stop: int) -> NDArray[np.uint8]:
        """The bytes of some rows."""
        return _bytes(self.location, self.offset + start * self.row_bytes, (stop - start) * self.row_bytes)

    def _rows(
        self, raw: NDArray[np.uint8], rows: int, skip: int, dtype: np.dtype[Any], width: int
    ) -> NDArray[Any]:
        if rows == 0:
            return np.empty((0, width), dtype)
        strides = (self.row_bytes, dtype.itemsize)
        return np.ndarray((rows, width), dtype, buffer=raw, offset=skip, strides=strides)

    def _read_columns(self, start: int, stop: int) -> NDArray[Any]:
        rows, dimension = self.shape
        item = self.stored.itemsize
        block = np.empty((stop - start, dimension), self.dtype)
        for column in range(dimension):
            begin = self.offset + (column * rows + start) * item
            block[:, column] = _bytes(self.location, begin, (stop - start) * item).view(self.stored)
        return block


def _bytes(location: Location, offset: int, count: int) -> NDArray[np.uint8]:
    if count == 0:
        return np.empty(0, np.uint8)
    if not location.local:
        return np.frombuffer(read_exactly(location, offset, count), np.uint8)
    try:
        # One map per block: it goes with the block, so that the file never becomes resident whole.
        return np.memmap(location.path, np.uint8, "r", offset, (count,))
    except (OSError, ValueError) as problem:
        raise FormatError(
            location.text, f"bytes {offset} to {offset + count} cannot be read", "a whole file"
        ) from problem


def gather(vectors: Vectors, rows: NDArray[np.int64]) -> ArrayVectors:
    """Some rows of a matrix, in the order given, read in one pass over the file."""
    order = np.argsort(rows, kind="stable")
    wanted = rows[order]
    chosen = np.empty((len(rows), vectors.shape[1]), vectors.dtype)
    for start, block in blocks(vectors):
        first, last = np.searchsorted(wanted, [start, start + len(block)])
        chosen[order[first:last]] = block[wanted[first:last] - start]
    return ArrayVectors(chosen)


def append_blocks(path: Path, arrays: Iterable[NDArray[Any]]) -> None:
    """Append the bytes of each array to a file."""
    with path.open("ab") as file:
        for array in arrays:
            file.write(np.ascontiguousarray(array).tobytes())
