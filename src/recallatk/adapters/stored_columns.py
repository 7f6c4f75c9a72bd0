"""Corpus columns as vector databases store them, and filters on them without three-valued logic."""

from __future__ import annotations

import datetime as dt
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeAlias

from recallatk.adapters.batch import completed
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
from recallatk.filters.columns import comparable, is_text, tag_type
from recallatk.filters.expression import Literal, literal_text
from recallatk.filters.moments import is_moment, ticks, ticks_per_second

if TYPE_CHECKING:
    import pyarrow as pa

    from recallatk.core import Corpus

    Leaf: TypeAlias = Equals | In | Range | Prefix | ContainsAny | ContainsAll

# Days from 1970 to the first and the last day that Python's datetimes can be, and so those of clients.
_YEARS = tuple(day.toordinal() - dt.date(1970, 1, 1).toordinal() for day in (dt.date.min, dt.date.max))
# Databases compare bounds in float64, where integers from here on are inexact.
EXACT_WHOLE = 2**53


_STORED = ("text", "whole", "number", "truth", "moment", "clock", "texts", "wholes")


@dataclass
class Column:
    """One column, under a key that needs no quoting in any database."""

    key: str
    kind: str
    """text, whole, number, truth, moment (date or timestamp), clock (time of day), texts or wholes (lists),
    nothing (only nulls), or the Arrow type if it cannot be stored."""
    type: pa.DataType
    nullable: bool = False
    """Whether a null has been stored."""
    loss: str = ""
    """What of its values could not be stored, in words."""

    @property
    def scale(self) -> int:
        """Ticks of the data in a stored tick: databases know microseconds, and no finer."""
        return 1000 if self.kind in ("moment", "clock") and "[ns" in str(self.type) else 1

    @property
    def per_second(self) -> Fraction:
        """Stored ticks in a second."""
        return ticks_per_second(self.type) / self.scale


class FilterColumns:
    """Columns that an engine stores, and filters on them."""

    def __init__(self, engine: str, columns: dict[str, Column]) -> None:
        self.engine, self.columns = engine, columns

    @property
    def stored(self) -> dict[str, Column]:
        """The columns that can be stored."""
        return {name: column for name, column in self.columns.items() if column.kind in _STORED}

    def reduced(self, condition: Filter, negated: bool = False) -> Filter | bool:
        """The filter over keys in two-valued logic: negations move to the leaves, which exclude nulls."""
        match condition:
            case Not(operand):
                return self.reduced(operand, not negated)
            case And(operands) | Or(operands):
                parts = [self.reduced(each, negated) for each in operands]
                return _joined(parts, isinstance(condition, And) != negated)
            case Exists(name):
                known = self._known(self._column(name))
                return known if not negated else (not known if isinstance(known, bool) else Not(known))
            case Equals(name) | In(name) | Range(name) | Prefix(name) | ContainsAny(name) | ContainsAll(name):
                column = self._column(name)
                leaf = False if column.kind == "nothing" else self._leaf(condition, column)
                if isinstance(leaf, bool):
                    return self._known(column) if leaf != negated else False
                return _joined([self._known(column), Not(leaf)], True) if negated else leaf
        raise FilterError(f"{type(condition).__name__} is not a filter")

    def _column(self, name: str) -> Column:
        if name not in self.columns:
            raise FilterError(f"no column {name!r}. The columns are: {', '.join(self.columns) or 'none'}")
        column = self.columns[name]
        if column.kind != "nothing" and name not in self.stored:
            raise EngineError(f"{self.engine} cannot filter by {name!r}, which holds {column.kind}")
        if column.loss:
            raise EngineError(f"{self.engine} cannot filter by {name!r} exactly, which holds {column.loss}")
        return column

    def _known(self, column: Column) -> Filter | bool:
        if column.kind == "nothing":
            return False
        return Exists(column.key) if column.nullable else True

    def _leaf(self, condition: Leaf, column: Column) -> Filter | bool:
        match condition:
            case Range():
                return self._range(condition, column)
            case Prefix(name, prefix):
                if column.kind != "text":
                    raise FilterError(
                        f"column {name!r} holds {column.kind} and has no prefix. Accepted: text"
                    )
                return Prefix(column.key, prefix)
            case ContainsAny() | ContainsAll():
                return _contained(condition, column)
        values = (condition.value,) if isinstance(condition, Equals) else condition.values
        typed = [
            each for each in (_typed(column, condition.column, value) for value in values) if each is not None
        ]
        return In(column.key, tuple(typed)) if typed else False

    def _range(self, condition: Range, column: Column) -> Range:
        bounds: dict[str, Literal] = {}
        for bound, value in condition.bounds().items():
            # Checks the type only: a bound need not be a value of the column.
            _typed(column, condition.column, value)
            if column.kind in ("moment", "clock"):
                bounds |= _inside(bound, comparable(column.type, condition.column, value), column.scale)
            elif isinstance(value, str):
                bounds[bound] = value
            elif (column.kind == "whole" and abs(value) >= EXACT_WHOLE) or float(value) != value:
                raise EngineError(f"{self.engine} cannot compare exactly with {literal_text(value)}")
            elif column.kind == "whole":
                bounds |= _inside(bound, value, 1)
            else:
                bounds[bound] = float(value)
        return Range(column.key, **bounds)


