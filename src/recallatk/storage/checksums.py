"""Checksums of run files: damaged files are refused, never shown as measurements."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from blake3 import blake3

from recallatk.errors import FormatError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

CHECKSUM = "checksum"
# The first run format with checksums.
CHECKED_VERSION = 3
_HEX_DIGITS = 32


def text_checksum(text: str) -> str:
    """Checksum of a text."""
    return blake3(text.encode()).hexdigest()[:_HEX_DIGITS]


def sealed(header: Mapping[str, Any]) -> str:
    """A header as JSON, including its checksum."""
    return json.dumps({**header, CHECKSUM: text_checksum(json.dumps(header))})


def require_sound(where: str, header: Mapping[str, Any], text: str) -> None:
    """Refuse a header whose checksum does not match; formats without checksums pass.

    Args:
        where: the file, for the message.
        header: the header as read.
        text: the header as text, without the checksum.
    """
    version, stated = int(header["format_version"]), header.get(CHECKSUM)
    # The version itself may be damaged, so a checksum counts in every version.
    if version < CHECKED_VERSION and stated is None:
        return
    if stated != text_checksum(text):
        raise damaged(where, "its checksum does not match its content")


def require_columns(where: str, table: pa.Table, stated: Mapping[str, str]) -> None:
    """Refuse a table with a column whose checksum does not match."""
    for name in table.column_names:
        if column_checksum(table[name]) != stated.get(name):
            raise damaged(where, f"the checksum of column {name!r} does not match")


def damaged(where: str, found: str) -> FormatError:
    """The error for a file whose content changed after it was written."""
    hint = "Restore an intact copy, or resume the run: `recallatk run` measures damaged trials again"
    return FormatError(where, found, "the file as originally written", hint=hint)


def column_checksum(column: pa.ChunkedArray) -> str:
    """Checksum of a column's values, independent of chunks and encodings."""
    state = blake3()
    _take(state.update, column.combine_chunks() if column.num_chunks != 1 else column.chunk(0))
    return state.hexdigest()[:_HEX_DIGITS]


def _take(update: Any, array: pa.Array) -> None:
    types, kind = pa.types, array.type
    update(f"{len(array)} {array.null_count}".encode())
    if array.null_count:
        update(np.packbits(array.is_valid().to_numpy(zero_copy_only=False)).data)
    if types.is_list(kind) or types.is_large_list(kind):
        update(_bytes(array.value_lengths().fill_null(0).cast(pa.int64()).to_numpy()))
        _take(update, array.flatten())
    elif types.is_struct(kind):
        for part in array.flatten():
            _take(update, part)
    elif types.is_integer(kind) or types.is_floating(kind):
        wide = pa.int64() if types.is_integer(kind) else pa.float64()
        update(_bytes(array.fill_null(0).cast(wide).to_numpy()))
    else:
        _take_texts(update, array.cast(pa.large_string()).fill_null(""))


def _take_texts(update: Any, array: pa.Array) -> None:
    offsets = np.frombuffer(array.buffers()[1], np.int64)[array.offset : array.offset + len(array) + 1]
    update(_bytes(np.diff(offsets)))
    data = array.buffers()[2]
    if data is not None and len(offsets):
        update(data[int(offsets[0]) : int(offsets[-1])])


def _bytes(values: NDArray[Any]) -> Any:
    return np.ascontiguousarray(values).view(np.uint8).data


def column_checksums(table: pa.Table) -> dict[str, str]:
    """Checksum of every column by name."""
    return {name: column_checksum(table[name]) for name in table.column_names}
