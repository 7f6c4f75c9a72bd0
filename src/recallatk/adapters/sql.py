"""The base of SQL engines: metadata in types that every database has, and filters compiled to SQL."""

from __future__ import annotations

import contextlib
import importlib.util
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recallatk.adapters.base import Engine
from recallatk.adapters.batch import QueryBatch, float32_matrix
from recallatk.errors import EngineError, FilterError
from recallatk.filters import (
    And,
    ContainsAll,
    ContainsAny,
    Equals,
    Exists,
    Filter,
    In,
    Not,
    Or,
    Prefix,
    Range,
)
from recallatk.filters.columns import comparable, incomparable, is_text, tag_type
from recallatk.filters.expression import literal_text
from recallatk.filters.moments import is_moment, ticks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from recallatk.core import Corpus
    from recallatk.filters.expression import Literal

_OPERATORS = {"gte": ">=", "gt": ">", "lte": "<=", "lt": "<"}
_INTEGERS, _TEXTS = pa.large_list(pa.int64()), pa.large_list(pa.large_string())
_LOWEST, _HIGHEST = -(2**63), 2**63 - 1


@dataclass(frozen=True)
class Column:
    """One column of metadata as a database holds it."""

    identifier: str
    """Its name in the database; the user's name may contain anything, so no statement uses it."""
    kind: str
    """boolean, integer, float, text, or lists of them: integers or texts."""
    type: pa.DataType
    """Its type in the data."""
    values: pa.ChunkedArray


def metadata_columns(corpus: Corpus) -> dict[str, Column]:
    """The columns that filters can use, by the user's name."""
    names = corpus.metadata_names
    found = {}
    for number, name in enumerate(names):
        if names.count(name) == 1:
            column = corpus.metadata[name]
            kind, values = _stored(column)
            if values is not None:
                plain = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
                found[name] = Column(f"m{number}", kind, plain, values)
    return found


def native_columns(schema: pa.Schema, quote: Callable[[str], str]) -> dict[str, Column]:
    """The columns of an existing table that filters can use, under their own names.

    Dates, times and durations are left out: databases compare them in forms of their own.
    """
    found = {}
    for each in schema:
        kind, values = _stored(pa.chunked_array([], each.type))
        if values is not None and not pa.types.is_temporal(each.type):
            found[each.name] = Column(quote(each.name), kind, each.type, values)
    return found


def _stored(column: pa.ChunkedArray) -> tuple[str, pa.ChunkedArray | None]:
    types = pa.types
    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kind = column.type
    if types.is_boolean(kind):
        return "boolean", column
    if types.is_integer(kind) and not types.is_uint64(kind):
        return "integer", column.cast(pa.int64())
    if types.is_floating(kind):
        wide = column.cast(pa.float64())
        # Databases compare NaN as a number, but our filters treat it as null.
        return "float", pc.if_else(pc.is_nan(wide), pa.scalar(None, pa.float64()), wide)
    if is_text(kind) or types.is_null(kind):
        return "text", column.cast(pa.large_string())
    if is_moment(kind) or types.is_duration(kind):
        # Every database compares whole numbers alike.
        return "integer", ticks(column)
    element = tag_type(kind)
    if element is not None:
        whole = types.is_int64(element)
        return ("integers", column.cast(_INTEGERS)) if whole else ("texts", column.cast(_TEXTS))
    return "other", None


def inserted_values(columns: dict[str, Column], metadata: pa.Table | None, rows: int) -> list[Any]:
    """Metadata of inserted rows as the database stores it; missing columns are null."""
    given = () if metadata is None else metadata.column_names
    return [
        _stored(metadata[name].cast(each.type))[1]
        if metadata is not None and name in given
        else pa.chunked_array([pa.nulls(rows, each.values.type)])
        for name, each in columns.items()
    ]


class SqlEngine(Engine):
    """An engine that takes one SQL statement per query."""

    connection: Any = None

    def call(self) -> str:
        """One statement, in process."""
        return "SQL statement in this process"

    def driver_errors(self) -> tuple[type[Exception], ...]:
        """The exceptions of the library."""
        raise NotImplementedError

    @contextlib.contextmanager
    def reported(self, what: str) -> Iterator[None]:
        """Turn the library's errors into ours."""
        try:
            yield
        except self.driver_errors() as problem:
            raise EngineError(f"{self.name} {what}: {str(problem).strip()}") from problem

    def answers(
        self,
        batch: QueryBatch,
        k: int,
        ask: Callable[[NDArray[np.float32], Filter | None], Sequence[tuple[int]]],
    ) -> NDArray[np.int64]:
        """Run one statement per query and collect the rows in a matrix."""
        found = np.full((batch.count, k), -1, np.int64)
        with self.reported("cannot search"):
            for number, query in enumerate(float32_matrix(batch.vectors)):
                rows = ask(query, None if batch.filters is None else batch.filters[number])
                found[number, : len(rows)] = [row for (row,) in rows]
        return found


