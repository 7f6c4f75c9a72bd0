"""Runs as people and other tools read them: tables, Markdown, JSON and exports."""

from recallatk.report.as_dict import run_to_dict
from recallatk.report.assessment import assessment_to_dict, assessment_to_text
from recallatk.report.exports import export
from recallatk.report.markdown import to_markdown
from recallatk.report.text import to_text

__all__ = ["assessment_to_dict", "assessment_to_text", "export", "run_to_dict", "to_markdown", "to_text"]
