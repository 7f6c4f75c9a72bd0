"""What a run leaves behind when it ends: its reports, with what the linter found."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recallatk.cli.progress import progress

if TYPE_CHECKING:
    from pathlib import Path

    from recallatk.core import Run
    from recallatk.core.findings import Finding

MARKDOWN, HTML = "report.md", "report.html"


def ended(run: Run, folder: Path) -> list[Finding]:
    """Audit a run and write its reports into its folder; what was found."""
    from recallatk.audit import audit_run
    from recallatk.audit.opening import find_truth, open_if_there, settings_beside
    from recallatk.files import write_text
    from recallatk.report import to_html, to_markdown
    from recallatk.report.findings import findings_to_markdown

    with progress("audit and report"):
        settings = settings_beside(folder)
        dataset = None if settings is None else open_if_there(settings)
        truth = None if settings is None or dataset is None else find_truth(settings, dataset)
        found = audit_run(run, dataset=dataset, truth=truth, settings=settings)
        write_text(folder / MARKDOWN, f"{to_markdown(run)}\n{findings_to_markdown(found)}")
        write_text(folder / HTML, to_html(run, truth=truth, dataset=dataset, findings=found))
    return found
