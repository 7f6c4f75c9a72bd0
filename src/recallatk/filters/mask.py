"""Evaluation of a filter on Arrow metadata, with SQL's three-valued logic."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recallatk.errors import FilterError
from recallatk.filters.columns import comparable, converted, impossible, is_text, limits, plain, scalar, tags
from recallatk.filters.expression import (
    And,
    ContainsAll,
    ContainsAny,
    Equals,
    Exists,
    Filter,
    In,
    Literal,
    Not,
    Or,
    Prefix,
    Range,
)

if TYPE_CHECKING:
    from typing import TypeAlias

    from numpy.typing import NDArray

    Leaf: TypeAlias = Equals | In | Range | Prefix | ContainsAny | ContainsAll

_COMPARE = {
    "gte": pc.greater_equal,
    "gt": pc.greater,
    "lte": pc.less_equal,
    "lt": pc.less,
}
# A filter of thousands of values would hide the message after it.
_LONGEST_TEXT = 200
# pa.scalar would import pandas, which takes half a second.
_NULL = pa.nulls(1, pa.bool_())[0]


def mask(condition: Filter, metadata: pa.Table) -> NDArray[np.bool_]:
    """One truth value per row of `metadata`; null becomes false only at the end."""
    for name in sorted(condition.columns()):
        count = metadata.column_names.count(name)
        if count != 1:
            known = ", ".join(metadata.column_names) or "none"
            found = f"{count} columns" if count else "no column"
            raise FilterError(f"{_shown(condition)}: {found} {name!r}. The columns are: {known}")
    try:
        truth = pc.fill_null(_Evaluation(metadata).truth(condition), False)
    except (pa.ArrowException, FilterError) as problem:
        raise FilterError(f"{_shown(condition)}: {problem}") from problem
    combined = truth.combine_chunks() if isinstance(truth, pa.ChunkedArray) else truth
    result: NDArray[np.bool_] = combined.to_numpy(zero_copy_only=False).astype(bool)
    return result


def _shown(condition: Filter) -> str:
    text = str(condition)
    return f"filter '{text}'" if len(text) <= _LONGEST_TEXT else f"filter '{text[:_LONGEST_TEXT]}…'"


class _Evaluation:
    """Evaluation on one table; each column is converted once."""

    def __init__(self, metadata: pa.Table) -> None:
        self.metadata = metadata
        self.columns: dict[str, pa.ChunkedArray] = {}

    def column(self, name: str) -> pa.ChunkedArray:
        if name not in self.columns:
            self.columns[name] = plain(self.metadata[name])
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
            case Equals(name) | In(name) | Range(name) | Prefix(name) | ContainsAny(name) | ContainsAll(name):
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


def _compared(condition: Leaf, column: pa.ChunkedArray) -> Any:
    match condition:
        case Equals(name, value):
            return _among(column, name, (value,))
        case In(name, values):
            return _among(column, name, values)
        case Prefix():
            return _starting(column, condition)
        case ContainsAny() | ContainsAll():
            return _containing(column, condition)
    bounds = condition.bounds().items()
    return _fold(pc.and_kleene, [_bounded(column, condition.column, *bound) for bound in bounds])


def _fold(combine: Any, parts: list[Any]) -> Any:
    result = parts[0]
    for part in parts[1:]:
        result = combine(result, part)
    return result


def _among(column: pa.ChunkedArray, name: str, values: tuple[Literal, ...]) -> Any:
    """Membership, null where the column is null; Arrow's `is_in` returns false there."""
    return pc.if_else(
        pc.is_valid(column), pc.is_in(column, value_set=_wanted(column.type, name, values)), _NULL
    )


def _wanted(kind: pa.DataType, name: str, values: tuple[Literal, ...]) -> pa.Array:
    """The values that a column of this type can have."""
    found = [converted(kind, name, value) for value in values]
    return pa.array([each for each in found if each is not None], kind)


def _bounded(column: pa.ChunkedArray, name: str, bound: str, literal: Literal) -> Any:
    kind, value = column.type, comparable(column.type, name, literal)
    if impossible(kind, value):
        # The column's type cannot represent the bound, so it moves to the nearest number inside,
        # or holds for all rows or none; the comparison stays exact.
        lower = bound in ("gte", "gt")
        if pa.types.is_floating(kind):
            nearest = float(value)
            above = nearest > value  # type: ignore[operator]
            closest = ("gte" if above else "gt") if lower else ("lt" if above else "lte")
            return _COMPARE[closest](column, pa.scalar(nearest))
        low, high = limits(kind)
        if value > high or value < low:  # type: ignore[operator]
            return _wherever_valid(column, lower == (value < low))  # type: ignore[operator]
        bound, value = ("gte", math.ceil(value)) if lower else ("lte", math.floor(value))  # type: ignore[arg-type]
    return _COMPARE[bound](column, scalar(kind, name, value))


def _wherever_valid(column: pa.ChunkedArray, truth: bool) -> Any:
    return pc.if_else(pc.is_valid(column), truth, _NULL)


def _starting(column: pa.ChunkedArray, condition: Prefix) -> Any:
    if not is_text(column.type):
        raise FilterError(
            f"column {condition.column!r} holds {column.type} and has no prefix. Accepted: text"
        )
    return pc.starts_with(column, condition.prefix)


def _containing(column: pa.ChunkedArray, condition: ContainsAny | ContainsAll) -> Any:
    """Whether each list has the values; null where the list is null."""
    owners, elements = tags(column, condition.column)
    wanted = _wanted(elements.type, condition.column, condition.values)
    if isinstance(condition, ContainsAll):
        groups = [wanted[number : number + 1] for number in range(len(wanted))]
        # A value that the type cannot represent is in no list.
        groups += [wanted[:0]] * (len(wanted) < len(condition.values))
    else:
        groups = [wanted]
    found = np.ones(len(column), bool)
    for group in groups:
        has = np.zeros(len(column), bool)
        has[owners[pc.is_in(elements, value_set=group).to_numpy(zero_copy_only=False)]] = True
        found &= has
    return pc.if_else(pc.is_valid(column), pa.chunked_array([pa.array(found)]), _NULL)
