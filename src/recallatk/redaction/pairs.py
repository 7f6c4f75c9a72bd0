"""Names with values in running text: `api_key=X`, `"token": "X"`, `--password X`, `('x-api-key', 'X')`."""

from __future__ import annotations

import re

from recallatk.redaction.literals import is_literal
from recallatk.redaction.names import STEMS, is_secret_name

_STEM = re.compile(rf"(?i){STEMS}")
# Possessive, so that a long run of letters is looked at once.
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
    """The text in which the values of names that are those of secrets are replaced."""
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
    """Whether the name is one of a secret, and what follows is its value."""
    if not _STEM.search(found["name"]) or not is_secret_name(found["name"]):
        return False
    if found["spaced"]:
        return found["name"].startswith("-")
    before = text[max(0, found.start() - _LOOK_BACK) : found.start()]
    return not found["paired"] or bool(_OPENED.search(before))


def _value_end(text: str, start: int) -> int:
    """Where the value that begins here ends: a reference, a quoted text, brackets or a word."""
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
    """Behind the quote that closes; the end of the line where none does."""
    depth, sign = len(opening[1]), opening[2]
    for found in _QUOTE.finditer(text, opening.end()):
        # Within JSON that is itself quoted, a closing quote has as many backslashes as the opening one.
        closes = len(found[1]) <= depth if depth else len(found[1]) % 2 == 0
        if found[2] == sign and closes:
            return found.end()
    return _end_of_line(text, opening.end())


def _bracketed_end(text: str, start: int) -> int:
    """Behind the bracket that closes; the end of the line where none does."""
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
