"""NPY: one numpy array, mapped and never unpickled."""

from __future__ import annotations

import io
import warnings
from typing import TYPE_CHECKING, Any

from numpy.lib import format as npy_format

from recallatk.core import Records, blocks
from recallatk.datasets.answer_tables import matrix_answers
from recallatk.datasets.imported import matrix_truth
from recallatk.datasets.matrix import NO_COLUMNS, FileMatrix, append_blocks
from recallatk.datasets.source import ROWS, Format, OpenOptions, Source
from recallatk.errors import FormatError
from recallatk.files import reading

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np

    from recallatk.core import Answers, Metric, Truth
    from recallatk.files import Location

MAGIC = b"\x93NUMPY"
# numpy itself refuses headers beyond 10,000 characters.
HEADER_BYTES = 16_384
_NUMBERS = "float16, float32, float64, int8 or uint8 (int32 or int64 for neighbors)"
_ACCEPTED_KINDS = frozenset(["f2", "f4", "f8", "i1", "u1", "i4", "i8", "u4", "u8"])
_ANSWER_KINDS = "iufU"


def read_header(head: bytes, where: str) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    """Shape, column-major or not, type and the offset of the data, from a file's first bytes."""
    if not head.startswith(MAGIC):
        raise FormatError(where, f"it begins with {head[:6]!r}", f"{MAGIC!r}, a numpy array")
    with reading(where, "NPY file"), warnings.catch_warnings():
        # numpy warns of headers that Python 2 wrote, and Python of odd escapes in damaged ones.
        warnings.simplefilter("ignore")
        stream = io.BytesIO(head)
        version = npy_format.read_magic(stream)
        if version not in ((1, 0), (2, 0)):
            raise FormatError(where, f"NPY version {version[0]}.{version[1]}", "1.0 or 2.0")
        read = getattr(npy_format, f"read_array_header_{version[0]}_{version[1]}")
        shape, column_major, dtype = read(stream)
    if dtype.hasobject:
        raise FormatError(where, "it holds Python objects, a pickle", f"numbers: {_NUMBERS}")
    return shape, column_major, dtype, stream.tell()


def check_matrix(where: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> tuple[int, int]:
    """The shape of a matrix of numbers that can be vectors or neighbors."""
    checked = _check_shape(where, shape, "a matrix of vectors, one per row")
    if dtype.str[1:] not in _ACCEPTED_KINDS:
        raise FormatError(where, f"an array of {dtype}", _NUMBERS)
    return checked


def _check_shape(where: str, shape: tuple[int, ...], accepted: str) -> tuple[int, int]:
    if len(shape) != 2 or 0 in shape or min(shape) < 0:
        raise FormatError(where, f"an array of shape {shape}", accepted)
    return shape[0], shape[1]


def npy_matrix(location: Location) -> FileMatrix:
    """The array of an NPY file, with its length checked."""
    shape, column_major, dtype, offset = read_header(location.read_at(0, HEADER_BYTES), location.text)
    rows, dimension = check_matrix(location.text, shape, dtype)
    return _file_matrix(location, offset, (rows, dimension), dtype, column_major=column_major)


def _answer_matrix(location: Location) -> FileMatrix:
    """The array of an NPY file when it can be ids: integers of any width, or strings."""
    shape, column_major, dtype, offset = read_header(location.read_at(0, HEADER_BYTES), location.text)
    shape = _check_shape(location.text, shape, "a matrix of ids, one row per query")
    if dtype.kind not in _ANSWER_KINDS or dtype.itemsize == 0:
        raise FormatError(location.text, f"an array of {dtype}", "a matrix of integers or strings")
    return _file_matrix(location, offset, shape, dtype, column_major=column_major)


def _file_matrix(
    location: Location, offset: int, shape: tuple[int, int], dtype: np.dtype[Any], *, column_major: bool
) -> FileMatrix:
    matrix = FileMatrix(location, offset, shape, dtype, column_major=column_major)
    check_length(location, matrix.end)
    return matrix


def check_length(location: Location, expected: int) -> None:
    """Refuse a file that is shorter or longer than its header says."""
    if location.size != expected:
        problem = "is truncated" if location.size < expected else "has bytes after its end"
        raise FormatError(
            location.text,
            f"the file {problem}: {location.size} bytes, but its header says {expected}",
            "a file whose length matches its header",
        )


class Npy(Format):
    """A two-dimensional array; the id of a vector is its row number."""

    name = "npy"
    suffixes = (".npy",)
    magics = (MAGIC,)
    writable = True

    def open(self, shards: list[Location], options: OpenOptions) -> Source:
        """Open the one array of the file."""
        (location,) = shards
        records = Records(location.text, npy_matrix(location), NO_COLUMNS)
        return Source(location.text, self.name, {ROWS: records})

    def read_truth(
        self, location: Location, metric: Metric | None, corpus: Records | None = None
    ) -> Truth | None:
        """An integer matrix as the neighbors of each query."""
        return matrix_truth(npy_matrix(location), None, metric, location.text)

    def read_answers(self, location: Location) -> Answers | None:
        """A matrix of integers or strings as the answers to each query."""
        return matrix_answers(_answer_matrix(location), location.text)

    def write(self, records: Records, path: Path) -> None:
        """Write the vectors in row order."""
        header = {
            "descr": npy_format.dtype_to_descr(records.vectors.dtype),
            "fortran_order": False,
            "shape": records.vectors.shape,
        }
        with path.open("wb") as file:
            npy_format.write_array_header_1_0(file, header)
        append_blocks(path, (block for _, block in blocks(records.vectors)))
