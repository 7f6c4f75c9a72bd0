"""Evaluation of a filter on Arrow metadata, with SQL's three-valued logic."""

from __future__ import annotations

import contextlib
import math
from decimal import Decimal
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
# pa.scalar would import pandas, which takes half a second.
_NULL = pa.nulls(1, pa.bool_())[0]
# 38 digits on each side of the decimal point.
_DECIMAL = pa.decimal256(76, 38)


def mask(condition: Filter, metadata: pa.Table) -> NDArray[np.bool_]:
    """One truth value per row of `metadata`; null becomes false only at the end."""
    for name in sorted(condition.columns()):
        count = metadata.column_names.count(name)
        if count != 1:
            known = ", ".join(metadata.column_names) or "none"
            found = f"{count} columns" if count else "no column"
            raise FilterError(f"filter '{condition}': {found} {name!r}. The columns are: {known}")
    try:
        truth = pc.fill_null(_Evaluation(metadata).truth(condition), False)
    except pa.ArrowException as problem:
        raise FilterError(f"filter '{condition}': {problem}") from problem
    combined = truth.combine_chunks() if isinstance(truth, pa.ChunkedArray) else truth
    result: NDArray[np.bool_] = combined.to_numpy(zero_copy_only=False).astype(bool)
    return result


class _Evaluation:
    """Evaluation on one table; each column is converted once."""

    def __init__(self, metadata: pa.Table) -> None:
        self.metadata = metadata
        self.columns: dict[str, pa.ChunkedArray] = {}

    def column(self, name: str) -> pa.ChunkedArray:
        if name not in self.columns:
            self.columns[name] = _plain(self.metadata[name])
        return self.columns[name]

    def truth(self, condition: Filter) -> Any:
        """True, false or null for each row."""
        match condition:
            case And(operands):
                return _fold(pc.and_kleene, [self.truth(each) for each in _joined_and(operands)])
            case Or(operands):
                return _fold(pc.or_kleene, [self.truth(each) for each in _joined_or(operands)])
            case Not(operand):
                return pc.invert(self.truth(operand))
            case Exists(name):
                return pc.is_valid(self.column(name))
            case Equals(name) | In(name) | Range(name):
                column = self.column(name)
                if pa.types.is_null(column.type):
                    return column.cast(pa.bool_())
                return _compared(condition, column)
        raise FilterError(f"{type(condition).__name__} is not a filter")


def _joined_or(operands: tuple[Filter, ...]) -> list[Filter]:
    """The operands, with all equalities on one column merged into one membership test; null stays null."""
    values: dict[str, list[Literal]] = {}
    others: list[Filter] = []
    for each in operands:
        match each:
            case Equals(name, value):
                values.setdefault(name, []).append(value)
            case In(name, several):
                values.setdefault(name, []).extend(several)
            case _:
                others.append(each)
    return [*(In(name, tuple(found)) for name, found in values.items()), *others]


def _joined_and(operands: tuple[Filter, ...]) -> list[Filter]:
    """The operands, with all inequalities on one column merged into one negated membership test."""
    denied: list[Filter] = []
    others: list[Filter] = []
    for each in operands:
        match each:
            case Not(Equals() | In() as value):
                denied.append(value)
            case _:
                others.append(each)
    return [*(Not(each) for each in _joined_or(tuple(denied))), *others]


def _compared(condition: Equals | In | Range, column: pa.ChunkedArray) -> Any:
    match condition:
        case Equals(name, value):
            return _among(column, name, (value,))
        case In(name, values):
            return _among(column, name, values)
    bounds = condition.bounds().items()
    return _fold(pc.and_kleene, [_bounded(column, condition.column, *bound) for bound in bounds])


def _fold(combine: Any, parts: list[Any]) -> Any:
    result = parts[0]
    for part in parts[1:]:
        result = combine(result, part)
    return result


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
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


def _among(column: pa.ChunkedArray, name: str, values: tuple[Literal, ...]) -> Any:
    """Membership, null where the column is null; Arrow's `is_in` returns false there."""
    possible = [value for value in values if not _impossible(column, value)]
    wanted = pa.array([_scalar(column, name, value) for value in possible], column.type)
    return pc.if_else(pc.is_valid(column), pc.is_in(column, value_set=wanted), _NULL)


def _bounded(column: pa.ChunkedArray, name: str, bound: str, value: Literal) -> Any:
    if _impossible(column, value):
        # The column's type cannot represent the bound, so it moves to the nearest number inside,
        # or holds for all rows or none; the comparison stays exact.
        lower = bound in ("gte", "gt")
        if pa.types.is_floating(column.type):
            nearest = float(value)
            above = nearest > value  # type: ignore[operator]
            closest = ("gte" if above else "gt") if lower else ("lt" if above else "lte")
            return _COMPARE[closest](column, pa.scalar(nearest))
        low, high = _limits(column.type)
        if value > high or value < low:  # type: ignore[operator]
            return _wherever_valid(column, lower == (value < low))  # type: ignore[operator]
        bound, value = ("gte", math.ceil(value)) if lower else ("lte", math.floor(value))  # type: ignore[arg-type]
    return _COMPARE[bound](column, _scalar(column, name, value))


def _wherever_valid(column: pa.ChunkedArray, truth: bool) -> Any:
    return pc.if_else(pc.is_valid(column), truth, _NULL)


def _impossible(column: pa.ChunkedArray, value: Literal) -> bool:
    """Whether the column's type cannot represent this number."""
    if isinstance(value, str | bool):
        return False
    if pa.types.is_floating(column.type):
        # As in SQL, an integer beyond 64 bits is a float.
        return abs(value) < 2**63 and float(value) != value
    if not pa.types.is_integer(column.type):
        return False
    low, high = _limits(column.type)
    return not low <= value <= high or int(value) != value


def _limits(kind: pa.DataType) -> tuple[int, int]:
    return (0, 2**64 - 1) if pa.types.is_uint64(kind) else (-(2**63), 2**63 - 1)


def _scalar(column: pa.ChunkedArray, name: str, value: Literal) -> pa.Scalar:
    """The value in the column's type; raises an error that names both types."""
    kind, types = column.type, pa.types
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if number and types.is_integer(kind):
        return pa.scalar(int(value), kind)
    if number and types.is_floating(kind):
        return pa.scalar(float(value) + 0.0)
    if isinstance(value, bool) and types.is_boolean(kind):
        return pa.scalar(value)
    with contextlib.suppress(pa.ArrowException):
        if number and types.is_decimal(kind):
            return pa.scalar(Decimal(literal_text(value)), kind)
        textual = types.is_string(kind) or types.is_large_string(kind) or types.is_temporal(kind)
        if isinstance(value, str) and textual:
            return pa.scalar(value).cast(kind)
    raise FilterError(f"column {name!r} holds {kind} and cannot be compared with {literal_text(value)}")
