"""Known secret values, which are removed from everything written or shown.

Known are the values of `${NAME}`, the variables from which an engine reads its key, and every environment
variable with a secret name or with a password in a URL or connection string.
"""

from __future__ import annotations

import html
import json
import os
import re
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import quote, quote_plus, unquote

from recallatk.redaction.names import is_secret_variable, is_url

if TYPE_CHECKING:
    from collections.abc import Callable

# Shorter values cannot be distinguished from other text.
_SHORTEST = 4
# Shorter values are removed only as whole words, longer ones anywhere.
_ANYWHERE = 8
_HIDDEN = "…"
_REFERENCE = r"\$\{\w+\}"
_PASSWORD = re.compile(r"(?i)\bpassword\s*=\s*('(?:[^'\\]|\\.)*'|[^\s'&]+)")

# value → name of its variable, or empty.
_secrets: dict[str, str] = {}
_expanded: dict[str, str] = {}


def remember(value: str | None, name: str = "", *, secret: bool = True) -> None:
    """From now on, remove this value from everything written or shown.

    Args:
        value: the value; None and values of fewer than four characters are ignored.
        name: the environment variable that holds it, which is shown in its place.
        secret: whether it is known to be a secret. Other values, such as a host, are removed only from text
            of engines and libraries, because settings may contain the same word by chance.
    """
    if value is None:
        return
    lines = [line.strip() for line in value.splitlines()]
    for each in {value, value.strip(), *(line for line in lines if len(line) >= _ANYWHERE)}:
        if len(each) >= _SHORTEST:
            store = _secrets if secret else _expanded
            store[each] = name or store.get(each, "")


def hide_known(text: str) -> str:
    """The text without known secrets and without values of `${NAME}`."""
    return hiding()(text)


def hiding(*, expanded: bool = True) -> Callable[[str], str]:
    """A function that removes known values from many texts and reads the environment once.

    Args:
        expanded: also remove values of `${NAME}` that may not be secrets.
    """
    known = {**(_expanded if expanded else {}), **_of_environment(), **_secrets}
    if not known:
        return str
    pattern, names = _compiled(frozenset(known.items()))
    return lambda text: pattern.sub(
        lambda found: found[0] if found[0].startswith("${") else names[found[0]], text
    )


@lru_cache(maxsize=16)
def _compiled(known: frozenset[tuple[str, str]]) -> tuple[re.Pattern[str], dict[str, str]]:
    """A pattern of all spellings, and the replacement of each; references are kept."""
    names = {
        spelling: f"${{{name}}}" if name else _HIDDEN
        for value, name in sorted(known)
        for spelling in _spellings(value)
    }
    ordered = sorted(names, key=len, reverse=True)
    return re.compile("|".join([_REFERENCE, *map(_pattern, ordered)])), names


def _pattern(value: str) -> str:
    plain = re.escape(value)
    return plain if len(value) >= _ANYWHERE else rf"(?<!\w){plain}(?!\w)"


def _spellings(value: str) -> set[str]:
    """The value as spelled in URLs, JSON, HTML, Python and text files."""
    writable = value.encode("utf-8", "backslashreplace").decode()
    encoded = value.encode("utf-8", "surrogateescape")
    return {
        *(value, writable, repr(value)[1:-1], json.dumps(value)[1:-1]),
        *(json.dumps(value, ensure_ascii=False)[1:-1], quote(encoded), quote(encoded, safe="")),
        *(quote_plus(encoded), html.escape(value), html.escape(value, quote=False)),
        html.escape(value).replace("&#x27;", "&#39;"),
    }


def _of_environment() -> dict[str, str]:
    """Values of variables with secret names, and passwords in other variables."""
    found = {}
    for name, value in os.environ.items():
        if len(value) < _SHORTEST:
            continue
        if is_secret_variable(name):
            # Some hold the path of a key file or a socket.
            if len(value) >= _ANYWHERE and not (value.startswith("/") and os.path.exists(value)):  # noqa: PTH110
                found[value] = name
        elif is_url(value) or "password" in value:
            found |= dict.fromkeys(passwords_in(value), "")
    return found


def passwords_in(text: str) -> list[str]:
    """The passwords in a URL or connection string, as written and decoded."""
    if is_url(text):
        user, at, _ = re.split("[?#]", text.partition("://")[2], maxsplit=1)[0].rpartition("@")
        written = user.partition(":")[2] if at else ""
        found = [written, unquote(written)]
    else:
        found = [each.strip("'") for each in _PASSWORD.findall(text)]
    return [each for each in dict.fromkeys(found) if len(each) >= _SHORTEST]
