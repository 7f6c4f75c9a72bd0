"""What a tuning found, for the terminal, for a page and for programs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from recallatk.report.markdown import escaped
from recallatk.report.text import aligned, printable
from recallatk.report.tuned_as_dict import tuned_from_dict, tuned_to_dict
from recallatk.report.tuned_contents import sections

if TYPE_CHECKING:
    from recallatk.core.tuned import Tuned
    from recallatk.report.tables import Table

__all__ = ["tuned_from_dict", "tuned_to_dict", "tuned_to_markdown", "tuned_to_text"]

_FENCE = re.compile(r"`{3,}")


def tuned_to_text(tuned: Tuned) -> str:
    """The verdict, the code to paste, and everything that explains them."""
    blocks = []
    for place, section in enumerate(sections(tuned)):
        lines = [] if place == 0 else [section.title]
        lines += [printable(each) for each in section.said]
        if section.code is not None:
            lines += [f"  {printable(line)}".rstrip() for line in section.code.split("\n")]
        if section.table is not None and section.table.rows:
            lines += _text_table(section.table)
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)


def tuned_to_markdown(tuned: Tuned) -> str:
    """The same under headings."""
    lines = ["# Tuning", ""]
    for place, section in enumerate(sections(tuned)):
        lines += [] if place == 0 else [f"## {section.title}", ""]
        for each in section.said:
            lines += [escaped(each), ""]
        if section.code is not None:
            fence = "`" * max(3, *(len(found) + 1 for found in [*_FENCE.findall(section.code), ""]))
            lines += [fence, *(printable(line) for line in section.code.split("\n")), fence, ""]
        if section.table is not None and section.table.rows:
            lines += _markdown_table(section.table)
    return "\n".join(lines)


def _text_table(table: Table) -> list[str]:
    rows = [[printable(cell) for cell in row] for row in [table.header, *table.rows]]
    return aligned(rows, table.words)


def _markdown_table(table: Table) -> list[str]:
    ruler = [*["---"] * table.words, *["---:"] * (len(table.header) - table.words)]
    rows = [f"| {' | '.join(escaped(cell) for cell in row)} |" for row in [table.header, *table.rows]]
    return [rows[0], f"| {' | '.join(ruler)} |", *rows[1:], ""]