class StoredColumns(FilterColumns):
    """The corpus columns that an engine stores with the vectors; nulls are left out."""

    def __init__(self, engine: str, corpus: Corpus) -> None:
        self.corpus = corpus
        names, schema = corpus.metadata_names, corpus.columns.schema
        types = {name: _plain_type(schema.field(name).type) for name in names if names.count(name) == 1}
        columns = {
            name: Column(f"c{number}", _kind(types[name]), types[name])
            for number, name in enumerate(names)
            if name in types
        }
        super().__init__(engine, columns)

    def limit_lists(self, most: int) -> None:
        """Leave out columns with a list of more elements than the engine can store."""
        import pyarrow.compute as pc

        for name, column in self.stored.items():
            if column.kind in ("texts", "wholes"):
                read = self.corpus.columns.read([name], 0, self.corpus.rows)
                longest = pc.max(pc.list_value_length(read[name])).as_py() or 0
                if longest > most:
                    column.kind = (
                        f"lists of up to {longest:,} elements; {self.engine} stores at most {most:,}"
                    )

    def read(self, start: int, stop: int) -> list[dict[str, Any]]:
        """The values of each of these rows, by key, without nulls."""
        if not self.stored:
            return [{} for _ in range(start, stop)]
        return self._payloads(self.corpus.columns.read(list(self.stored), start, stop))

    def inserted(self, metadata: pa.Table | None, rows: int) -> list[dict[str, Any]]:
        """The values of inserted rows; missing columns are null."""
        if not self.stored:
            # A table without columns has no rows.
            return [{} for _ in range(rows)]
        return self._payloads(completed(metadata, self.corpus.columns.schema, rows))

    def _payloads(self, table: pa.Table) -> list[dict[str, Any]]:
        payloads: list[dict[str, Any]] = [{} for _ in range(table.num_rows)]
        for name, column in self.stored.items():
            for payload, value in zip(payloads, _values(column, table[name]), strict=True):
                if value is None or value != value:
                    column.nullable = True
                else:
                    payload[column.key] = value
        return payloads


def _inside(bound: str, value: Any, scale: int) -> dict[str, Literal]:
    """A bound as a whole number; between two of them, the nearest one inside."""
    exact = Fraction(value) / scale
    if exact.denominator == 1:
        return {bound: int(exact)}
    return {"gte": math.ceil(exact)} if bound in ("gte", "gt") else {"lte": math.floor(exact)}


def _contained(condition: ContainsAny | ContainsAll, column: Column) -> Filter | bool:
    """The condition on a list, without values that it cannot have."""
    element = {"texts": "text", "wholes": "whole"}.get(column.kind)
    if element is None:
        raise FilterError(f"column {condition.column!r} holds {column.kind}, which is no list")
    of_element = Column(column.key, element, column.type)
    found = [_typed(of_element, condition.column, value) for value in condition.values]
    typed = tuple(each for each in found if each is not None)
    if not typed or (isinstance(condition, ContainsAll) and len(typed) < len(found)):
        return False
    return type(condition)(column.key, typed)


