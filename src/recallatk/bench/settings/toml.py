"""Plain values written as TOML."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from recallatk.bench.settings.problems import key


def toml_value(value: Any) -> str:
    """One value on one line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return toml_text(value)
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, Mapping):
        listed = ", ".join(f"{toml_key(name)} = {toml_value(each)}" for name, each in value.items())
        return f"{{ {listed} }}" if listed else "{}"
    return f"[{', '.join(toml_value(each) for each in value)}]"


def toml_text(text: str) -> str:
    """A text in double quotes."""
    # JSON's escapes are TOML's; TOML also wants the delete character spelled out.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007F")


def toml_key(name: str) -> str:
    """A key, quoted where it has to be."""
    return key(name).replace("\x7f", "\\u007F")


def toml_table(header: str, values: Mapping[str, Any]) -> str:
    """A table under its header; what is None has no line."""
    lines = [f"{toml_key(name)} = {toml_value(value)}" for name, value in values.items() if value is not None]
    return "\n".join([header, *lines] if header else lines)
