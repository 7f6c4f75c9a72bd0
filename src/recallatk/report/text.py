"""The terminal's report: plain lines, with nothing in them that a terminal would obey."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from recallatk.core import Run
    from recallatk.goals import Verdict
    from recallatk.report.tables import Table


def to_text(
    run: Run,
    *,
    verdict: Verdict | None = None,
    wide: bool = False,
    by: str = "mode",
    logs: str | None = None,
    go_on: str | None = None,
) -> str:
    """The tables of a run, what failed, what to be careful about, and notes.

    Args:
        run: what was measured.
        verdict: on its goals; by default what the run tells without its truth and data.
        wide: with every interval and percentile, and whole parameters.
        by: one table per `mode`, or one per `load`.
        logs: where the logs of failed trials are.
        go_on: the command that measures what is missing.
    """
    from recallatk.report.contents import contents
    from recallatk.report.plot import plot

    found = contents(run, verdict=verdict, wide=wide, by=by, logs=logs, go_on=go_on)
    blocks = [
        [found.title, *found.about],
        *(_table(each) for each in found.tables),
        plot(run),
        found.goals,
        [f"failed: {each}" for each in found.failures],
        [f"caution: {each}" for each in found.cautions],
        found.notes,
    ]
    return "\n\n".join("\n".join(printable(line) for line in block) for block in blocks if block)


def _table(table: Table) -> list[str]:
    # Escapes are longer than what they stand for, so that they come before the widths.
    rows = [[printable(cell) for cell in row] for row in [table.header, *table.rows]]
    return [table.title, *aligned(rows, table.words)]


def aligned(rows: list[list[str]], words: int = 1) -> list[str]:
    """Rows of cells as lines: the first columns, of words, to the left, the others to the right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [
        "  ".join(
            cell.ljust(width) if column < words else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def printable(text: str) -> str:
    """Text in which control and direction characters are spelled out instead of obeyed."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)
