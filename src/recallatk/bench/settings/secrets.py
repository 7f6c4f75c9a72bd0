"""Secrets stay out of bench files, which are written down: they come from the environment."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from recallatk.errors import UsageError
from recallatk.files import is_url

if TYPE_CHECKING:
    from collections.abc import Mapping

_ENVIRONMENT = re.compile(r"\$\{(\w+)\}")
_SECRET_NAME = re.compile(r"auth|cookie|key|token|secret|password|signature|^sig$", re.IGNORECASE)
_PASSWORD = re.compile(r"\b(?:password|passwd|pwd)\s*=\s*(?!\$\{)\S", re.IGNORECASE)
REFUSAL = "may hold a secret, and this file is kept with the run. Take it from the environment: ${NAME}"


def refuse_secrets(text: str) -> None:
    """Refuse a URL or connection string with a password or a key in it."""
    if _PASSWORD.search(text):
        raise ValueError(f"a password {REFUSAL}")
    if not is_url(text):
        return
    before, _, query = text.partition("?")
    user, at, _ = before.partition("://")[2].rpartition("@")
    if at and ":" in user and not _ENVIRONMENT.search(user.partition(":")[2]):
        raise ValueError(f"the user in the URL {REFUSAL}")
    for name, value in parse_qsl(query):
        if _SECRET_NAME.search(name) and not _ENVIRONMENT.search(value):
            raise ValueError(f"{name} in the URL {REFUSAL}")


def refuse_secret_headers(headers: Mapping[str, Any]) -> None:
    """Refuse headers that are secret by their name and are written out."""
    for name, value in headers.items():
        if _SECRET_NAME.search(name) and not _ENVIRONMENT.search(str(value)):
            raise ValueError(f"the header {name} {REFUSAL}")


def filled(text: str) -> str:
    """A URL with the values of `${NAME}`; paths stay as they are."""
    return _ENVIRONMENT.sub(_take, text) if is_url(text) else text


def _take(found: re.Match[str]) -> str:
    name = found[1]
    if name not in os.environ:
        raise UsageError(f"the environment has no variable {name}, which the data's URL names")
    return os.environ[name]