class SqlFilters:
    """Filters compiled to SQL for one table; without a placeholder, values become literals.

    Prefixes and lists use DataFusion's functions; subclasses use those of other databases.
    """

    def __init__(self, columns: dict[str, Column], placeholder: str | None) -> None:
        self.columns, self.placeholder = columns, placeholder

    def compile(self, condition: Filter) -> tuple[str, list[Literal]]:
        """The condition as SQL, and its placeholder values in order."""
        values: list[Literal] = []
        for name in sorted(condition.columns()):
            if name not in self.columns:
                known = ", ".join(self.columns) or "none"
                raise FilterError(f"filter '{condition}': no column {name!r}. The columns are: {known}")
        return self._text(condition, values), values

    def _text(self, condition: Filter, values: list[Literal]) -> str:
        match condition:
            case And(operands):
                return f"({' AND '.join(self._text(each, values) for each in operands)})"
            case Or(operands):
                return f"({' OR '.join(self._text(each, values) for each in operands)})"
            case Not(operand):
                return f"(NOT {self._text(operand, values)})"
            case Exists(name):
                return f"({self.columns[name].identifier} IS NOT NULL)"
            case Prefix(name):
                return self._starting(condition, values)
            case ContainsAny(name) | ContainsAll(name):
                return self._containing(condition, values)
            case Equals(name, value):
                return self._among(name, (value,), values)
            case In(name, wanted):
                return self._among(name, wanted, values)
            case Range(name):
                bounds = [self._bounded(name, *bound, values) for bound in condition.bounds().items()]
                return f"({' AND '.join(bounds)})"
        raise FilterError(f"{type(condition).__name__} is not a filter")

    def _among(self, name: str, wanted: tuple[Literal, ...], values: list[Literal]) -> str:
        column = self.columns[name]
        plain = [_plain(column, name, value) for value in wanted]
        possible = [value for value in plain if value is not None]
        if not possible:
            return self._wherever_valid(column, False)
        listed = ", ".join(self.bound(value, values) for value in possible)
        return f"({column.identifier} IN ({listed}))"

    def _starting(self, condition: Prefix, values: list[Literal]) -> str:
        column = self.columns[condition.column]
        if pa.types.is_null(column.type):
            return self._wherever_valid(column, False)
        if column.kind != "text":
            raise incomparable(column.type, condition.column, condition.prefix)
        return self.starts(condition, values)

    def _containing(self, condition: ContainsAny | ContainsAll, values: list[Literal]) -> str:
        column, name = self.columns[condition.column], condition.column
        elements = {"integers": "integer", "texts": "text"}.get(column.kind)
        if pa.types.is_null(column.type):
            return self._wherever_valid(column, False)
        if elements is None:
            raise FilterError(
                f"column {name!r} holds {column.type}, which is no list of text or whole numbers"
            )
        element = replace(column, kind=elements, type=tag_type(column.type))
        plain = [_plain(element, name, value) for value in condition.values]
        possible = [value for value in plain if value is not None]
        if not possible or (isinstance(condition, ContainsAll) and len(possible) < len(plain)):
            return f"({column.identifier} IS NULL AND NULL)"
        return self.contains(column, condition.word, [self.bound(value, values) for value in possible])

    def starts(self, condition: Prefix, values: list[Literal]) -> str:
        """Whether text starts with a prefix, by bytes."""
        column = self.columns[condition.column].identifier
        return f"starts_with({column}, {self.bound(condition.prefix, values)})"

    def contains(self, column: Column, word: str, wanted: list[str]) -> str:
        """Whether a list has any or all of these values; null where the list is null."""
        return f"array_has_{word}({column.identifier}, [{', '.join(wanted)}])"

    def _bounded(self, name: str, bound: str, literal: Literal, values: list[Literal]) -> str:
        column, lower = self.columns[name], bound in ("gte", "gt")
        plain, value = _plain(column, name, literal), comparable(column.type, name, literal)
        if plain is None and not isinstance(value, str) and column.kind != "text":
            # The column's type cannot represent this bound: move it to the nearest value inside the range.
            if column.kind == "float":
                plain = float(value)
                bound = ("gte" if plain > value else "gt") if lower else ("lt" if plain > value else "lte")
            elif _LOWEST <= value <= _HIGHEST:
                bound, plain = ("gte", math.ceil(value)) if lower else ("lte", math.floor(value))
        if plain is None:
            return self._wherever_valid(column, not isinstance(value, str) and lower == (value < 0))
        return f"({column.identifier} {_OPERATORS[bound]} {self.bound(plain, values)})"

    def bound(self, value: Literal, values: list[Literal]) -> str:
        """The text of a value; with a placeholder, the value goes to `values`."""
        if self.placeholder is None:
            return literal_text(value)
        values.append(value)
        return self.placeholder

    def _wherever_valid(self, column: Column, truth: bool) -> str:
        """A constant condition that is null where the column is null."""
        return f"({column.identifier} {'=' if truth else '<>'} {column.identifier})"


def _plain(column: Column, name: str, value: Literal) -> Literal | None:
    """The value in the column's type; None if no value of the column can equal it."""
    if pa.types.is_null(column.type):
        return None
    found = comparable(column.type, name, value)
    if isinstance(found, bool):
        if column.kind == "boolean":
            return found
    elif isinstance(found, str):
        if column.kind == "text":
            return str(found)
    elif column.kind == "float":
        # SQL reads an integer beyond 64 bits as a float, so compare it as one.
        return float(found) if not -(2**63) < found < 2**63 or float(found) == found else None
    elif column.kind == "integer" and not pa.types.is_duration(column.type):
        return int(found) if _LOWEST <= found <= _HIGHEST and int(found) == found else None
    raise incomparable(column.type, name, value)


def packaged(package: str, pattern: str) -> list[Path]:
    """Matching files of an installed package, found without importing it."""
    found = importlib.util.find_spec(package)
    places = [] if found is None else found.submodule_search_locations or []
    return sorted(file for place in places for file in Path(place).glob(pattern))
