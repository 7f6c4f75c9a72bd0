"""URLs as they may be shown."""

from __future__ import annotations

import re

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{1,30}://")
_PORT = re.compile(r"[0-9]+|\$\{\w+\}")
_WITHIN = re.compile(rf"{_SCHEME.pattern}[^\s'\")>]+")


def is_url(text: str) -> bool:
    """Whether the text is a URL and not a path."""
    return bool(_SCHEME.match(text))


def without_secrets(text: str) -> str:
    """A path or URL as it may be shown: no user, no password, no query string."""
    if not is_url(text):
        return text
    scheme, _, rest = text.partition("://")
    rest = re.split("[?#]", rest, maxsplit=1)[0]
    host, slash, path = rest.partition("/")
    if "@" in host:
        host = host.rpartition("@")[2]
    elif ":" in host and ("@" in path or not _PORT.fullmatch(host.rpartition(":")[2])):
        # A password with an unescaped slash in it: whatever may be part of it is left out.
        host, slash, path = rest.rpartition("@")[2] if "@" in path else "…", "", ""
    return f"{scheme}://{host}{slash}{path}"


def scrubbed(message: str) -> str:
    """Somebody else's message with every URL in it as it may be shown."""
    return _WITHIN.sub(lambda found: without_secrets(found[0]), message)
