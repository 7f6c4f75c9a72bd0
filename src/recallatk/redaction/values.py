"""Redaction of values: plain, for JSON, without secrets."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

from recallatk.redaction.known import hiding
from recallatk.redaction.names import HARMLESS_HEADERS, is_literal, is_secret_name, is_url, json_value
from recallatk.redaction.text import HIDDEN, redact_text, writable

Hide = Callable[[str], str]

_HEADERS = "headers"
# Paths: a folder name may equal a secret by chance, and the path must stay usable.
_PATHS = frozenset(["corpus", "queries", "file", "store", "folder", "cache"])
# A filter contains column names and values of the data.
_FILTER = "where"


def public(value: Any, name: str = "") -> Any:
    """A plain, finite value without secrets, recognized by name, form or value."""
    try:
        return _public(value, name, hiding(expanded=False))
    except RecursionError:
        # Nested too deeply to inspect, so hide everything.
        return HIDDEN


def without_known(value: Any) -> Any:
    """A value with only the known secrets hidden, for files that are used again."""
    return _mapped(value, "", hiding(expanded=False))


def _mapped(value: Any, name: str, hide: Hide) -> Any:
    if isinstance(value, Mapping):
        return {key: _mapped(each, str(key), hide) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_mapped(each, name, hide) for each in value)
    return hide(value) if isinstance(value, str) and not _is_path(value, name) else value


def _is_path(text: str, name: str) -> bool:
    return name in _PATHS and not is_url(text)


def _public(value: Any, name: str, hide: Hide) -> Any:
    if isinstance(value, Mapping):
        return {
            writable(str(key)): _public(each, str(key), hide) for key, each in _opened(value, name).items()
        }
    if hasattr(value, "tolist"):
        # A NumPy scalar or array.
        return _public(value.tolist(), name, hide)
    if is_secret_name(name, number=isinstance(value, int | float)):
        return _hidden(value)
    if isinstance(value, str):
        return _text(str(value), name, hide)
    if isinstance(value, list | tuple | set | frozenset):
        return [_public(each, name, hide) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        # JSON has no such numbers; Python's float() parses these strings.
        return str(value)
    return value if value is None or isinstance(value, bool | int | float) else _text(str(value), name, hide)


def _opened(value: Mapping[Any, Any], name: str) -> dict[Any, Any]:
    """The mapping; if it holds headers, all but the harmless ones are hidden."""
    if is_secret_name(name):
        return {key: _hidden(each) for key, each in value.items()}
    if name.lower() != _HEADERS:
        return dict(value)
    return {
        key: each if str(key).lower() in HARMLESS_HEADERS else _hidden(each) for key, each in value.items()
    }


def _text(text: str, name: str, hide: Hide) -> str:
    table = json_value(text)
    if table is not None:
        shown = _public(table, name, hide)
        return text if shown == table else json.dumps(shown, ensure_ascii=False)
    if name.lower() == _HEADERS:
        return str(_hidden(text))
    if _is_path(text, name):
        return writable(text)
    if name == _FILTER:
        return hide(writable(text))
    return redact_text(text, hide)


def _hidden(value: Any) -> Any:
    """The same structure with all values hidden, except references to the environment."""
    if isinstance(value, Mapping):
        return {writable(str(key)): _hidden(each) for key, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_hidden(each) for each in value]
    if value is None or isinstance(value, bool):
        return value
    return HIDDEN if is_literal(value) else writable(str(value))
