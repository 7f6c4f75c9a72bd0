"""The linter's look before the work of a command."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from recallatk.cli.guard import FAILED, warn_if_swapped
from recallatk.cli.progress import progress

if TYPE_CHECKING:
    from recallatk.audit import Evidence


def look(known: Evidence, *, strict: bool) -> None:
    """Say what the linter holds for wrong: errors, and swapped files; with `strict` errors are the end."""
    from recallatk.audit import audit
    from recallatk.report.findings import findings_to_text

    with progress("audit"):
        errors = [each for each in audit(known) if each.counts]
    if known.dataset is not None:
        warn_if_swapped(
            known.dataset.corpus.sampled_from or known.dataset.corpus.rows, known.dataset.queries.rows
        )
    if errors:
        typer.echo(findings_to_text(errors, short=True), err=True)
    if errors and strict:
        raise typer.Exit(FAILED)
