"""Secrets stay out of bench files, which are saved with the run: they come from the environment."""

from __future__ import annotations

from typing import Any

from recallatk.redaction import is_url, literal_secret
from recallatk.references import expanded

REFUSAL = "may hold a secret, and this file is kept with the run. Take it from the environment: ${NAME}"


def refuse_secrets(value: Any, name: str = "") -> None:
    """Refuse a parameter with a password, a token or a key written out in it."""
    found = literal_secret(value, name)
    if found is not None:
        raise ValueError(f"{found} {REFUSAL}")


def without_literals(value: str) -> str:
    """A path or URL, refused where a password or a key is written out in it."""
    refuse_secrets(value)
    return value


def filled(text: str, key: str) -> str:
    """A URL with the environment's values in place of `${NAME}`; paths stay as they are.

    Args:
        text: what the file says.
        key: where it says it, such as `data.corpus`.
    """
    return expanded(text, "url", key) if is_url(text) else text
