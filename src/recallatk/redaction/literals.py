"""Secrets that are written out where a reference to the environment, `${NAME}`, should stand."""

from __future__ import annotations

import itertools
import json
import re
import shlex
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl

from recallatk.redaction.names import is_secret_name
from recallatk.redaction.urls import is_url

REFERENCE = re.compile(r"\$\{(\w+)\}")
# $name within the body of a request stands for a search parameter.
_PARAMETER = re.compile(r"\$\w+")
_PASSWORD = re.compile(r"(?i)\b(?:password|passwd|pwd)\s*=\s*('[^']*'|\"[^\"]*\"|[^\s&;,]+)")


def is_literal(value: Any) -> bool:
    """Whether a value is written out: it is there, and does not refer to the environment or a parameter."""
    if isinstance(value, Mapping):
        return any(map(is_literal, value.values()))
    if isinstance(value, list | tuple | set | frozenset):
        return any(map(is_literal, value))
    if value is None or isinstance(value, bool):
        return False
    text = str(value)
    return bool(text) and not REFERENCE.search(text) and not _PARAMETER.fullmatch(text)


def literal_secret(value: Any, name: str = "") -> str | None:
    """What in a parameter is a secret that is written out, in words; None where nothing is.

    Args:
        value: a text, a number, or a table of them.
        name: what the parameter is called.
    """
    if isinstance(value, Mapping):
        return _in_table(value, headers=name.lower() == "headers")
    if isinstance(value, list | tuple):
        return next((found for each in value if (found := literal_secret(each, name))), None)
    if not isinstance(value, str):
        return None
    table = json_value(value)
    if table is not None:
        return literal_secret(table, name)
    return _in_command(value) if name == "command" else _in_text(value)


def json_value(text: str) -> Any:
    """The object or list of a JSON text; None for any other text."""
    if text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _in_table(table: Mapping[Any, Any], *, headers: bool) -> str | None:
    for key, value in table.items():
        number = isinstance(value, int | float)
        if is_secret_name(str(key), credential=headers, number=number) and is_literal(value):
            return f"the header {key}" if headers else str(key)
        found = literal_secret(value, str(key))
        if found is not None:
            return found
    return None


def _in_text(text: str) -> str | None:
    """A URL or a connection string."""
    if any(is_literal(each.strip("'\"")) for each in _PASSWORD.findall(text)):
        return "a password"
    if not is_url(text):
        return None
    before, _, query = text.partition("?")
    user, at, _ = before.partition("://")[2].rpartition("@")
    if at and is_literal(user.partition(":")[2]):
        return "the user in the URL"
    for name, value in parse_qsl(query):
        if is_secret_name(name, credential=True) and is_literal(value):
            return f"{name} in the URL"
    return None


def _in_command(text: str) -> str | None:
    """The arguments of a program: `--token X`, `--token=X`, `TOKEN=X`, `Authorization: X` and URLs."""
    try:
        arguments = shlex.split(text)
    except ValueError:
        return _in_text(text)
    for argument, following in itertools.zip_longest(arguments, arguments[1:], fillvalue=""):
        name, value, credential = _named(argument, following)
        if is_secret_name(name, credential=credential, number=value.isdecimal()) and is_literal(value):
            return name
        within = _in_command(argument) if " " in argument and argument != text else None
        found = within or _in_text(argument)
        if found is not None:
            return found
    return None


def _named(argument: str, following: str) -> tuple[str, str, bool]:
    """The name and the value of an argument, which may be the next one, and whether it is a header."""
    found = re.fullmatch(r"(-{0,2}[A-Za-z_][\w.-]*)(?:(=|\s*:\s*)(.*))?", argument, re.DOTALL)
    if found is None:
        return "", "", False
    name, between, value = found.groups()
    if between is not None:
        return name, value, ":" in between
    return name, following if name.startswith("-") and not following.startswith("-") else "", False
