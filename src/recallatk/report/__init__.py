"""Runs as people read them: a table for the terminal, Markdown for a page."""

from recallatk.report.assessment import assessment_to_dict, assessment_to_text
from recallatk.report.markdown import to_markdown
from recallatk.report.text import to_text

__all__ = ["assessment_to_dict", "assessment_to_text", "to_markdown", "to_text"]
