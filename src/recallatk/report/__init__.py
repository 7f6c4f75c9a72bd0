"""Runs as people read them: a table for the terminal, Markdown for a page."""

from recallatk.report.markdown import to_markdown
from recallatk.report.text import to_text

__all__ = ["to_markdown", "to_text"]
