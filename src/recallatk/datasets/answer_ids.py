"""Ids and scores of other systems, normalized to int64 or string, and float64."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recallatk.errors import BadValueError, FormatError

if TYPE_CHECKING:
    from numpy.typing import NDArray

_LARGEST = np.iinfo(np.int64).max
# Above these, a float has been rounded to a neighbor of the id that it was.
_EXACT_BITS = {pa.float16(): 11, pa.float32(): 24, pa.float64(): 53}
# One string array addresses no more bytes than this.
_MOST_TEXT_BYTES = (1 << 31) - 1


class CellPlaces:
    """Location of a value: file, column and row."""

    def __init__(self, where: str, column: str, offsets: NDArray[np.int64] | None = None) -> None:
        self.where, self.column, self.offsets = where, column, offsets

    def row(self, position: int) -> int:
        """The row of a value; with offsets, the row whose list holds it."""
        if self.offsets is None:
            return position
        return int(np.searchsorted(self.offsets, position, "right")) - 1

    def bad_value(self, position: int, found: str, accepted: str) -> BadValueError:
        """The error that a value causes."""
        found = f"{found} in the column {self.column!r}"
        return BadValueError(self.where, found, accepted, row=self.row(position))


def is_text(kind: pa.DataType) -> bool:
    """Whether values of this type are strings, however they are laid out."""
    types = pa.types
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def plain(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Values decoded from dictionaries and string views, which not every function supports."""
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    return values.cast(pa.large_string()) if pa.types.is_string_view(values.type) else values


def settled_ids(values: pa.ChunkedArray, places: CellPlaces) -> pa.Array:
    """Ids of any width or encoding as int64 or string; null and NaN are null."""
    values = plain(values)
    kind = values.type
    if is_text(kind):
        return _joined_text(values, places.where)
    if pa.types.is_null(kind):
        return joined(values.cast(pa.int64()))
    if pa.types.is_floating(kind):
        return joined(_whole(values, places))
    if pa.types.is_uint64(kind):
        _refuse(pc.greater(values, pa.scalar(_LARGEST, pa.uint64())), values, places, "ids that fit int64")
    elif not pa.types.is_integer(kind):
        raise FormatError(
            places.where, f"the column {places.column!r} has ids of type {kind}", "strings or integers"
        )
    return joined(values.cast(pa.int64()))


def ids_from_text(texts: pa.ChunkedArray, where: str) -> pa.Array:
    """Ids of a file without types: integers when every one is a plain decimal one, else strings."""
    try:
        whole = texts.cast(pa.int64())
    except pa.ArrowInvalid:
        return _joined_text(texts, where)
    as_written = pc.all(pc.equal(whole.cast(texts.type), texts), min_count=0).as_py()
    return joined(whole) if as_written else _joined_text(texts, where)


def settled_numbers(values: pa.ChunkedArray, places: CellPlaces) -> NDArray[np.float64]:
    """Scores or ranks as float64; null is NaN."""
    values = plain(values)
    kind = values.type
    number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    if not (number or is_text(kind) or pa.types.is_null(kind)):
        raise FormatError(places.where, f"the column {places.column!r} holds {kind}", "numbers")
    try:
        cast = values.cast(pa.float64(), safe=False)
    except pa.ArrowInvalid:
        position, text = _first_no_number(values)
        raise places.bad_value(position, f"{text!r:.60} is not a number", "numbers") from None
    numbers: NDArray[np.float64] = joined(cast).fill_null(np.nan).to_numpy(zero_copy_only=False)
    return numbers


def joined(values: pa.ChunkedArray) -> pa.Array:
    """The values as one array."""
    if values.num_chunks == 1:
        return values.chunk(0)
    return pa.concat_arrays(values.chunks) if values.num_chunks else pa.array([], values.type)


def first_true(truths: pa.ChunkedArray) -> int | None:
    """The first position that is true; a null is not."""
    position = pc.index(truths, pa.scalar(True)).as_py()
    return None if position < 0 else int(position)


def _joined_text(values: pa.ChunkedArray, where: str) -> pa.Array:
    length = sum(pc.sum(pc.binary_length(chunk)).as_py() or 0 for chunk in values.chunks)
    if length > _MOST_TEXT_BYTES:
        raise BadValueError(where, f"ids of {length} bytes together", "2 GiB of text; write several files")
    return joined(values.cast(pa.string()))


def _whole(values: pa.ChunkedArray, places: CellPlaces) -> pa.ChunkedArray:
    """Floats as the integers that they were before a gap among them made pandas widen them."""
    most = float(1 << _EXACT_BITS[values.type])
    values = values.cast(pa.float64())
    values = pc.if_else(pc.is_nan(values), pa.scalar(None, pa.float64()), values)
    _refuse(pc.not_equal(pc.floor(values), values), values, places, "ids that are strings or whole numbers")
    _refuse(pc.greater(pc.abs(values), most), values, places, f"ids stored as floats up to {most:.0f}")
    return values.cast(pa.int64())


def _refuse(wrong: Any, values: pa.ChunkedArray, places: CellPlaces, accepted: str) -> None:
    position = first_true(wrong)
    if position is not None:
        raise places.bad_value(position, f"{values[position]} is not an id", accepted)


def _first_no_number(texts: pa.ChunkedArray) -> tuple[int, str]:
    """First text that is not a number, found by bisection."""
    first, last = 0, len(texts)
    while last - first > 1:
        middle = (first + last) // 2
        if _refused(texts.slice(first, middle - first)):
            last = middle
        else:
            first = middle
    return first, str(texts[first])


def _refused(texts: pa.ChunkedArray) -> bool:
    try:
        texts.cast(pa.float64())
    except pa.ArrowInvalid:
        return True
    return False
