"""Runs as people and other tools read them: tables, Markdown, HTML, charts, JSON and exports."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from recallatk.reporting.as_dict import run_to_dict
    from recallatk.reporting.assessment import assessment_to_dict, assessment_to_text
    from recallatk.reporting.charts import charts_of
    from recallatk.reporting.exports import export
    from recallatk.reporting.run_report import to_html, to_markdown, to_text
    from recallatk.reporting.stages import stages_to_dict, stages_to_text
    from recallatk.reporting.tuned import tuned_to_html, tuned_to_markdown, tuned_to_text

__all__ = [
    "assessment_to_dict",
    "assessment_to_text",
    "charts_of",
    "export",
    "run_to_dict",
    "stages_to_dict",
    "stages_to_text",
    "to_html",
    "to_markdown",
    "to_text",
    "tuned_to_html",
    "tuned_to_markdown",
    "tuned_to_text",
]
_HOMES = {
    "as_dict": ("run_to_dict",),
    "assessment": ("assessment_to_dict", "assessment_to_text"),
    "charts": ("charts_of",),
    "exports": ("export",),
    "run_report": ("to_html", "to_markdown", "to_text"),
    "stages": ("stages_to_dict", "stages_to_text"),
    "tuned": ("tuned_to_html", "tuned_to_markdown", "tuned_to_text"),
}


def __getattr__(name: str) -> Any:
    # Many commands only print a line, which should not wait for the analysis behind reports.
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
