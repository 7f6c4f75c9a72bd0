"""Names that say that their value is a secret: the one list for settings, headers, URLs, records and logs."""

from __future__ import annotations

import itertools
import re
from functools import lru_cache

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
# PGPASSWORD, authtoken: names that run their words together.
_ENDINGS = ("password", "passwd", "passphrase", "secret", "token", "apikey", "accesskey", "secretkey")
# A key is a secret after one of these words; after any other word it may be a column or a sort key.
_BEFORE_KEY = frozenset(
    [
        *("api", "access", "private", "account", "shared", "signing", "encryption", "subscription", "secret"),
        *("master", "admin", "service", "client", "security", "session", "storage", "functions", "auth"),
    ]
)
_KEYS = frozenset(["key", "keys"])
# Tokens and passes are counted too: a number of them is no secret.
_COUNTED = frozenset(["token", "tokens", "pass"])
_COUNTING = frozenset(
    ["max", "min", "num", "n", "number", "count", "total", "limit", "length", "size", "type"]
)
HARMLESS_HEADERS = frozenset(["content-type", "accept"])
# The beginnings of the above that are rare in prose: where one of these stands, a name is worth a look.
STEMS = "passw|passphrase|[_-]pass|pwd|secret|token|credential|key|jwt"


def is_secret_name(name: str, *, credential: bool = False, number: bool = False) -> bool:
    """Whether a value of this name is a secret.

    Args:
        name: in any spelling: `api_key`, `X-Api-Key`, `accessToken`, `PGPASSWORD`.
        credential: the name of a header or of a URL's parameter, where a plain `key` is one too.
        number: the value is a number, which may count something.
    """
    words = _secret_words(name, credential)
    return bool(words - _COUNTED if number else words)


def is_secret_variable(name: str) -> bool:
    """Whether an environment variable of this name holds a secret; shells keep folders in two of them."""
    return name not in ("PWD", "OLDPWD") and is_secret_name(name)


@lru_cache(maxsize=4096)
def _secret_words(name: str, credential: bool) -> frozenset[str]:
    """The words in a name that say that it is of a secret."""
    parts = re.findall(r"[a-z0-9]+", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower())
    keys = {last for first, last in itertools.pairwise(parts) if first in _BEFORE_KEY and last in _KEYS}
    if credential:
        keys |= _KEYS.intersection(parts[-1:])
    glued = {part for part in parts if part.endswith(_ENDINGS)}
    found = frozenset(keys | glued | _WORDS.intersection(parts))
    return found - _COUNTED if _COUNTING.intersection(parts) else found
