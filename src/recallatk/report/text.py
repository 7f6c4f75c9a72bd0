"""The terminal's report: plain lines, with nothing in them that a terminal would obey."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recallatk.report.summary import header_and_rows, notes, title

if TYPE_CHECKING:
    from recallatk.core import Run


def to_text(run: Run) -> str:
    """The table of a run with its notes."""
    header, rows = header_and_rows(run)
    lines = [title(run), "", *aligned([header, *rows]), "", *notes(run)]
    return "\n".join(printable(line) for line in lines)


def aligned(rows: list[list[str]]) -> list[str]:
    """Rows of cells as lines: the first column to the left, the others to the right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [
        "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def printable(text: str) -> str:
    """Text in which control and direction characters are spelled out instead of obeyed."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)
