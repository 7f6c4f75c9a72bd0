"""A run as CSV: one row per trial, and no cell that a spreadsheet would run."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recallatk.files import write_text
from recallatk.redaction import writable
from recallatk.report.exports.exported import Exported
from recallatk.report.exports.rows import flat_rows

if TYPE_CHECKING:
    from recallatk.core import Run
    from recallatk.files import PathLike

# Spreadsheets run text that begins with these, or that does so behind white space.
_RUN = ("=", "+", "-", "@")


def write(run: Run, out: PathLike) -> Exported:
    """Write a header and the trials; what was not measured is empty."""
    write_text(out, csv_text(run))
    return Exported((Path(out),))


def csv_text(run: Run) -> str:
    """The table as text."""
    columns, rows = flat_rows(run)
    target = io.StringIO()
    writer = csv.writer(target, lineterminator="\n")
    writer.writerow([_cell(name) for name in columns])
    writer.writerows([_cell(row[name]) for name in columns] for row in rows)
    return target.getvalue()


def _cell(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    return inert(writable(value)) if isinstance(value, str) else value


def inert(text: str) -> str:
    """The text behind an apostrophe where a spreadsheet would take it for a formula."""
    return f"'{text}" if text.lstrip().startswith(_RUN) or text.startswith(("\t", "\r", "\n")) else text
