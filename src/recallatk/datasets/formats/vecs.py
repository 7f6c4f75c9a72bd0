"""fvecs, bvecs and ivecs: rows that each begin with their dimension."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from recallatk.core import Records, blocks
from recallatk.datasets.answer_tables import matrix_answers
from recallatk.datasets.conversion import widened
from recallatk.datasets.imported import matrix_truth
from recallatk.datasets.matrix import NO_COLUMNS, FileMatrix, append_blocks
from recallatk.datasets.source import ROWS, Format, OpenOptions, Source
from recallatk.errors import FormatError
from recallatk.files import read_exactly

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from recallatk.core import Answers, Metric, Truth
    from recallatk.files import Location

_HEADER = np.dtype("<i4")
# A dimension beyond this is a damaged header, not a vector.
_MOST_DIMENSIONS = 1 << 20


class VecsMatrix(FileMatrix):
    """A matrix whose every row repeats the dimension, which is checked as it is read."""

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Some rows."""
        dimensions = self.row_headers(start, stop, _HEADER)
        wrong = dimensions != self.shape[1]
        if wrong.any():
            row = start + int(np.argmax(wrong))
            raise FormatError(
                self.location.text,
                f"at byte {self.offset + row * self.row_bytes} the row says it has "
                f"{dimensions[row - start]} numbers, but the first row {self.shape[1]}",
                "vectors of one length",
                row=row,
            )
        return super().read(start, stop)


class _Vecs(Format):
    stored: ClassVar[np.dtype[Any]]
    headerless = True  # the first bytes are a dimension: that of 640 numbers looks like a pickle
    writable = True

    def open(self, shards: list[Location], options: OpenOptions) -> Source:
        """Open the rows of the file."""
        (location,) = shards
        records = Records(location.text, self._matrix(location), NO_COLUMNS)
        return Source(location.text, self.name, {ROWS: records})

    def _matrix(self, location: Location) -> VecsMatrix:
        dimension = int.from_bytes(read_exactly(location, 0, 4), "little", signed=True)
        if not 0 < dimension <= _MOST_DIMENSIONS:
            raise FormatError(
                location.text,
                f"at byte 0 the dimension is {dimension}",
                f"a dimension from 1 to {_MOST_DIMENSIONS}",
                row=0,
            )
        row_bytes = _HEADER.itemsize + dimension * self.stored.itemsize
        rows, left_over = divmod(location.size, row_bytes)
        if left_over:
            raise FormatError(
                location.text,
                f"{location.size} bytes are not a whole number of rows of {row_bytes} bytes "
                f"({left_over} left over at byte {rows * row_bytes})",
                f"rows of one int32 and {dimension} {self.stored.name} each",
            )
        return VecsMatrix(location, 0, (rows, dimension), self.stored, _HEADER.itemsize)

    def read_truth(
        self, location: Location, metric: Metric | None, corpus: Records | None = None
    ) -> Truth | None:
        """An ivecs file as the neighbors of each query."""
        return matrix_truth(self._matrix(location), None, metric, location.text)

    def read_answers(self, location: Location) -> Answers | None:
        """An ivecs file as the answers to each query."""
        return matrix_answers(self._matrix(location), location.text)

    def write(self, records: Records, path: Path) -> None:
        """Write every row behind its dimension."""
        append_blocks(path, self._framed(records))

    def _framed(self, records: Records) -> Iterator[NDArray[np.void]]:
        kind = [("dimension", _HEADER), ("vector", self.stored, (records.dimension,))]
        for _, block in blocks(records.vectors):
            framed = np.empty(len(block), kind)
            framed["dimension"] = records.dimension
            framed["vector"] = widened(block, self.stored, records.name)
            yield framed


class Fvecs(_Vecs):
    """float32 rows."""

    name, suffixes, stored = "fvecs", (".fvecs",), np.dtype("<f4")


class Bvecs(_Vecs):
    """uint8 rows."""

    name, suffixes, stored = "bvecs", (".bvecs",), np.dtype("u1")


class Ivecs(_Vecs):
    """int32 rows: the neighbors of each query."""

    name, suffixes, stored = "ivecs", (".ivecs",), np.dtype("<i4")
