"""Columns of collections that hold a dictionary per row: their types and nulls, found by reading the rows."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from recallatk.adapters.stored_columns import Column, FilterColumns, found_column

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_WHOLE, _NUMBER = pa.int64(), pa.float64()
_MIXED = "values of several types"
_NESTED = "nested values"


class PayloadColumns:
    """The columns of the rows that were read so far."""

    def __init__(self) -> None:
        self.rows = 0
        self._held: Counter[str] = Counter()
        self._kinds: dict[str, set[pa.DataType | None]] = {}

    def read(self, payloads: Iterable[Mapping[str, Any] | None]) -> None:
        """Read the dictionaries of some rows; None is an empty one."""
        for payload in payloads:
            self.rows += 1
            for name, value in (payload or {}).items():
                kinds = self._kinds.setdefault(name, set())
                if value is not None and value == value:
                    kinds.add(_kind(value))
                    self._held[name] += 1

    def types(self) -> dict[str, pa.DataType | str]:
        """The type of each column, by name; a text says why there is none."""
        return {name: self._type(kinds) for name, kinds in sorted(self._kinds.items())}

    def _type(self, kinds: set[pa.DataType | None]) -> pa.DataType | str:
        if None in kinds:
            return _NESTED
        if len(kinds) < 2:
            return next(iter(kinds), pa.null())
        return _NUMBER if kinds == {_WHOLE, _NUMBER} else _MIXED

    def filterable(self, engine: str, *, one_number: bool) -> FilterColumns:
        """The columns for filters of an engine.

        Args:
            engine: its name, for messages.
            one_number: whether it compares whole and fractional numbers of one column alike.
        """
        found = {}
        for name, kind in self.types().items():
            if len(self._kinds[name]) > 1 and not one_number:
                found[name] = Column(name, _MIXED, pa.null())
            elif isinstance(kind, str):
                found[name] = Column(name, kind, pa.null())
            else:
                found[name] = found_column(name, kind, self._held[name] < self.rows)
        return FilterColumns(engine, found)


def _kind(value: Any) -> pa.DataType | None:
    """The type of a value; None for objects and lists of anything but whole numbers or text."""
    if isinstance(value, bool):
        return pa.bool_()
    if isinstance(value, int):
        return _WHOLE if -(2**63) <= value < 2**63 else None
    if isinstance(value, float):
        return _NUMBER
    if isinstance(value, str):
        return pa.string()
    if isinstance(value, list | tuple) and value:
        kinds = {_kind(each) for each in value}
        if len(kinds) == 1 and kinds <= {_WHOLE, pa.string()}:
            return pa.list_(kinds.pop())
    return None
