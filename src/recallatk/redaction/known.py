"""Secret values that this process knows, which are removed from whatever is written or shown.

Known are the values that `${NAME}` was replaced by, the variables that an engine reads its key from, and
every environment variable that is a secret by its name or holds a URL or a connection string with a password.
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

# Shorter values cannot be told from other text.
_SHORTEST = 4
# Shorter values are removed where they are whole words, longer ones wherever they stand.
_ANYWHERE = 8
_HIDDEN = "…"
_REFERENCE = r"\$\{\w+\}"
_PASSWORD = re.compile(r"(?i)\bpassword\s*=\s*('(?:[^'\\]|\\.)*'|[^\s'&]+)")

# value → the name of its variable, or nothing.
_secrets: dict[str, str] = {}
_expanded: dict[str, str] = {}


def remember(value: str | None, name: str = "", *, secret: bool = True) -> None:
    """Remove this value from all that is written or shown from now on.

    Args:
        value: what to remove; None and values of fewer than four characters are passed over.
        name: the environment variable that holds it, which is shown in its place.
        secret: whether it is known to be one. Others, such as a host, are only removed from what engines and
            libraries say: settings may hold the same word by chance.
    """
    if value is None:
        return
    lines = [line.strip() for line in value.splitlines()]
    for each in {value, value.strip(), *(line for line in lines if len(line) >= _ANYWHERE)}:
        if len(each) >= _SHORTEST:
            store = _secrets if secret else _expanded
            store[each] = name or store.get(each, "")


def hide_known(text: str) -> str:
    """The text without any value that is known to be a secret, or that `${NAME}` was replaced by."""
    return hiding()(text)


def hiding(*, expanded: bool = True) -> Callable[[str], str]:
    """The function that removes known values, for many texts: the environment is looked at once.

    Args:
        expanded: also remove values that `${NAME}` was replaced by and that may be no secrets.
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
    """A pattern of all spellings, and what stands in place of each; references stay as they are."""
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
    """The value as URLs, JSON, HTML, Python and the text of a file write it."""
    writable = value.encode("utf-8", "backslashreplace").decode()
    encoded = value.encode("utf-8", "surrogateescape")
    return {
        *(value, writable, repr(value)[1:-1], json.dumps(value)[1:-1]),
        *(json.dumps(value, ensure_ascii=False)[1:-1], quote(encoded), quote(encoded, safe="")),
        *(quote_plus(encoded), html.escape(value), html.escape(value, quote=False)),
        html.escape(value).replace("&#x27;", "&#39;"),
    }


def _of_environment() -> dict[str, str]:
    """What variables hold that are secrets by their name, and the passwords within other variables."""
    found = {}
    for name, value in os.environ.items():
        if len(value) < _SHORTEST:
            continue
        if is_secret_variable(name):
            # Some name the file of a key, or a socket.
            if len(value) >= _ANYWHERE and not (value.startswith("/") and os.path.exists(value)):  # noqa: PTH110
                found[value] = name
        elif is_url(value) or "password" in value:
            found |= dict.fromkeys(passwords_in(value), "")
    return found


def passwords_in(text: str) -> list[str]:
    """The passwords in a URL or a connection string, as they are written and decoded."""
    if is_url(text):
        user, at, _ = re.split("[?#]", text.partition("://")[2], maxsplit=1)[0].rpartition("@")
        written = user.partition(":")[2] if at else ""
        found = [written, unquote(written)]
    else:
        found = [each.strip("'") for each in _PASSWORD.findall(text)]
    return [each for each in dict.fromkeys(found) if len(each) >= _SHORTEST]
