"""The filter expression tree, which writes itself as JSON and as text.

The tree has `and`, `or` and `not`, and seven kinds of leaves. The text form is close to SQL's `WHERE`,
so that people can read it.
"""

from __future__ import annotations

import json
import re
import sys
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

from recallatk.errors import FilterError

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

Literal: TypeAlias = str | int | float | bool

RESERVED = frozenset(["and", "or", "not", "in", "is", "null", "between", "true", "false", "exists"])
# Not reserved, because columns may have had these names before the operators came.
_QUOTED = RESERVED | {"like", "starts", "with", "contains", "any", "all"}
SYNTHETIC = "synthetic_"
"""What the names of columns begin with that a synthetic workload adds."""
# Deep nesting is a mistake or an attack, and all code that walks a filter is recursive.
MAX_DEPTH = 100
_BARE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
BOUNDS = {"gte": ">=", "gt": ">", "lte": "<=", "lt": "<"}


class Filter:
    """A condition on corpus metadata; `mask` evaluates it on rows."""

    def to_json(self) -> dict[str, Any]:
        """JSON form, which `filter_from_json` reads back."""
        raise NotImplementedError

    def columns(self) -> frozenset[str]:
        """Names of the columns that the filter reads."""
        raise NotImplementedError

    @property
    def synthetic(self) -> bool:
        """Whether it reads a column of a synthetic workload."""
        return any(name.startswith(SYNTHETIC) for name in self.columns())

    def mask(self, metadata: pa.Table) -> NDArray[np.bool_]:
        """One truth value per row; as in SQL, a row whose condition is null does not pass."""
        from recallatk.filters.mask import mask

        return mask(self, metadata)

    @cached_property
    def key(self) -> str:
        """Canonical text of the JSON form: equal filters have equal keys."""
        return json.dumps(self.to_json(), sort_keys=True, ensure_ascii=False)

    def __and__(self, other: Filter) -> And:
        return And((*_operands(And, self), *_operands(And, other)))

    def __or__(self, other: Filter) -> Or:
        return Or((*_operands(Or, self), *_operands(Or, other)))

    def __invert__(self) -> Not:
        return Not(self)


@dataclass(frozen=True)
class Equals(Filter):
    """The column equals this value."""

    column: str
    value: Literal

    def __post_init__(self) -> None:
        _check_literal(self.value)

    def to_json(self) -> dict[str, Any]:
        return {"equals": {"column": self.column, "value": self.value}}

    def columns(self) -> frozenset[str]:
        return frozenset([self.column])

    def __str__(self) -> str:
        return f"{name_text(self.column)} = {literal_text(self.value)}"


@dataclass(frozen=True)
class In(Filter):
    """The column has one of these values."""

    column: str
    values: tuple[Literal, ...]

    def __post_init__(self) -> None:
        if not self.values:
            raise FilterError(f"'{self.column} in ()' lists no values. Accepted: at least one")
        for value in self.values:
            _check_literal(value)

    def to_json(self) -> dict[str, Any]:
        return {"in": {"column": self.column, "values": list(self.values)}}

    def columns(self) -> frozenset[str]:
        return frozenset([self.column])

    def __str__(self) -> str:
        listed = ", ".join(literal_text(value) for value in self.values)
        return f"{name_text(self.column)} in ({listed})"


@dataclass(frozen=True)
class Range(Filter):
    """The column lies within bounds: at least one bound, at most one on each side."""

    column: str
    gte: Literal | None = None
    gt: Literal | None = None
    lte: Literal | None = None
    lt: Literal | None = None

    def __post_init__(self) -> None:
        if not self.bounds():
            raise FilterError(f"the range on {self.column!r} has no bound. Accepted: gte, gt, lte or lt")
        for one, other in (("gte", "gt"), ("lte", "lt")):
            if getattr(self, one) is not None and getattr(self, other) is not None:
                raise FilterError(
                    f"the range on {self.column!r} has both {one} and {other}. Accepted: one of them"
                )
        for value in self.bounds().values():
            _check_literal(value)
            if isinstance(value, bool):
                raise FilterError(f"the range on {self.column!r} cannot be bounded by {value}")

    def bounds(self) -> dict[str, Literal]:
        """The given bounds by JSON name."""
        given = {name: getattr(self, name) for name in BOUNDS}
        return {name: value for name, value in given.items() if value is not None}

    def to_json(self) -> dict[str, Any]:
        return {"range": {"column": self.column, **self.bounds()}}

    def columns(self) -> frozenset[str]:
        return frozenset([self.column])

    def __str__(self) -> str:
        name, bounds = name_text(self.column), self.bounds()
        if set(bounds) == {"gte", "lte"}:
            return f"{name} between {literal_text(bounds['gte'])} and {literal_text(bounds['lte'])}"
        parts = [f"{name} {BOUNDS[b]} {literal_text(value)}" for b, value in bounds.items()]
        return parts[0] if len(parts) == 1 else f"({' and '.join(parts)})"