def _values(column: Column, values: pa.ChunkedArray) -> list[Any]:
    """The values of some rows as they are stored: dates and times in ticks, lists without nulls."""
    if column.kind in ("moment", "clock"):
        return _stored_ticks(column, values)
    found: list[Any] = values.to_pylist()
    if column.kind in ("texts", "wholes"):
        return [each and [value for value in each if value is not None] for each in found]
    return found


def _stored_ticks(column: Column, values: pa.ChunkedArray) -> list[int | None]:
    found: list[int | None] = ticks(values).to_pylist()
    days = (ticks_per_second(column.type) * 86_400 * day for day in _YEARS)
    low, high = next(days), next(days)
    for place, value in enumerate(found):
        if value is None:
            continue
        if value % column.scale:
            column.loss = "nanoseconds"
        if not low <= value <= high:
            column.loss = "years before 1 or after 9999"
        found[place] = value // column.scale
    return found


def _plain_type(kind: pa.DataType) -> pa.DataType:
    import pyarrow as pa

    return kind.value_type if pa.types.is_dictionary(kind) else kind


def own_columns(engine: str, corpus: Corpus) -> StoredColumns:
    """Columns that the user has stored under their own names."""
    import pyarrow.compute as pc

    found = StoredColumns(engine, corpus)
    for name, column in found.columns.items():
        column.key = name
        if column.kind != "nothing":
            values = corpus.metadata[name]
            column.nullable = bool(pc.any(pc.is_null(values, nan_is_null=True)).as_py())
        _require_known_form(column)
    return found


def found_column(name: str, kind: pa.DataType, nullable: bool) -> Column:
    """A column that was found in a collection, under its own name."""
    column = Column(name, _kind(kind), kind, nullable)
    _require_known_form(column)
    return column


def _require_known_form(column: Column) -> None:
    """Leave out columns of which it is not known how the user's own collection holds them."""
    if column.kind in ("moment", "clock") or (column.nullable and column.kind in ("texts", "wholes")):
        column.kind = str(column.type)


def _kind(kind: pa.DataType) -> str:
    import pyarrow as pa

    types, element = pa.types, tag_type(kind)
    if types.is_integer(kind) and not types.is_uint64(kind):
        return "whole"
    if is_moment(kind):
        return "clock" if types.is_time(kind) else "moment"
    if element is not None:
        return "wholes" if types.is_integer(element) else "texts"
    named = {"float": "number", "double": "number", "halffloat": "number", "bool": "truth", "null": "nothing"}
    return "text" if is_text(kind) else named.get(str(kind), str(kind))


def _typed(column: Column, name: str, value: Literal) -> Literal | None:
    """The value in the column's type; None if no value of the column can equal it."""
    if column.kind in ("moment", "clock"):
        exact = Fraction(comparable(column.type, name, value)) / column.scale
        return int(exact) if exact.denominator == 1 else None
    if column.kind == "text" and isinstance(value, str):
        return value
    if column.kind == "truth" and isinstance(value, bool):
        return value
    if column.kind in ("whole", "number") and not isinstance(value, str | bool):
        if column.kind == "whole":
            return int(value) if int(value) == value and -(2**63) <= value < 2**63 else None
        return float(value) if float(value) == value or abs(value) >= 2**63 else None
    raise FilterError(
        f"column {name!r} holds {column.kind} and cannot be compared with {literal_text(value)}"
    )


def _joined(parts: list[Filter | bool], every: bool) -> Filter | bool:
    """Conjunction or disjunction of the parts, with constant parts folded."""
    if (not every) in parts:
        return not every
    open_parts = tuple(each for each in parts if isinstance(each, Filter))
    if len(open_parts) < 2:
        return open_parts[0] if open_parts else every
    return And(open_parts) if every else Or(open_parts)
