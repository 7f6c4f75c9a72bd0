"""Metadata columns in the widest type of their kind, and literals converted to it exactly."""

from __future__ import annotations

import contextlib
from decimal import Decimal
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recallatk.errors import FilterError
from recallatk.filters.expression import Literal, literal_text, name_text
from recallatk.filters.moments import accepted_moment, is_moment, ticks_of

if TYPE_CHECKING:
    from fractions import Fraction

    from numpy.typing import NDArray

    Comparable: TypeAlias = Literal | Fraction

# 38 digits on each side of the decimal point.
_DECIMAL = pa.decimal256(76, 38)


def plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column in the widest type of its kind, without dictionary encoding; NaN becomes null, as in SQL."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_integer(column.type) and not pa.types.is_uint64(column.type):
        return column.cast(pa.int64())
    if pa.types.is_floating(column.type):
        # Adding 0 turns -0.0 into 0.0, because `is_in` would distinguish them.
        wide = pc.add(column.cast(pa.float64()), 0.0)
        return pc.if_else(pc.is_nan(wide), pa.scalar(None, pa.float64()), wide)
    if pa.types.is_decimal(column.type):
        return column.cast(_DECIMAL)
    if pa.types.is_string_view(column.type):
        return column.cast(pa.large_string())
    return column


def is_text(kind: pa.DataType) -> bool:
    """Whether columns of this type hold text."""
    types = pa.types
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def tag_type(kind: pa.DataType) -> pa.DataType | None:
    """The widest type of the elements in lists of text or whole numbers; None for other types."""
    types = pa.types
    # Arrow 26 loses elements when it casts list views.
    if not (types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)):
        return None
    element = kind.value_type.value_type if types.is_dictionary(kind.value_type) else kind.value_type
    if is_text(element):
        return pa.large_string()
    if types.is_integer(element) and not types.is_uint64(element):
        return pa.int64()
    return element if types.is_null(element) else None


def tags(column: pa.ChunkedArray, name: str) -> tuple[NDArray[np.int64], pa.Array]:
    """The row and the value of every element in a column of lists; null elements are left out."""
    element = tag_type(column.type)
    if element is None:
        raise FilterError(
            f"column {name!r} holds {column.type}, and 'contains' needs lists of text or whole numbers"
        )
    # A null list may have elements, and Arrow's kernels disagree on whether these count.
    rows = np.flatnonzero(column.is_valid().to_numpy())
    whole = column.cast(pa.large_list(element)).combine_chunks().take(pa.array(rows))
    elements = pc.list_flatten(whole)
    valid = pc.is_valid(elements)
    owners: NDArray[np.int64] = rows[pc.list_parent_indices(whole).filter(valid).to_numpy()]
    return owners, elements.filter(valid)


def comparable(kind: pa.DataType, name: str, value: Literal) -> Comparable:
    """The literal as a column of this type counts it: a date or time in ticks, everything else as it is."""
    if not is_moment(kind):
        return value
    if isinstance(value, str):
        with contextlib.suppress(ValueError):
            return ticks_of(kind, value)
    raise incomparable(kind, name, value)


def converted(kind: pa.DataType, name: str, value: Literal) -> pa.Scalar | None:
    """The literal in a plain column's type; None if the type cannot represent it."""
    if pa.types.is_null(kind):
        return None
    found = comparable(kind, name, value)
    return None if impossible(kind, found) else scalar(kind, name, found)


def impossible(kind: pa.DataType, value: Comparable) -> bool:
    """Whether a plain column's type cannot represent this number."""
    if isinstance(value, str | bool):
        return False
    if pa.types.is_floating(kind):
        # As in SQL, an integer beyond 64 bits is a float.
        return -(2**63) < value < 2**63 and float(value) != value
    if not pa.types.is_integer(kind) and not is_moment(kind):
        return False
    low, high = limits(kind)
    return not low <= value <= high or int(value) != value


def limits(kind: pa.DataType) -> tuple[int, int]:
    """The smallest and the largest number of a plain column's type."""
    if pa.types.is_uint64(kind):
        return 0, 2**64 - 1
    bits = 32 if pa.types.is_date32(kind) or pa.types.is_time32(kind) else 64
    return -(2 ** (bits - 1)), 2 ** (bits - 1) - 1


def scalar(kind: pa.DataType, name: str, value: Comparable) -> pa.Scalar:
    """A comparable in the column's type; raises an error that names both types."""
    types = pa.types
    number = not isinstance(value, bool | str)
    if number and (types.is_integer(kind) or is_moment(kind)):
        return pa.scalar(int(value), kind)
    if number and types.is_floating(kind):
        return pa.scalar(float(value) + 0.0)
    if isinstance(value, bool) and types.is_boolean(kind):
        return pa.scalar(value)
    with contextlib.suppress(pa.ArrowException):
        if number and types.is_decimal(kind):
            return pa.scalar(Decimal(literal_text(value)), kind)  # type: ignore[arg-type]
        if isinstance(value, str) and is_text(kind):
            return pa.scalar(value).cast(kind)
    raise incomparable(kind, name, value)


def incomparable(kind: pa.DataType, name: str, value: Comparable) -> FilterError:
    """The error for a literal of another kind than the column."""
    text = literal_text(value)  # type: ignore[arg-type]
    accepted = ""
    if is_moment(kind):
        accepted = f". Accepted: {accepted_moment(kind)}"
    elif tag_type(kind) is not None:
        accepted = f". Accepted: {name_text(name)} contains {text}"
    return FilterError(f"column {name!r} holds {kind} and cannot be compared with {text}{accepted}")