@dataclass(frozen=True)
class Exists(Filter):
    """The column is not null."""

    column: str

    def to_json(self) -> dict[str, Any]:
        return {"exists": {"column": self.column}}

    def columns(self) -> frozenset[str]:
        return frozenset([self.column])

    def __str__(self) -> str:
        return f"{name_text(self.column)} is not null"


@dataclass(frozen=True)
class Prefix(Filter):
    """The text starts with this prefix, compared by bytes."""

    column: str
    prefix: str

    def __post_init__(self) -> None:
        _check_literal(self.prefix)
        if not isinstance(self.prefix, str):
            raise FilterError(f"the prefix on {self.column!r} is {self.prefix!r}. Accepted: text")

    def range(self) -> Range:
        """The same condition as bounds in the order of UTF-8 bytes, which is the order of code points."""
        kept = self.prefix.rstrip("\U0010ffff")
        if not kept:
            return Range(self.column, gte=self.prefix)
        # Surrogates are no characters.
        last = "\ue000" if kept[-1] == "\ud7ff" else chr(ord(kept[-1]) + 1)
        return Range(self.column, gte=self.prefix, lt=kept[:-1] + last)

    def to_json(self) -> dict[str, Any]:
        return {"prefix": {"column": self.column, "prefix": self.prefix}}

    def columns(self) -> frozenset[str]:
        return frozenset([self.column])

    def __str__(self) -> str:
        return f"{name_text(self.column)} starts with {literal_text(self.prefix)}"


@dataclass(frozen=True)
class _Contains(Filter):
    """Base of ContainsAny and ContainsAll: a list of tags compared with values."""

    column: str
    values: tuple[Literal, ...]

    word = ""

    def __post_init__(self) -> None:
        if not self.values:
            raise FilterError(
                f"'{self.column} contains {self.word} ()' lists no values. Accepted: at least one"
            )
        for value in self.values:
            _check_literal(value)

    def to_json(self) -> dict[str, Any]:
        return {f"contains_{self.word}": {"column": self.column, "values": list(self.values)}}

    def columns(self) -> frozenset[str]:
        return frozenset([self.column])

    def __str__(self) -> str:
        listed = ", ".join(literal_text(value) for value in self.values)
        return f"{name_text(self.column)} contains {self.word} ({listed})"


class ContainsAny(_Contains):
    """The list has at least one of these values; null elements equal nothing."""

    word = "any"

    def __str__(self) -> str:
        if len(self.values) == 1:
            return f"{name_text(self.column)} contains {literal_text(self.values[0])}"
        return super().__str__()


class ContainsAll(_Contains):
    """The list has each of these values."""

    word = "all"


@dataclass(frozen=True)
class _Junction(Filter):
    """Base of And and Or: several operands joined by a word."""

    operands: tuple[Filter, ...]

    word = ""

    def __post_init__(self) -> None:
        if not self.operands:
            raise FilterError(f"'{self.word}' needs at least one operand")

    def to_json(self) -> dict[str, Any]:
        return {self.word: [operand.to_json() for operand in self.operands]}

    def columns(self) -> frozenset[str]:
        return frozenset().union(*(operand.columns() for operand in self.operands))

    def __str__(self) -> str:
        return f" {self.word} ".join(_bracketed(operand) for operand in self.operands)


class And(_Junction):
    """All operands hold."""

    word = "and"


class Or(_Junction):
    """At least one operand holds."""

    word = "or"


@dataclass(frozen=True)
class Not(Filter):
    """The operand does not hold. If it is null, so is its negation."""

    operand: Filter

    def to_json(self) -> dict[str, Any]:
        return {"not": self.operand.to_json()}

    def columns(self) -> frozenset[str]:
        return self.operand.columns()

    def __str__(self) -> str:
        return f"not {self.operand}" if isinstance(self.operand, Not) else f"not ({self.operand})"


def _check_literal(value: object) -> None:
    if not isinstance(value, str | int | float | bool):
        raise FilterError(
            f"{value!r} cannot be compared with a column. Accepted: text, a number, true or false "
            "(for missing values, write 'column is null')"
        )
    if isinstance(value, str) and not value.isascii() and any("\ud800" <= each <= "\udfff" for each in value):
        raise FilterError(f"{value!r} cannot be compared with a column: it is not valid Unicode")
    if isinstance(value, int | float) and not -sys.float_info.max <= value <= sys.float_info.max:
        raise FilterError("numbers in a filter must be finite and within the range of float64")


def _operands(junction: type[_Junction], operand: Filter) -> tuple[Filter, ...]:
    """Operands of a chain of & or |, so that a long chain becomes wide instead of deep."""
    return operand.operands if isinstance(operand, junction) else (operand,)


def _bracketed(operand: Filter) -> str:
    return f"({operand})" if isinstance(operand, _Junction) else str(operand)


def name_text(column: str) -> str:
    """A column name in the text form, quoted if needed."""
    if _BARE_NAME.match(column) and column.lower() not in _QUOTED:
        return column
    return '"' + column.replace('"', '""') + '"'


def literal_text(value: Literal) -> str:
    """A value in the text form."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    # Subclasses such as NumPy's float64 have a different repr.
    return repr(float(value)) if isinstance(value, float) else repr(int(value))
