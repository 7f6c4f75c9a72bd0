"""Plain copies of arguments: JSON values of filters, and scalars of parameters by dotted name."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from datetime import date, datetime
from enum import Enum
from typing import Any
from uuid import UUID

# Longer texts are documents or prompts, not parameters.
_LONGEST_TEXT = 64
_DEEPEST = 20
_MOST_ITEMS = 100_000
_ITEM_BYTES = 56


def plain(value: Any, depth: int = 0) -> Any:
    """The value in JSON's types; anything else is only named by its type, because it may hold anything."""
    value = _number(value.value if isinstance(value, Enum) else value)
    if value is None or isinstance(value, bool | int | float | str):
        return str(value) if isinstance(value, float) and not math.isfinite(value) else value
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, UUID):
        return str(value)
    if depth < _DEEPEST:
        fields = _fields(value)
        if fields is not None:
            return {str(name): plain(each, depth + 1) for name, each in fields.items() if each is not None}
        if isinstance(value, list | tuple | set | frozenset) and len(value) <= _MOST_ITEMS:
            return [plain(each, depth + 1) for each in value]
    return f"<{type(value).__name__}>"


def flat_scalars(named: Mapping[str, Any], prefix: str = "", depth: int = 0) -> dict[str, Any]:
    """The numbers, short texts and truth values among arguments; those inside objects by dotted name."""
    found: dict[str, Any] = {}
    for name, each in named.items():
        value = _number(each.value if isinstance(each, Enum) else each)
        fields = _fields(value) if depth < _DEEPEST else None
        short = isinstance(value, str) and len(value) <= _LONGEST_TEXT
        if short or isinstance(value, bool | int | float):
            found[f"{prefix}{name}"] = value
        elif fields is not None:
            found |= flat_scalars(fields, f"{prefix}{name}.", depth + 1)
    return found


def weight(value: Any) -> int:
    """Estimated bytes of a plain value in memory."""
    if isinstance(value, str):
        return _ITEM_BYTES + len(value)
    if isinstance(value, list):
        return _ITEM_BYTES + sum(map(weight, value))
    if isinstance(value, dict):
        return _ITEM_BYTES + sum(weight(name) + weight(each) for name, each in value.items())
    return _ITEM_BYTES


def _fields(value: Any) -> Mapping[Any, Any] | None:
    """The fields of a mapping, a dataclass or a pydantic model; None for anything else."""
    if isinstance(value, Mapping):
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}
    names = getattr(type(value), "model_fields", None)
    return {name: getattr(value, name) for name in names} if isinstance(names, Mapping) else None


def _number(value: Any) -> Any:
    """The Python number of a NumPy scalar."""
    return value.item() if type(value).__module__ == "numpy" and getattr(value, "ndim", 1) == 0 else value
