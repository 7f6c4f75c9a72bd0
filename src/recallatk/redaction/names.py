"""Secret names, URLs, and secrets written out instead of referring to the environment."""

from __future__ import annotations

import itertools
import json
import re
import shlex
from collections.abc import Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import parse_qsl

_WORDS = frozenset(
    [
        *("pass", "passwd", "pwd", "passphrase", "auth", "authorization", "bearer", "apikey", "jwt"),
        *("signature", "sig"),
        *(
            word + ending
            for word in ("password", "secret", "token", "cookie", "credential")
            for ending in ("", "s")
        ),
    ]
)
# PGPASSWORD, authtoken: names without separators.
_ENDINGS = ("password", "passwd", "passphrase", "secret", "token", "apikey", "accesskey", "secretkey")
# A key is a secret after one of these words; otherwise it may be a column or a sort key.
_BEFORE_KEY = frozenset(
    [
        *("api", "access", "private", "account", "shared", "signing", "encryption", "subscription", "secret"),
        *("master", "admin", "service", "client", "security", "session", "storage", "functions", "auth"),
    ]
)
_KEYS = frozenset(["key", "keys"])
# Tokens and passes can also be counts, which are not secrets.
_COUNTED = frozenset(["token", "tokens", "pass"])
_COUNTING = frozenset(
    ["max", "min", "num", "n", "number", "count", "total", "limit", "length", "size", "type"]
)
HARMLESS_HEADERS = frozenset(["content-type", "accept"])
# Stems of the words above that are rare in prose; a text with one of them is searched for names.
STEMS = "passw|passphrase|[_-]pass|pwd|secret|token|credential|key|jwt"


def is_secret_name(name: str, *, credential: bool = False, number: bool = False) -> bool:
    """Whether a value with this name is a secret.

    Args:
        name: in any spelling: `api_key`, `X-Api-Key`, `accessToken`, `PGPASSWORD`.
        credential: the name of a header or a URL parameter, where a plain `key` is a secret too.
        number: the value is a number, which may be a count.
    """
    words = _secret_words(name, credential)
    return bool(words - _COUNTED if number else words)


def is_secret_variable(name: str) -> bool:
    """Whether an environment variable with this name holds a secret; PWD and OLDPWD hold folders."""
    return name not in ("PWD", "OLDPWD") and is_secret_name(name)


@lru_cache(maxsize=4096)
def _secret_words(name: str, credential: bool) -> frozenset[str]:
    """The words in a name that mark a secret."""
    parts = re.findall(r"[a-z0-9]+", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower())
    keys = {last for first, last in itertools.pairwise(parts) if first in _BEFORE_KEY and last in _KEYS}
    if credential:
        keys |= _KEYS.intersection(parts[-1:])
    glued = {part for part in parts if part.endswith(_ENDINGS)}
    found = frozenset(keys | glued | _WORDS.intersection(parts))
    return found - _COUNTED if _COUNTING.intersection(parts) else found


_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{1,30}://")
_PORT = re.compile(r"[0-9]+|\$\{\w+\}")
_WITHIN = re.compile(rf"{_SCHEME.pattern}[^\s'\")>]+")


def is_url(text: str) -> bool:
    """Whether the text is a URL rather than a path."""
    return bool(_SCHEME.match(text))


def without_secrets(text: str) -> str:
    """A path or URL without user, password and query string."""
    if not is_url(text):
        return text
    scheme, _, rest = text.partition("://")
    rest = re.split("[?#]", rest, maxsplit=1)[0]
    host, slash, path = rest.partition("/")
    if "@" in host:
        host = host.rpartition("@")[2]
    elif ":" in host and ("@" in path or not _PORT.fullmatch(host.rpartition(":")[2])):
        # A password with an unescaped slash: drop everything that may be part of it.
        host, slash, path = rest.rpartition("@")[2] if "@" in path else "…", "", ""
    return f"{scheme}://{host}{slash}{path}"


def scrubbed(message: str) -> str:
    """A message from elsewhere, with every URL redacted."""
    return _WITHIN.sub(lambda found: without_secrets(found[0]), message)


REFERENCE = re.compile(r"\$\{(\w+)\}")
# $name in the body of a request refers to a search parameter.
_PARAMETER = re.compile(r"\$\w+")
_PASSWORD = re.compile(r"(?i)\b(?:password|passwd|pwd)\s*=\s*('[^']*'|\"[^\"]*\"|[^\s&;,]+)")


def is_literal(value: Any) -> bool:
    """Whether a value is given literally, not as a reference to the environment or a parameter."""
    if isinstance(value, Mapping):
        return any(map(is_literal, value.values()))
    if isinstance(value, list | tuple | set | frozenset):
        return any(map(is_literal, value))
    if value is None or isinstance(value, bool):
        return False
    text = str(value)
    return bool(text) and not REFERENCE.search(text) and not _PARAMETER.fullmatch(text)


def literal_secret(value: Any, name: str = "") -> str | None:
    """Description of the literal secret in a parameter; None if there is none.

    Args:
        value: a text, a number, or a table of them.
        name: the parameter's name.
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
    """The object or list in a JSON text; None for any other text."""
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
    """The secret in a URL or connection string."""
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
    """The secret in a command: `--token X`, `--token=X`, `TOKEN=X`, `Authorization: X` and URLs."""
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
    """Name and value of an argument, where the value may be the next argument; and whether it is a header."""
    found = re.fullmatch(r"(-{0,2}[A-Za-z_][\w.-]*)(?:(=|\s*:\s*)(.*))?", argument, re.DOTALL)
    if found is None:
        return "", "", False
    name, between, value = found.groups()
    if between is not None:
        return name, value, ":" in between
    return name, following if name.startswith("-") and not following.startswith("-") else "", False
