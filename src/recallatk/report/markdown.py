"""The report as Markdown, fit for a page or a comment."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from recallatk.report.summary import header_and_rows, notes, title
from recallatk.report.text import printable

if TYPE_CHECKING:
    from recallatk.core import Run

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>|#!~&])")


def to_markdown(run: Run) -> str:
    """A heading, the table and the notes."""
    header, rows = header_and_rows(run)
    ruler = ["---", *["---:"] * (len(header) - 1)]
    table = [_row(header), f"| {' | '.join(ruler)} |", *(_row(row) for row in rows)]
    said = [f"- {escaped(note)}" for note in notes(run)]
    return "\n".join([f"# {escaped(title(run))}", "", *table, "", *said, ""])


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(escaped(cell) for cell in cells)} |"


def escaped(text: str) -> str:
    """Text that Markdown shows as it is."""
    return _SPECIAL.sub(r"\\\1", printable(text))
