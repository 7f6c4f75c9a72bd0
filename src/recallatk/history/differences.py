"""In what two runs differ, in words, so that a refusal says why."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_MISSING = object()
_MOST_SHOWN = 60
# Names and places, whose content tells them apart; and what recall is wanted, which changes no measurement.
_PLACES = frozenset({"name", "data.corpus", "data.queries", "truth.file"})


def differences(there: Mapping[str, Any], here: Mapping[str, Any]) -> list[str]:
    """Every difference in data, truth, metric and settings between what is there and what is wanted."""
    one, other = there["fingerprints"], here["fingerprints"]
    parts = [name for name in {**other, **one} if one.get(name) != other.get(name)]
    said = []
    data = [name for name in parts if name != "truth"]
    if data:
        said.append(f"the data ({', '.join(data)})")
    if "truth" in parts:
        said.append("the truth")
    if there["metric"] != here["metric"]:
        said.append(f"the metric ({there['metric']} there, {here['metric']} here)")
    settings = _changed(there["settings"], here["settings"])
    return said + [f"the setting {name} ({one} there, {other} here)" for name, one, other in settings]


def _changed(there: Any, here: Any) -> Iterator[tuple[str, str, str]]:
    one, other = dict(_leaves(there)), dict(_leaves(here))
    for name in {**one, **other}:
        before, after = one.get(name, _MISSING), other.get(name, _MISSING)
        if before != after and name not in _PLACES and not name.startswith("tune."):
            yield name, _shown(before), _shown(after)


def _leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Every value with its path; an empty table or list is a value."""
    if isinstance(value, dict) and value:
        for key, each in value.items():
            yield from _leaves(each, f"{name}.{key}" if name else key)
    elif isinstance(value, list) and any(isinstance(each, dict | list) for each in value):
        for number, each in enumerate(value):
            yield from _leaves(each, f"{name}[{number}]")
    elif name:
        yield name, value


def _shown(value: Any) -> str:
    if value is _MISSING:
        return "absent"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"
