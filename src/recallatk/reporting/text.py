"""Text renderer: documents as plain text for terminals, with control characters escaped."""

from __future__ import annotations

import re
import shutil
import sys
import textwrap
from typing import TYPE_CHECKING

from recallatk.reporting.document import (
    Code,
    Drawing,
    Form,
    Heading,
    Items,
    Lead,
    Linted,
    Sentences,
    Table,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from recallatk.reporting.document import Block, Document, Section

_NARROWEST = 40


# Characters that consoles without Unicode lack, and what stands for them there.
_ASCII = str.maketrans(
    dict(zip("●■▲◆✚▼○□△◇✕▽┤│└─…×", "*#^@+v" + "o%&0xw" + "+|+-~x", strict=True))
    | {"Δ": "diff "}
    | dict(zip("▁▂▃▄▅▆▇█", "_.-:=+*#", strict=True))
)


def render_text(document: Document, width: int | None = None) -> str:
    """The title, then each section after an empty line.

    Args:
        document: what to render.
        width: wrap sentences at this many columns; None: never.
    """
    parts = [[document.title, *document.about] if document.title else []]
    parts = [_wrapped(each, width) for each in parts]
    parts += [_section(each, width) for each in document.sections]
    return "\n\n".join("\n".join(printable(line) for line in part) for part in parts if part)


def terminal_width() -> int:
    """Columns of the terminal, or of COLUMNS; 80 where neither is known."""
    return shutil.get_terminal_size().columns


def for_console(text: str, *, ascii_only: bool | None = None) -> str:
    """The text with ASCII in place of our signs, where the console cannot show them.

    Args:
        text: rendered text.
        ascii_only: whether to replace them; None: if the encoding of standard output lacks them.
    """
    if ascii_only is None:
        try:
            "●─±".encode(getattr(sys.stdout, "encoding", None) or "utf-8")
            ascii_only = False
        except (UnicodeEncodeError, LookupError):
            ascii_only = True
    # The blank before the sign goes, so that tables stay aligned.
    return re.sub(r" ±(?=\d)|±", "+-", text).translate(_ASCII) if ascii_only else text


def _section(section: Section, width: int | None) -> list[str]:
    lines = _wrapped([section.title], width) if section.title and Form.TEXT in section.headed else []
    return lines + [line for block in section.blocks for line in _lines(block, section.title, width)]


def _lines(block: Block, above: str, width: int | None) -> list[str]:
    match block:
        case Drawing():
            return list(block.lines)
        case Sentences():
            return _wrapped(block.lines, width)
        case Items():
            return _wrapped(
                [f"{block.label}: {line}" if block.label else line for line in block.lines], width
            )
        case Heading():
            return [block.title]
        case Table():
            return _table(block, above)
        case Code():
            return [f"  {line}".rstrip() for line in block.text.split("\n")]
        case Lead():
            return _wrapped([lead_in_words(block)], width)
        case Linted():
            return _linted(block)
        case _:
            return []


def lead_in_words(lead: Lead) -> str:
    """The outcome and its sentence in one, such as `Met: the cheapest setting …`."""
    said = f"{lead.why}{lead.sentence}"
    return f"{lead.word}: {said[:1].lower()}{said[1:]}" if lead.word else said


def _wrapped(lines: Sequence[str], width: int | None) -> list[str]:
    """Lines broken between words at the width, continued with an indent."""
    if width is None:
        return list(lines)
    return [
        part
        for line in lines
        for part in textwrap.wrap(
            # Escapes count: a line must fit as it is printed.
            printable(line),
            max(width, _NARROWEST),
            subsequent_indent="  ",
            break_on_hyphens=False,
            break_long_words=False,
        )
        or [""]
    ]


def _table(table: Table, above: str) -> list[str]:
    if not table.rows:
        return []
    title = [] if table.title in ("", above) else [table.title]
    # Escapes are longer than the characters they replace, so escape before measuring widths.
    rows = [[printable(cell) for cell in row] for row in [table.header, *table.rows]]
    return [*title, *_aligned(rows, table.words)]


def columns_taken(header: list[str], rows: list[list[str]]) -> int:
    """Columns of a terminal that a table takes."""
    columns = zip(header, *rows, strict=True)
    return sum(max(len(printable(cell)) for cell in column) + 2 for column in columns) - 2


def _aligned(rows: list[list[str]], words: int) -> list[str]:
    """Rows of cells as lines: the first columns, of words, to the left, the others to the right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [
        "  ".join(
            cell.ljust(width) if column < words else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _linted(block: Linted) -> list[str]:
    lines = []
    for each in block.remarks:
        lines.append(f"{each.severity} {each.code}: {each.sentence}")
        lines += [f"    {each.why}", f"    {each.remedy}"] if each.explained else []
    return [*lines, block.count]


def printable(text: str) -> str:
    """Text with control and direction characters escaped."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)
