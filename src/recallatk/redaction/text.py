"""Redaction of text from engines, servers and libraries: URL passwords, secret pairs, known values."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from recallatk.redaction.known import hide_known
from recallatk.redaction.names import STEMS, is_literal, is_secret_name, scrubbed

if TYPE_CHECKING:
    from collections.abc import Callable

_STEM = re.compile(rf"(?i){STEMS}")
# Possessive quantifiers, so that a long run of letters is scanned only once.
_NAMED = re.compile(
    r"(?<![\w-])(?P<name>[\w-]++)"
    r"(?:(?P<assigned>(?:\\*+[\"'])?+\s*+(?:=>|[=:])\s*+)|(?P<paired>[\"']\s*+,\s*+)(?=[\"'])|(?P<spaced>\s++)(?!-))"
)
_REFERENCE = re.compile(r"\$\{\w+\}")
_BARE = re.compile(r"[^\s,;&}\])]+")
_QUOTE = re.compile(r"(?<!\\)(\\*+)([\"'])")
_OPENED = re.compile(r"[(\[]\s*\\*[\"']\Z")
_CLOSING = {"(": ")", "[": "]", "{": "}"}
_LINE_END = re.compile(r"[\r\n]|\Z")
_LOOK_BACK = 8


def hide_pairs(text: str, hidden: str) -> str:
    """The text with the values of secret names replaced."""
    if not _STEM.search(text):
        return text
    parts, kept, place = [], 0, 0
    while found := _NAMED.search(text, place):
        place = found.end()
        if not _is_pair(text, found):
            continue
        start, place = place, _value_end(text, place)
        value = text[start:place].strip("\\\"'")
        if is_secret_name(found["name"], number=value.isdecimal()) and is_literal(value):
            parts += [text[kept:start], hidden]
            kept = place
    return "".join([*parts, text[kept:]])


def _is_pair(text: str, found: re.Match[str]) -> bool:
    """Whether the name is secret and its value follows."""
    if not _STEM.search(found["name"]) or not is_secret_name(found["name"]):
        return False
    if found["spaced"]:
        return found["name"].startswith("-")
    before = text[max(0, found.start() - _LOOK_BACK) : found.start()]
    return not found["paired"] or bool(_OPENED.search(before))


def _value_end(text: str, start: int) -> int:
    """End of the value that starts here: a reference, a quoted text, brackets or a word."""
    reference = _REFERENCE.match(text, start)
    if reference:
        return reference.end()
    quote = _QUOTE.match(text, start)
    if quote:
        return _quoted_end(text, quote)
    if text[start : start + 1] in _CLOSING:
        return _bracketed_end(text, start)
    bare = _BARE.match(text, start)
    return start if bare is None else bare.end()


def _quoted_end(text: str, opening: re.Match[str]) -> int:
    """Position after the closing quote; the end of the line if there is none."""
    depth, sign = len(opening[1]), opening[2]
    for found in _QUOTE.finditer(text, opening.end()):
        # In quoted JSON, a closing quote has as many backslashes as the opening one.
        closes = len(found[1]) <= depth if depth else len(found[1]) % 2 == 0
        if found[2] == sign and closes:
            return found.end()
    return _end_of_line(text, opening.end())


def _bracketed_end(text: str, start: int) -> int:
    """Position after the closing bracket; the end of the line if there is none."""
    awaited, place = [_CLOSING[text[start]]], start + 1
    while awaited and place < len(text):
        quote = _QUOTE.match(text, place)
        if quote:
            place = _quoted_end(text, quote)
            continue
        if text[place] in _CLOSING:
            awaited.append(_CLOSING[text[place]])
        elif text[place] == awaited[-1]:
            awaited.pop()
        place += 1
    return place if not awaited else _end_of_line(text, start)


def _end_of_line(text: str, start: int) -> int:
    found = _LINE_END.search(text, start)
    return len(text) if found is None else found.start()


HIDDEN = "…"
_HEADER = re.compile(
    r"(?i)\b((?:proxy-)?authorization|(?:set-)?cookie)((?:\\*[\"'])?\s*[:=]\s*(?:\\*[\"'])?)([^\"'\\\r\n]+)"
)
_AUTHORIZED = re.compile(r"(?i)\b(bearer|basic)(\s+)([A-Za-z0-9+/=._~-]{6,})")
# Keys that services issue, recognizable by their form.
_ISSUED = re.compile(
    r"\b(?:sk-[\w-]{16,}|(?:AKIA|ASIA)[0-9A-Z]{16}|gh[pousr]_\w{20,}|github_pat_\w{20,}|xox[abprs]-[\w-]{10,}"
    r"|AIza[\w-]{30,}|hf_[A-Za-z0-9]{20,}|(?<![\w-])eyJ[\w-]{8,}+\.[\w-]{8,}+\.[\w-]*)"
)


def writable(text: str) -> str:
    """The text with lone surrogates escaped, which UTF-8 cannot encode."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace").decode()
    return text


def redact_text(text: str, hide: Callable[[str], str] = hide_known) -> str:
    """Untrusted text without secrets, safe to write or show.

    Args:
        text: an error message, a log line, a version.
        hide: removes known values.
    """
    # Known values first, because a pattern may remove only a part of one.
    text = scrubbed(hide(writable(text)))
    text = _HEADER.sub(_hide, text)
    text = _AUTHORIZED.sub(_hide, text)
    return _ISSUED.sub(HIDDEN, hide_pairs(text, HIDDEN))


def _hide(found: re.Match[str]) -> str:
    return f"{found[1]}{found[2]}{HIDDEN if is_literal(found[3]) else found[3]}"
