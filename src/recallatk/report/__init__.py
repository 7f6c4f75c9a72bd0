"""Runs as people and other tools read them: tables, Markdown, HTML, charts, JSON and exports."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from recallatk.report.as_dict import run_to_dict
from recallatk.report.assessment import assessment_to_dict, assessment_to_text
from recallatk.report.charts import charts_of
from recallatk.report.exports import export
from recallatk.report.markdown import to_markdown
from recallatk.report.text import to_text

if TYPE_CHECKING:
    from recallatk.report.html import to_html, tuned_to_html

__all__ = [
    "assessment_to_dict",
    "assessment_to_text",
    "charts_of",
    "export",
    "run_to_dict",
    "to_html",
    "to_markdown",
    "to_text",
    "tuned_to_html",
]


def __getattr__(name: str) -> Any:
    # The page needs the analysis of single queries, for which a line in a terminal should not wait.
    if name not in ("to_html", "tuned_to_html"):
        raise AttributeError(f"module 'recallatk.report' has no attribute {name!r}")
    from recallatk.report import html

    return getattr(html, name)
