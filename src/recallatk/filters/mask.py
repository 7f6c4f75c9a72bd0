"""A filter evaluated on Arrow metadata, with SQL's three-valued logic."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from recallatk.errors import FilterError
from recallatk.filters.expression import (
    And,
    Equals,
    Exists,
    Filter,
    In,
    Literal,
    Not,
    Or,
    Range,
    literal_text,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_COMPARE = {
    "gte": pc.greater_equal,
    "gt": pc.greater,
    "lte": pc.less_equal,
    "lt": pc.less,
}
_NULL = pa.scalar(None, pa.bool_())


def mask(condition: Filter, metadata: pa.Table) -> NDArray[np.bool_]:
    """One truth value per row of `metadata`; null counts as false, at the very end only."""
    missing = sorted(condition.columns() - set(metadata.column_names))
    if missing:
        known = ", ".join(metadata.column_names) or "none"
        raise FilterError(f"filter '{condition}': no column {missing[0]!r}. The columns are: {known}")
    try:
        truth = pc.fill_null(_evaluate(condition, metadata), False)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as problem:
        raise FilterError(f"filter '{condition}': {problem}") from problem
    combined = truth.combine_chunks() if isinstance(truth, pa.ChunkedArray) else truth
    result: NDArray[np.bool_] = combined.to_numpy(zero_copy_only=False).astype(bool)
    return result


def _evaluate(condition: Filter, metadata: pa.Table) -> Any:
    match condition:
        case And(operands):
            return _fold(pc.and_kleene, [_evaluate(each, metadata) for each in operands])
        case Or(operands):
            return _fold(pc.or_kleene, [_evaluate(each, metadata) for each in operands])
        case Not(operand):
            return pc.invert(_evaluate(operand, metadata))
        case Exists(column):
            return pc.is_valid(metadata[column])
        case Equals(column, value):
            return _among(_plain(metadata[column]), column, (value,))
        case In(column, values):
            return _among(_plain(metadata[column]), column, values)
        case Range(column):
            plain = _plain(metadata[column])
            bounds = condition.bounds().items()
            return _fold(pc.and_kleene, [_bounded(plain, column, *bound) for bound in bounds])
    raise FilterError(f"{type(condition).__name__} is no kind of filter")


def _fold(combine: Any, parts: list[Any]) -> Any:
    result = parts[0]
    for part in parts[1:]:
        result = combine(result, part)
    return result


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column without dictionary encoding and with integers widened."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_integer(column.type) and not pa.types.is_uint64(column.type):
        return column.cast(pa.int64())
    if pa.types.is_floating(column.type):
        return column.cast(pa.float64())
    return column


def _among(column: pa.ChunkedArray, name: str, values: tuple[Literal, ...]) -> Any:
    """Null where the column is null: Arrow's own `is_in` would say false there."""
    possible = [value for value in values if not _impossible(column, value)]
    scalars = [_scalar(column, name, value) for value in possible]
    wanted = pa.array([scalar.as_py() for scalar in scalars], column.type)
    return pc.if_else(pc.is_valid(column), pc.is_in(column, value_set=wanted), _NULL)


def _bounded(column: pa.ChunkedArray, name: str, bound: str, value: Literal) -> Any:
    if _impossible(column, value):
        # No integer of the column's type equals this number, so the bound moves to the nearest one
        # that is inside, or holds for every row or for none; the comparison stays exact.
        low, high = _limits(column.type)
        lower = bound in ("gte", "gt")
        if value > high or value < low:  # type: ignore[operator]
            return _wherever_valid(column, lower == (value < low))  # type: ignore[operator]
        bound, value = ("gte", math.ceil(value)) if lower else ("lte", math.floor(value))  # type: ignore[arg-type]
    return _COMPARE[bound](column, _scalar(column, name, value))


def _wherever_valid(column: pa.ChunkedArray, truth: bool) -> Any:
    return pc.if_else(pc.is_valid(column), truth, _NULL)


def _impossible(column: pa.ChunkedArray, value: Literal) -> bool:
    """Whether no integer of the column's type can equal the number."""
    if not pa.types.is_integer(column.type) or isinstance(value, str | bool):
        return False
    low, high = _limits(column.type)
    return not low <= value <= high or int(value) != value


def _limits(kind: pa.DataType) -> tuple[int, int]:
    return (0, 2**64 - 1) if pa.types.is_uint64(kind) else (-(2**63), 2**63 - 1)


def _scalar(column: pa.ChunkedArray, name: str, value: Literal) -> pa.Scalar:
    """The value in the column's own type, or an error that names both types."""
    kind, types = column.type, pa.types
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if number and types.is_integer(kind):
        return pa.scalar(int(value), kind)
    if number and (types.is_floating(kind) or types.is_decimal(kind)):
        return pa.scalar(value).cast(kind)
    if isinstance(value, bool) and types.is_boolean(kind):
        return pa.scalar(value)
    textual = types.is_string(kind) or types.is_large_string(kind) or types.is_temporal(kind)
    if isinstance(value, str) and textual:
        return pa.scalar(value).cast(kind)
    raise FilterError(f"column {name!r} holds {kind} and cannot be compared with {literal_text(value)}")
