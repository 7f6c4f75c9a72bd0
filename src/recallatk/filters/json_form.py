"""The JSON form of a filter: an object with one key for each condition."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from recallatk.errors import FilterError
from recallatk.filters.expression import (
    BOUNDS,
    MAX_DEPTH,
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


def filter_from_json(data: object) -> Filter:
    """Parse the JSON form of a filter."""
    return _from_json(data, 0)


def _from_json(data: object, depth: int) -> Filter:
    if depth > MAX_DEPTH:
        raise FilterError(f"the filter is nested more than {MAX_DEPTH} levels deep")
    if not isinstance(data, Mapping) or len(data) != 1:
        raise FilterError(
            f"{data!r:.80} is not a filter: a filter is an object with one key. "
            "Accepted keys: equals, in, range, prefix, contains_any, contains_all, exists, and, or, not"
        )
    kind, body = next(iter(data.items()))
    if kind in ("and", "or") and isinstance(body, list):
        operands = tuple(_from_json(operand, depth + 1) for operand in body)
        return And(operands) if kind == "and" else Or(operands)
    if kind == "not":
        return Not(_from_json(body, depth + 1))
    if kind in _LEAVES and isinstance(body, Mapping) and isinstance(body.get("column"), str):
        return _leaf_from_json(kind, dict(body))
    raise FilterError(
        f"{data!r:.120} is not a filter. Accepted: "
        '{"equals": {"column", "value"}}, {"in": {"column", "values"}}, '
        '{"range": {"column", "gte"|"gt", "lte"|"lt"}}, {"prefix": {"column", "prefix"}}, '
        '{"contains_any": {"column", "values"}}, {"contains_all": {"column", "values"}}, '
        '{"exists": {"column"}}, '
        '{"and": [...]}, {"or": [...]}, {"not": {...}}'
    )


_LEAVES: dict[str, tuple[type[Filter], frozenset[str]]] = {
    "equals": (Equals, frozenset(["value"])),
    "in": (In, frozenset(["values"])),
    "range": (Range, frozenset(BOUNDS)),
    "prefix": (Prefix, frozenset(["prefix"])),
    "contains_any": (ContainsAny, frozenset(["values"])),
    "contains_all": (ContainsAll, frozenset(["values"])),
    "exists": (Exists, frozenset()),
}


def _leaf_from_json(kind: str, body: dict[str, Any]) -> Filter:
    leaf, accepted = _LEAVES[kind]
    given = body.keys() - {"column"}
    required = set() if kind == "range" else accepted
    if not required <= given <= accepted:
        raise FilterError(
            f"{kind!r} on column {body['column']!r} has the keys {sorted(map(str, given))}. "
            f"Accepted: {sorted(accepted)}"
        )
    if "values" in body:
        if not isinstance(body["values"], list):
            raise FilterError(f"{kind!r} on column {body['column']!r} needs a list of values")
        body["values"] = tuple(body["values"])
    return leaf(**body)
