"""A statement of the user's as the search of a collection: its check, and its placeholders."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from recallatk.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

_PLACEHOLDERS = ("$vector", "$k", "$filter")
# Where a semicolon ends no statement: literals, quoted names, and comments. A plain literal with a backslash
# may end elsewhere, depending on a setting of the server, and comments may be nested: these are unsure.
_NO_SYNTAX = re.compile(
    r"""(?<!\w)[eE]'(?:[^'\\]|\\.|'')*'|'(?:[^'\\]|'')*'|"(?:[^"]|"")*"|\$(\w*)\$.*?\$\1\$|--[^\n]*"""
    r"""|/\*(?:(?!/\*|\*/).)*\*/|(?P<unsure>/\*|['"]|\$\w*\$)""",
    re.DOTALL,
)


def checked_template(text: str | None) -> str | None:
    """A statement of the user's: one SELECT with $vector and $k."""
    if text is None:
        return None
    missing = [name for name in _PLACEHOLDERS[:2] if not re.search(rf"\{name}\b", text)]
    if missing:
        raise UsageError(f"--sql lacks {' and '.join(missing)}. Accepted: a SELECT with $vector, $k, $filter")
    ended = text.rstrip().rstrip(";")
    if not re.match(r"\s*(select|with)\b", text, re.IGNORECASE) or _has_several(ended):
        raise UsageError("--sql is not a single SELECT. The first column of its rows is the id")
    return ended


def _has_several(text: str) -> bool:
    """Whether a semicolon may end a statement before the end of the text."""
    if ";" not in text:
        return False
    unsure = any(found["unsure"] for found in _NO_SYNTAX.finditer(text))
    return unsure or ";" in _NO_SYNTAX.sub(" ", text)


def filled_template(
    template: str, vector: Any, k: int, where: str, values: Sequence[Any]
) -> tuple[str, list[Any]]:
    """The statement with placeholders of the driver, and their values in order."""
    text, given = "", list[Any]()
    for part in re.split(r"(\$vector\b|\$k\b|\$filter\b)", template):
        if part == "$vector":
            text, given = f"{text}%s", [*given, vector]
        elif part == "$k":
            text += f"{k:d}"
        elif part == "$filter":
            text, given = f"{text}{where or 'TRUE'}", [*given, *values]
        else:
            text += part.replace("%", "%%")
    if where and "$filter" not in template:
        raise UsageError("--sql has no $filter, and these queries have filters")
    return text, given
