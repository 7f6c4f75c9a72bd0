"""NPZ: a zip of numpy arrays, one of them the vectors and the others columns beside it."""

from __future__ import annotations

import threading
import zipfile
import zlib
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from recallatk.core import VECTOR_DTYPES, Records
from recallatk.datasets.formats.npy import HEADER_BYTES, check_matrix, read_header
from recallatk.datasets.layout import FILTER_NAME, ID_NAMES, TEXT_NAMES, VECTOR_NAMES
from recallatk.datasets.matrix import FileMatrix
from recallatk.datasets.source import ROWS, Format, OpenOptions, Source
from recallatk.errors import FormatError, UsageError, choices
from recallatk.files import read_exactly, reading

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recallatk.core import Vectors
    from recallatk.files import Location

_LOCAL_HEADER_BYTES = 30
_RECOGNIZED = frozenset([*ID_NAMES, *TEXT_NAMES, FILTER_NAME])


@dataclass(frozen=True)
class _Member:
    info: zipfile.ZipInfo
    shape: tuple[int, ...]
    column_major: bool
    dtype: np.dtype[Any]
    offset: int

    @property
    def end(self) -> int:
        return self.offset + int(np.prod(self.shape, dtype=object)) * self.dtype.itemsize


class _RunningChecksum:
    """The checksum of what has been read so far, as long as it is read in order."""

    def __init__(self, before: bytes) -> None:
        self.before = zlib.crc32(before)
        self.lock = threading.Lock()
        self.row, self.value = 0, self.before

    def add(self, start: int, stop: int, raw: NDArray[np.uint8]) -> int | None:
        """The checksum up to `stop`; None when the rows before `start` were not the last ones seen."""
        with self.lock:
            if start == 0:
                self.row, self.value = 0, self.before
            if start != self.row:
                return None
            self.row, self.value = stop, zlib.crc32(raw.data, self.value)
            return self.value


@dataclass(frozen=True, eq=False)
class StoredMatrix(FileMatrix):
    """An uncompressed array, mapped; whoever reads it through in order learns of a damaged number."""

    checksum: int = 0
    running: _RunningChecksum = field(default_factory=lambda: _RunningChecksum(b""))

    def raw(self, start: int, stop: int) -> NDArray[np.uint8]:
        """The bytes of some rows, compared with the checksum of the archive after the last one."""
        raw = super().raw(start, stop)
        found = self.running.add(start, stop, raw)
        if stop == self.shape[0] and found not in (None, self.checksum):
            raise FormatError(
                self.location.text, "its data do not match the archive's checksum", "an intact NPZ file"
            )
        return raw


@dataclass(frozen=True, eq=False)
class ZippedMatrix:
    """A compressed array: reading on is cheap, reading back starts at the beginning again."""

    archive: zipfile.ZipFile
    member: str
    offset: int
    shape: tuple[int, int]
    stored: np.dtype[Any]
    where: str
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type in memory."""
        return self.stored.newbyteorder("=")

    @cached_property
    def _file(self) -> Any:
        return self.archive.open(self.member)

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Some rows, decompressed."""
        row_bytes = self.shape[1] * self.stored.itemsize
        with self.lock, reading(self.where, "NPZ file"):
            self._file.seek(self.offset + start * row_bytes)
            raw = self._file.read((stop - start) * row_bytes)
            rows = np.frombuffer(raw, self.stored).reshape(stop - start, self.shape[1])
        return rows.astype(self.dtype, copy=False)


@dataclass(frozen=True, eq=False)
class ZippedColumns:
    """The one-dimensional arrays of the archive, loaded when they are first asked for."""

    archive: zipfile.ZipFile
    members: dict[str, _Member]
    where: str

    @cached_property
    def _table(self) -> pa.Table:
        return pa.table({name: self._load(member) for name, member in self.members.items()})

    def _load(self, member: _Member) -> pa.Array:
        with reading(self.where, "NPZ file"):
            raw = self.archive.read(member.info)[member.offset :]
            return pa.array(np.frombuffer(raw, member.dtype).astype(member.dtype.newbyteorder("=")))

    @property
    def schema(self) -> pa.Schema:
        """Names and types."""
        return self._table.schema

    def read(self, names: list[str], start: int, stop: int) -> pa.Table:
        """Some columns of some rows."""
        return self._table.select(names).slice(start, stop - start)


