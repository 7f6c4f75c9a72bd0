"""Text that others wrote, such as an engine's error or a process's log, as it may be written or shown."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from recallatk.redaction.known import hide_known
from recallatk.redaction.literals import is_literal
from recallatk.redaction.pairs import hide_pairs
from recallatk.redaction.urls import scrubbed

if TYPE_CHECKING:
    from collections.abc import Callable

HIDDEN = "…"
_HEADER = re.compile(
    r"(?i)\b((?:proxy-)?authorization|(?:set-)?cookie)((?:\\*[\"'])?\s*[:=]\s*(?:\\*[\"'])?)([^\"'\\\r\n]+)"
)
_AUTHORISED = re.compile(r"(?i)\b(bearer|basic)(\s+)([A-Za-z0-9+/=._~-]{6,})")
# Keys that services give out, which are known by their form.
_ISSUED = re.compile(
    r"\b(?:sk-[\w-]{16,}|(?:AKIA|ASIA)[0-9A-Z]{16}|gh[pousr]_\w{20,}|github_pat_\w{20,}|xox[abprs]-[\w-]{10,}"
    r"|AIza[\w-]{30,}|hf_[A-Za-z0-9]{20,}|(?<![\w-])eyJ[\w-]{8,}+\.[\w-]{8,}+\.[\w-]*)"
)


def writable(text: str) -> str:
    """The text with lone surrogates spelled out, which UTF-8 cannot hold."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace").decode()
    return text


def redact_text(text: str, hide: Callable[[str], str] = hide_known) -> str:
    """Text that anybody wrote, as it may be written or shown.

    Args:
        text: an error message, a line of a log, a version.
        hide: removes the values that are known.
    """
    # Known values first: a pattern may leave a part of one.
    text = scrubbed(hide(writable(text)))
    text = _HEADER.sub(_hide, text)
    text = _AUTHORISED.sub(_hide, text)
    return _ISSUED.sub(HIDDEN, hide_pairs(text, HIDDEN))


def _hide(found: re.Match[str]) -> str:
    return f"{found[1]}{found[2]}{HIDDEN if is_literal(found[3]) else found[3]}"
