"""Corpus columns as vector databases store them, and filters on them without three-valued logic."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from recallatk.adapters.batch import completed
from recallatk.errors import EngineError, FilterError
from recallatk.filters import And, Equals, Exists, Filter, In, Not, Or, Range
from recallatk.filters.expression import Literal, literal_text

if TYPE_CHECKING:
    import pyarrow as pa

    from recallatk.core import Corpus

# Databases compare bounds in float64, where integers from here on are inexact.
EXACT_WHOLE = 2**53


@dataclass
class Column:
    """One column, under a key that needs no quoting in any database."""

    key: str
    kind: str
    """text, whole, number, truth, nothing (only nulls), or the Arrow type if it cannot be stored."""
    nullable: bool = False
    """Whether a null has been stored."""


class StoredColumns:
    """The corpus columns that an engine stores with the vectors; nulls are left out."""

    def __init__(self, engine: str, corpus: Corpus) -> None:
        self.engine, self.corpus = engine, corpus
        names, schema = corpus.metadata_names, corpus.columns.schema
        self.columns = {
            name: Column(f"c{number}", _kind(schema.field(name).type))
            for number, name in enumerate(names)
            if names.count(name) == 1
        }

    @property
    def stored(self) -> dict[str, Column]:
        """The columns that can be stored."""
        kinds = ("text", "whole", "number", "truth")
        return {name: column for name, column in self.columns.items() if column.kind in kinds}

    def read(self, start: int, stop: int) -> list[dict[str, Any]]:
        """The values of each of these rows, by key, without nulls."""
        if not self.stored:
            return [{} for _ in range(start, stop)]
        return self._payloads(self.corpus.columns.read(list(self.stored), start, stop))

    def inserted(self, metadata: pa.Table | None, rows: int) -> list[dict[str, Any]]:
        """The values of inserted rows; missing columns are null."""
        return self._payloads(completed(metadata, self.corpus.columns.schema, rows))

    def _payloads(self, table: pa.Table) -> list[dict[str, Any]]:
        payloads: list[dict[str, Any]] = [{} for _ in range(table.num_rows)]
        for name, column in self.stored.items():
            for payload, value in zip(payloads, table[name].to_pylist(), strict=True):
                if value is None or value != value:
                    column.nullable = True
                else:
                    payload[column.key] = value
        return payloads

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
            case Equals(name) | In(name) | Range(name):
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
        return column

    def _known(self, column: Column) -> Filter | bool:
        if column.kind == "nothing":
            return False
        return Exists(column.key) if column.nullable else True

    def _leaf(self, condition: Equals | In | Range, column: Column) -> Filter | bool:
        if isinstance(condition, Range):
            return self._range(condition, column)
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
            if isinstance(value, str):
                bounds[bound] = value
            elif (column.kind == "whole" and abs(value) >= EXACT_WHOLE) or float(value) != value:
                raise EngineError(f"{self.engine} cannot compare exactly with {literal_text(value)}")
            elif column.kind == "whole" and int(value) != value:
                lower = bound in ("gte", "gt")
                bounds["gte" if lower else "lte"] = math.ceil(value) if lower else math.floor(value)
            else:
                bounds[bound] = int(value) if column.kind == "whole" else float(value)
        return Range(column.key, **bounds)


def own_columns(engine: str, corpus: Corpus) -> StoredColumns:
    """Columns that the user has stored under their own names."""
    import pyarrow.compute as pc

    found = StoredColumns(engine, corpus)
    for name, column in found.columns.items():
        column.key = name
        if column.kind != "nothing":
            values = corpus.metadata[name]
            column.nullable = bool(pc.any(pc.is_null(values, nan_is_null=True)).as_py())
    return found


def _kind(kind: pa.DataType) -> str:
    import pyarrow as pa

    types, plain = pa.types, kind.value_type if pa.types.is_dictionary(kind) else kind
    if types.is_integer(plain) and not types.is_uint64(plain):
        return "whole"
    named = {"float": "number", "double": "number", "halffloat": "number", "bool": "truth", "null": "nothing"}
    textual = types.is_string(plain) or types.is_large_string(plain) or types.is_string_view(plain)
    return "text" if textual else named.get(str(plain), str(plain))


def _typed(column: Column, name: str, value: Literal) -> Literal | None:
    """The value in the column's type; None if no value of the column can equal it."""
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
