"""What a run leaves behind when it ends: its reports, with what the linter found."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recallatk.cli.progress import progress

if TYPE_CHECKING:
    from pathlib import Path

    from recallatk.audit import Evidence
    from recallatk.core import Run
    from recallatk.core.judgments import Finding
    from recallatk.goals import Verdict

MARKDOWN, HTML = "report.md", "report.html"


def ended(run: Run, folder: Path, before: Evidence) -> tuple[list[Finding], Verdict]:
    """Audit a run and write its reports into its folder; the findings, and the verdict on its goals.

    Args:
        run: what was measured.
        folder: where it is.
        before: what was known of it before.
    """
    from recallatk.audit import audit
    from recallatk.files import write_text
    from recallatk.goals.runs import run_verdict
    from recallatk.report import to_html, to_markdown
    from recallatk.report.findings import findings_to_markdown

    with progress("audit and report"):
        known = before.measured(run)
        found, verdict = audit(known), run_verdict(run, known.truth, known.dataset)
        write_text(folder / MARKDOWN, f"{to_markdown(run, verdict=verdict)}\n{findings_to_markdown(found)}")
        write_text(folder / HTML, to_html(run, truth=known.truth, dataset=known.dataset, findings=found))
    return found, verdict
