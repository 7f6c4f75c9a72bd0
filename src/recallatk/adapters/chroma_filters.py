"""Filters of Chroma: the `where` of a query, as far as it has one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from recallatk.errors import EngineError
from recallatk.filters import And, ContainsAll, ContainsAny, Exists, Filter, In, Not, Or, Prefix, Range

if TYPE_CHECKING:
    from recallatk.adapters.stored_columns import FilterColumns


class ChromaFilters:
    """Filters on the columns of one collection."""

    def __init__(self, columns: FilterColumns) -> None:
        self.columns = columns

    def compiled(self, condition: Filter) -> Any:
        """The filter as `where`; None lets every row pass, and False none."""
        reduced = self.columns.reduced(condition)
        return (None if reduced else False) if isinstance(reduced, bool) else self.where(reduced)

    def where(self, condition: Filter) -> dict[str, Any]:
        """A reduced filter."""
        match condition:
            case And(operands) | Or(operands):
                return {f"${condition.word}": [self.where(each) for each in operands]}
            case In(key, values):
                return {key: {"$in": list(values)}}
            case Not(In(key, values)):
                return {key: {"$nin": list(values)}}
            case Range(key):
                return _all_or_any("$and", [{key: {f"${each}": v}} for each, v in _numbers(condition)])
            case Not(Range(key) as bounded):
                opposite = {"gte": "$lt", "gt": "$lte", "lte": "$gt", "lt": "$gte"}
                return _all_or_any("$or", [{key: {opposite[each]: v}} for each, v in _numbers(bounded)])
            case ContainsAny() | ContainsAll():
                return _contained(condition, negated=False)
            case Not(ContainsAny() | ContainsAll() as contained):
                return _contained(contained, negated=True)
            case Prefix() | Not(Prefix()):
                raise EngineError("chroma cannot filter by a prefix")
            case Exists(key):
                kind = next(each.kind for each in self.columns.columns.values() if each.key == key)
                if kind == "truth":
                    return {key: {"$in": [True, False]}}
                if kind not in ("text", "texts", "wholes"):
                    return {"$or": [{key: {"$gte": 0}}, {key: {"$lt": 0}}]}
        raise EngineError("chroma cannot filter on missing values")


def _numbers(condition: Range) -> list[tuple[str, Any]]:
    bounds = list(condition.bounds().items())
    if any(isinstance(value, str) for _, value in bounds):
        raise EngineError("chroma cannot compare text with < or >")
    return bounds


def _contained(condition: ContainsAny | ContainsAll, negated: bool) -> dict[str, Any]:
    operator = "$not_contains" if negated else "$contains"
    word = "$and" if isinstance(condition, ContainsAll) != negated else "$or"
    return _all_or_any(word, [{condition.column: {operator: value}} for value in condition.values])


def _all_or_any(word: str, parts: list[dict[str, Any]]) -> dict[str, Any]:
    return parts[0] if len(parts) == 1 else {word: parts}
