"""The report as Markdown, fit for a page or a comment."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from recallatk.report.text import printable

if TYPE_CHECKING:
    from recallatk.core import Run
    from recallatk.goals import Verdict
    from recallatk.report.tables import Table

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>|#!~&])")


def to_markdown(
    run: Run,
    *,
    verdict: Verdict | None = None,
    wide: bool = False,
    by: str = "mode",
    logs: str | None = None,
    go_on: str | None = None,
) -> str:
    """A heading, the tables, what failed, what to be careful about, and notes.

    Args:
        run: what was measured.
        verdict: on its goals; by default what the run tells without its truth and data.
        wide: with every interval and percentile, and whole parameters.
        by: one table per `mode`, or one per `load`.
        logs: where the logs of failed trials are.
        go_on: the command that measures what is missing.
    """
    from recallatk.report.contents import contents

    found = contents(run, verdict=verdict, wide=wide, by=by, logs=logs, go_on=go_on)
    lines = [f"# {escaped(found.title)}", "", *_listed("", found.about)]
    for table in found.tables:
        lines += _table(table)
    for heading, said in (
        ("Goals", found.goals),
        ("Failed", found.failures),
        ("Cautions", found.cautions),
        ("Notes", found.notes),
    ):
        lines += _listed(heading, said)
    return "\n".join(lines)


def _listed(heading: str, said: list[str]) -> list[str]:
    if not said:
        return []
    head = [f"## {heading}", ""] if heading else []
    return [*head, *(f"- {escaped(each)}" for each in said), ""]


def _table(table: Table) -> list[str]:
    numbers = len(table.header) - table.words
    ruler = [*["---"] * table.words, *["---:"] * numbers]
    rows = [_row(row) for row in table.rows]
    return [f"## {escaped(table.title)}", "", _row(table.header), f"| {' | '.join(ruler)} |", *rows, ""]


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(escaped(cell) for cell in cells)} |"


def escaped(text: str) -> str:
    """Text that Markdown shows as it is."""
    return _SPECIAL.sub(r"\\\1", printable(text))
