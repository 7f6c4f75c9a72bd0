"""Filters and payloads of Qdrant, in the classes of its shard or of its client."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

from recallatk.errors import EngineError, FilterError
from recallatk.filters import And, ContainsAll, ContainsAny, Exists, Filter, In, Not, Or, Prefix, Range

if TYPE_CHECKING:
    from recallatk.adapters.stored_columns import Column, FilterColumns
    from recallatk.filters.expression import Literal

SCHEMA = {
    "text": "keyword",
    "whole": "integer",
    "number": "float",
    "truth": "integer",
    "moment": "datetime",
    "clock": "integer",
    "texts": "keyword",
    "wholes": "integer",
}
"""The payload index of each kind of column."""
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_LISTS = ("texts", "wholes")


class QdrantFilters:
    """Reduced filters and payloads of the same columns, for one of Qdrant's APIs.

    Args:
        columns: the columns.
        api: the module with the classes of requests.
        own: whether the payload is the user's, which holds booleans as such; ours holds numbers.
    """

    def __init__(self, columns: FilterColumns, api: Any, *, own: bool = False) -> None:
        self.api, self.own, self.engine = api, own, columns.engine
        self.columns = {column.key: column for column in columns.stored.values()}

    def payload(self, values: dict[str, Any]) -> dict[str, Any]:
        """Values as `filter` looks for them; null lists are stored, because empty ones count as missing."""
        lists = {key: None for key, column in self.columns.items() if column.kind in _LISTS}
        return lists | {key: self._stored(self.columns[key], value) for key, value in values.items()}

    def filter(self, condition: Filter) -> Any:
        """A reduced filter."""
        api, field = self.api, self.api.FieldCondition
        match condition:
            case And(operands):
                return api.Filter(must=[self.filter(each) for each in operands])
            case Or(operands):
                return api.Filter(should=[self.filter(each) for each in operands])
            case Not(operand):
                return api.Filter(must_not=[self.filter(operand)])
            case Exists(key):
                missing = {"is_null" if self.columns[key].kind in _LISTS else "is_empty": True}
                return api.Filter(must_not=[field(key=key, **missing)])
            case In(key, values):
                return api.Filter(should=[field(key=key, **self._equal(key, value)) for value in values])
            case ContainsAny(key, values):
                return api.Filter(must=[field(key=key, match=api.MatchAny(any=list(values)))])
            case ContainsAll(key, values):
                return api.Filter(
                    must=[field(key=key, match=api.MatchValue(value=value)) for value in values]
                )
            case Prefix(key, prefix):
                return api.Filter(must=[field(key=key, match=api.MatchPrefix(prefix=prefix))])
            case Range(key):
                return api.Filter(must=[field(key=key, range=self._bounds(key, condition.bounds()))])
        raise FilterError(f"{type(condition).__name__} is not a filter")

    def _equal(self, key: str, value: Literal) -> dict[str, Any]:
        """Qdrant matches neither fractional numbers nor dates; a range of one value does."""
        if isinstance(value, float) or self.columns[key].kind == "moment":
            return {"range": self._bounds(key, {"gte": value, "lte": value})}
        if self.own and self.columns[key].kind == "truth":
            if self._in_process:
                # The shard takes true for the number 1, which matches no boolean.
                raise EngineError(f"{self.engine} cannot filter by {key!r}, which holds booleans")
            return {"match": self.api.MatchValue(value=bool(value))}
        return {"match": self.api.MatchValue(value=self._stored(self.columns[key], value))}

    @property
    def _in_process(self) -> bool:
        """Whether the classes are those of the shard."""
        return hasattr(self.api, "RangeFloat")

    def _bounds(self, key: str, bounds: dict[str, Literal]) -> Any:
        if self.columns[key].kind == "text":
            raise EngineError("qdrant cannot compare text with < or >")
        ranges = ("RangeFloat", "Range"), ("RangeDateTime", "DatetimeRange")
        shard, client = ranges[self.columns[key].kind == "moment"]
        made = {name: self._stored(self.columns[key], value) for name, value in bounds.items()}
        return getattr(self.api, shard if self._in_process else client)(**made)

    def _stored(self, column: Column, value: Any) -> Any:
        if column.kind == "moment":
            return _moment(column, value)
        # The shard takes true for the number 1, so booleans are stored as numbers.
        return int(value) if isinstance(value, bool) else value


def _moment(column: Column, ticks: int) -> str | None:
    """Ticks as RFC 3339; None beyond Python's years, where the column is not filtered by."""
    try:
        moment = _EPOCH + dt.timedelta(microseconds=int(ticks / column.per_second * 10**6))
    except OverflowError:
        return None
    return moment.isoformat(timespec="microseconds")
