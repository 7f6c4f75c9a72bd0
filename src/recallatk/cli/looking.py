"""The linter's look before the work of a command."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from recallatk.cli.guard import FAILED
from recallatk.cli.progress import progress

if TYPE_CHECKING:
    from recallatk.audit import Evidence


def look(known: Evidence, *, strict: bool) -> None:
    """Say what the linter holds for wrong: errors alone, and with `strict` they are the end."""
    from recallatk.audit import audit
    from recallatk.report.findings import findings_to_text

    with progress("audit"):
        errors = [each for each in audit(known) if each.counts]
    if errors:
        typer.echo(findings_to_text(errors, short=True), err=True)
    if errors and strict:
        raise typer.Exit(FAILED)
