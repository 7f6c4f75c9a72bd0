"""Markdown renderer: documents for a page or a comment."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from recallatk.reporting.document import Code, Form, Heading, Items, Lead, Linted, Sentences, Table
from recallatk.reporting.text import lead_in_words, printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from recallatk.reporting.document import Block, Document, Section

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>|#!~&])")
_FENCE = re.compile(r"`{3,}")


def render_markdown(document: Document) -> str:
    """The title, a list of what holds for everything, and each section under its heading."""
    lines = [f"# {escaped(document.title)}", ""] if document.title else []
    lines += _items(document.about)
    return "\n".join([*lines, *(line for each in document.sections for line in _section(each))])


def _section(section: Section) -> list[str]:
    headed = section.title and Form.MARKDOWN in section.headed
    lines = [f"## {escaped(section.title)}", ""] if headed else []
    return lines + [line for block in section.blocks for line in _lines(block, section.title)]


def _lines(block: Block, above: str) -> list[str]:
    match block:
        case Sentences():
            return [line for each in block.lines for line in (escaped(each), "")]
        case Items():
            return _items(block.lines)
        case Heading():
            return [f"### {escaped(block.title)}", ""]
        case Table():
            return _table(block, above)
        case Code():
            return _code(block.text)
        case Lead():
            return [escaped(lead_in_words(block)), ""]
        case Linted():
            return _linted(block)
        case _:
            return []


def _items(lines: Sequence[str]) -> list[str]:
    return [*(f"- {escaped(each)}" for each in lines), ""] if lines else []


def _table(table: Table, above: str) -> list[str]:
    if not table.rows:
        return []
    title = [] if table.title in ("", above) else [f"### {escaped(table.title)}", ""]
    ruler = [*["---"] * table.words, *["---:"] * (len(table.header) - table.words)]
    rows = [_row(row) for row in table.rows]
    return [*title, _row(table.header), f"| {' | '.join(ruler)} |", *rows, ""]


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(escaped(cell) for cell in cells)} |"


def _code(text: str) -> list[str]:
    """Fenced code, with a fence longer than any inside it."""
    fence = "`" * max(3, *(len(found) + 1 for found in [*_FENCE.findall(text), ""]))
    return [fence, *(printable(line) for line in text.split("\n")), fence, ""]


def _linted(block: Linted) -> list[str]:
    lines = []
    for each in block.remarks:
        lines.append(f"- **{each.severity} {each.code}**: {escaped(each.sentence)}")
        # Rules write these, not users: no escaping needed.
        lines += [f"  {each.why} {each.remedy}"] if each.explained else []
    return [*lines, *([""] if lines else []), block.count, ""]


def escaped(text: str) -> str:
    """Text with Markdown's special characters escaped."""
    return _SPECIAL.sub(r"\\\1", printable(text))
