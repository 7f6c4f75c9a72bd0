"""Text renderer: documents as plain text for terminals, with control characters escaped."""

from __future__ import annotations

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
    from recallatk.reporting.document import Block, Document, Section


def render_text(document: Document) -> str:
    """The title, then each section after an empty line."""
    parts = [[document.title, *document.about] if document.title else []]
    parts += [_section(each) for each in document.sections]
    return "\n\n".join("\n".join(printable(line) for line in part) for part in parts if part)


def _section(section: Section) -> list[str]:
    lines = [section.title] if section.title and Form.TEXT in section.headed else []
    return lines + [line for block in section.blocks for line in _lines(block, section.title)]


def _lines(block: Block, above: str) -> list[str]:
    match block:
        case Sentences() | Drawing():
            return list(block.lines)
        case Items():
            return [f"{block.label}: {line}" if block.label else line for line in block.lines]
        case Heading():
            return [block.title]
        case Table():
            return _table(block, above)
        case Code():
            return [f"  {line}".rstrip() for line in block.text.split("\n")]
        case Lead():
            return [block.sentence]
        case Linted():
            return _linted(block)
        case _:
            return []


def _table(table: Table, above: str) -> list[str]:
    if not table.rows:
        return []
    title = [] if table.title in ("", above) else [table.title]
    # Escapes are longer than the characters they replace, so escape before measuring widths.
    rows = [[printable(cell) for cell in row] for row in [table.header, *table.rows]]
    return [*title, *_aligned(rows, table.words)]


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