class Npz(Format):
    """`numpy.savez` and `numpy.savez_compressed`: a matrix, and arrays with one value per row."""

    name = "npz"
    suffixes = (".npz",)
    magics = (b"PK\x03\x04",)

    def open(self, shards: list[Location], options: OpenOptions) -> Source:
        """Open the matrix of the archive, and the other arrays as columns."""
        (location,) = shards
        with reading(location.text, "NPZ file"):
            archive = zipfile.ZipFile(location.open())
        if any(name.endswith((".pkl", ".pickle")) for name in archive.namelist()):
            raise FormatError(location.text, "it holds a pickle", "numpy arrays only")
        members = {name: _member(archive, name, location) for name in archive.namelist()}
        members = {name.removesuffix(".npy"): member for name, member in members.items()}
        vector = _vector_name(members, options.vector_column, location.text)
        check_matrix(location.text, members[vector].shape, members[vector].dtype)
        beside = _columns(members, vector, options.id_column, location.text)
        records = Records(
            location.text,
            _matrix(archive, members[vector], location),
            ZippedColumns(archive, beside, location.text),
            _identifier(beside, options.id_column, location.text),
        )
        return Source(location.text, self.name, {ROWS: records})


def _member(archive: zipfile.ZipFile, name: str, location: Location) -> _Member:
    info = archive.getinfo(name)
    where = f"{location.text} ({name})"
    with reading(where, "NPZ file"), archive.open(info) as file:
        head = file.read(HEADER_BYTES)
    member = _Member(info, *read_header(head, where))
    if member.end != info.file_size:
        raise FormatError(
            where,
            f"{info.file_size} bytes, but its header says {member.end}",
            "an array whose length matches its header",
        )
    return member


def _columns(
    members: dict[str, _Member], vector: str, id_column: str | None, where: str
) -> dict[str, _Member]:
    """The arrays with one value for each vector; an array that was meant to be one is refused."""
    rows, dimension = members[vector].shape
    # Of another matrix of the archive, of the components, such as their mean, or of the whole.
    others = {member.shape[0] for member in members.values() if _can_be_vectors(member)} | {1, dimension}
    found = {}
    for name, member in members.items():
        if member.shape == (rows,) and name != vector:
            found[name] = member
            continue
        named = name in _RECOGNIZED or name == id_column
        column = len(member.shape) == 1 and member.shape[0] not in others
        column |= member.shape[1:] == (1,) and not _can_be_vectors(member)
        if name != vector and (named or column):
            raise FormatError(
                f"{where} ({name})",
                f"an array of shape {member.shape}, and {vector!r} has {rows} vectors",
                f"shape ({rows},), one value for each vector",
            )
    return found


def _can_be_vectors(member: _Member) -> bool:
    return len(member.shape) == 2 and member.dtype.newbyteorder("=").name in VECTOR_DTYPES


def _identifier(beside: dict[str, _Member], asked: str | None, where: str) -> str | None:
    """The array with the ids: the one asked for, or the one of a usual name."""
    fitting = [name for name, member in beside.items() if member.dtype.kind in "iuUS"]
    if asked is not None and asked not in fitting:
        raise UsageError(
            f"{where}: {asked!r} is not an array of strings or integers, one per vector. "
            f"Accepted: {choices(fitting) or 'none'}"
        )
    usual = next((name for name in ID_NAMES if name in beside), None)
    if asked is None and usual is not None and usual not in fitting:
        raise FormatError(
            f"{where} ({usual})",
            f"ids of type {beside[usual].dtype}",
            "strings or integers",
            hint="Name another array: --id-column NAME",
        )
    return asked or usual


def _vector_name(members: dict[str, _Member], asked: str | None, where: str) -> str:
    matrices = [name for name, member in members.items() if len(member.shape) == 2 and name not in ID_NAMES]
    if asked is not None:
        if asked in matrices:
            return asked
        raise UsageError(f"{where}: {asked!r} is not a matrix. Matrices: {choices(matrices) or 'none'}")
    usual = [name for name in VECTOR_NAMES if name in matrices]
    if usual or len(matrices) == 1:
        return (usual or matrices)[0]
    if not matrices:
        raise FormatError(where, f"its arrays are {choices(members) or 'none'}", "a matrix")
    raise UsageError(
        f"{where}: several arrays could be the vectors: {choices(matrices)}. "
        f"Name one: --vector-column {matrices[0]}"
    )


def _matrix(archive: zipfile.ZipFile, member: _Member, location: Location) -> Vectors:
    rows, dimension = check_matrix(location.text, member.shape, member.dtype)
    if member.info.compress_type == zipfile.ZIP_STORED:
        header = read_exactly(location, member.info.header_offset, _LOCAL_HEADER_BYTES)
        names = int.from_bytes(header[26:28], "little") + int.from_bytes(header[28:30], "little")
        begin = member.info.header_offset + _LOCAL_HEADER_BYTES + names
        return StoredMatrix(
            location,
            begin + member.offset,
            (rows, dimension),
            member.dtype,
            column_major=member.column_major,
            checksum=member.info.CRC,
            running=_RunningChecksum(read_exactly(location, begin, member.offset)),
        )
    if member.column_major:
        raise FormatError(
            location.text, "a compressed matrix in column order", "row order, or no compression"
        )
    return ZippedMatrix(
        archive, member.info.filename, member.offset, (rows, dimension), member.dtype, location.text
    )
