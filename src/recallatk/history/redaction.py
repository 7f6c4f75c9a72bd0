"""What may be written down: plain values for JSON, in which nothing is a secret."""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np

from recallatk.files import scrubbed

HIDDEN = "…"
_SECRET = frozenset(["passphrase", "passwd", "pwd", "auth", "authorization", "apikey", "bearer"]) | {
    word + ending for word in ("password", "secret", "token", "cookie", "credential") for ending in ("", "s")
}
# What makes a key one of the secret kind; others name columns.
_BEFORE_KEY = frozenset(["api", "access", "private", "account", "shared", "signing", "encryption"])
_KEYS = ("key", "keys")
# Numbers of tokens are common and no secret.
_COUNTED = frozenset(["token", "tokens"])
_HARMLESS_HEADERS = frozenset(["content-type", "accept"])
_ASSIGNED = re.compile(
    r"(?i)\b(\w*(?:password|passwd|pwd|secret|token|api[_-]?key)[\"']?\s*[=:]\s*)(\"[^\"]*\"|'[^']*'|[^\s,;&}]+)"
)
_AUTHORISED = re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9+/=._~-]{6,}")


def public(value: Any, name: str = "") -> Any:
    """A value as it may be written: plain, finite, and without what its name or form says is a secret."""
    if isinstance(value, Mapping):
        return {str(key): public(each, str(key)) for key, each in _opened(value, name).items()}
    if _is_secret(name, value):
        return _hidden(value)
    if isinstance(value, str):
        return _text(str(value), name)
    if isinstance(value, np.generic | np.ndarray):
        return public(value.tolist(), name)
    if isinstance(value, list | tuple | set | frozenset):
        return [public(each, name) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        # JSON has no such numbers; Python's float() reads these words back.
        return str(value)
    return value if value is None or isinstance(value, bool | int | float) else _text(str(value), name)


def _opened(value: Mapping[Any, Any], name: str) -> dict[Any, Any]:
    """The mapping, where it is one of headers with all but the harmless ones hidden."""
    if _is_secret(name, None):
        return {key: _hidden(each) for key, each in value.items()}
    if name.lower() != "headers":
        return dict(value)
    return {
        key: each if str(key).lower() in _HARMLESS_HEADERS else _hidden(each) for key, each in value.items()
    }


def _text(text: str, name: str) -> str:
    if name.lower() == "headers":
        return _header_text(text)
    text = _ASSIGNED.sub(lambda found: found[1] + _hidden(found[2]), scrubbed(text))
    return _AUTHORISED.sub(lambda found: f"{found[1]} {HIDDEN}", text)


def _header_text(text: str) -> str:
    try:
        headers = json.loads(text)
    except ValueError:
        return str(_hidden(text))
    if not isinstance(headers, dict):
        return str(_hidden(text))
    return json.dumps(public(headers, "headers"), ensure_ascii=False)


def _is_secret(name: str, value: Any) -> bool:
    """Whether something of this name is to be hidden; None stands for a mapping."""
    words = _secret_words(name)
    return bool(words - _COUNTED if isinstance(value, int | float) else words)


@cache
def _secret_words(name: str) -> frozenset[str]:
    """The words in a name that say that it is of a secret."""
    parts = re.findall(r"[a-z0-9]+", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower())
    keys = {last for first, last in itertools.pairwise(parts) if first in _BEFORE_KEY and last in _KEYS}
    return frozenset(keys.union(_SECRET.intersection(parts)))


def _hidden(value: Any) -> Any:
    """The same shape with nothing in it but references to the environment, which are no secrets."""
    if isinstance(value, Mapping):
        return {key: _hidden(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_hidden(each) for each in value]
    if value is None or isinstance(value, bool):
        return value
    text = str(value)
    return text if not text or "${" in text else HIDDEN
