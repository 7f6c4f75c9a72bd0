"""The report that people forward: one HTML file that needs nothing beside it."""

from recallatk.report.html.page import report_data, to_html
from recallatk.report.html.tuned_page import tuned_to_html

__all__ = ["report_data", "to_html", "tuned_to_html"]
