"""fbin, hbin, u8bin, i8bin and ibin: a header of two counts, then the numbers."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from recallatk.core import Records, blocks
from recallatk.datasets.answer_tables import matrix_answers
from recallatk.datasets.conversion import widened
from recallatk.datasets.imported import matrix_truth
from recallatk.datasets.matrix import NO_COLUMNS, FileMatrix, append_blocks
from recallatk.datasets.source import ROWS, Format, OpenOptions, Source
from recallatk.errors import FormatError, UsageError
from recallatk.files import read_exactly

if TYPE_CHECKING:
    from pathlib import Path

    from recallatk.core import Answers, Metric, Truth
    from recallatk.files import Location

# The header is two unsigned integers: of 4 bytes in most files, of 8 in those of more than 2^32 rows.
_HEADERS = (struct.Struct("<II"), struct.Struct("<QQ"))


def _headers(location: Location) -> list[tuple[int, int, int]]:
    """Every way to read the header: its length, rows and dimension."""
    read = [
        (layout.size, *layout.unpack(read_exactly(location, 0, layout.size)))
        for layout in _HEADERS
        if location.size >= layout.size
    ]
    if not read:
        raise FormatError(location.text, f"only {location.size} bytes", "a header of 8 bytes")
    return [(size, rows, columns) for size, rows, columns in read]


class _Xbin(Format):
    stored: ClassVar[np.dtype[Any]]
    headerless = True
    writable = True

    def open(self, shards: list[Location], options: OpenOptions) -> Source:
        """Open the matrix; the length of the file tells which header it has."""
        (location,) = shards
        records = Records(location.text, self._matrix(location), NO_COLUMNS)
        return Source(location.text, self.name, {ROWS: records})

    def _matrix(self, location: Location, behind: int = 0) -> FileMatrix:
        """The matrix; `behind` bytes of other data may follow each of its numbers."""
        headers = _headers(location)
        for offset, rows, columns in headers:
            length = rows * columns * (self.stored.itemsize + behind)
            if location.size == offset + length and rows and columns:
                return FileMatrix(location, offset, (rows, columns), self.stored)
        _, rows, columns = headers[0]
        raise FormatError(
            location.text,
            f"{location.size} bytes do not match its header (at byte 0: {rows} rows, "
            f"{columns} columns of {self.stored.name})",
            f"8 + rows * columns * {self.stored.itemsize} bytes, or 16 with a 64-bit header",
        )

    def read_answers(self, location: Location) -> Answers | None:
        """An ibin file as the answers to each query."""
        return matrix_answers(self._matrix(location), location.text)

    def write(self, records: Records, path: Path) -> None:
        """Write the counts, then the numbers."""
        rows, columns = records.vectors.shape
        path.write_bytes(_HEADERS[max(rows, columns) >= 1 << 32].pack(rows, columns))
        append_blocks(
            path,
            (widened(block, self.stored, records.name) for _, block in blocks(records.vectors)),
        )


class Fbin(_Xbin):
    """float32 numbers."""

    name, suffixes, stored = "fbin", (".fbin",), np.dtype("<f4")


class Hbin(_Xbin):
    """float16 numbers."""

    name, suffixes, stored = "hbin", (".hbin",), np.dtype("<f2")


class U8bin(_Xbin):
    """uint8 numbers."""

    name, suffixes, stored = "u8bin", (".u8bin",), np.dtype("u1")


class I8bin(_Xbin):
    """int8 numbers."""

    name, suffixes, stored = "i8bin", (".i8bin",), np.dtype("i1")


class Ibin(_Xbin):
    """int32 numbers: neighbors, alone or with a float32 distance for each after them all."""

    name, suffixes, stored = "ibin", (".ibin",), np.dtype("<i4")

    def open(self, shards: list[Location], options: OpenOptions) -> Source:
        """Open the neighbors; distances after them are named, and read with the truth."""
        extra = ("distances",) if self._has_distances(shards[0]) else ()
        return replace(super().open(shards, options), extra=extra)

    def _matrix(self, location: Location, behind: int = 0) -> FileMatrix:
        if behind == 0 and self._has_distances(location):
            return super()._matrix(location, behind=4)
        return super()._matrix(location, behind)

    def _has_distances(self, location: Location) -> bool:
        return any(
            rows and columns and location.size == offset + rows * columns * 8
            for offset, rows, columns in _headers(location)
        )

    def read_truth(
        self, location: Location, metric: Metric | None, corpus: Records | None = None
    ) -> Truth | None:
        """Neighbors as big-ann-benchmarks stores them; distances count once a metric is stated."""
        ids = self._matrix(location)
        if not self._has_distances(location):
            return matrix_truth(ids, None, metric, location.text)
        if metric is not None and metric not in ("l2", "ip"):
            raise UsageError(f"{location.text}: its distances are squared l2 or ip, not {metric}")
        return matrix_truth(ids, _distances(ids), metric, location.text, squared=True)

    def read_answers(self, location: Location) -> Answers | None:
        """Neighbors, with the distances after them where there are some."""
        ids = self._matrix(location)
        distances = _distances(ids) if self._has_distances(location) else None
        return matrix_answers(ids, location.text, distances)


def _distances(ids: FileMatrix) -> FileMatrix:
    return FileMatrix(ids.location, ids.end, ids.shape, np.dtype("<f4"))
