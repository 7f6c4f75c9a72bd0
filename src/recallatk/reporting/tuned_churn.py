"""What the choice of a tuning reaches after a runbook: one sentence, and a table of efforts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recallatk.reporting.document import Section, Sentences, Table
from recallatk.reporting.labels import GOAL_BOUNDS, OVER_QUERIES, cut, listed, with_margin
from recallatk.reporting.text import printable

if TYPE_CHECKING:
    from recallatk.core.tuned import Tuned
    from recallatk.reporting.tuned import TunedReport

_LONGEST = 300


def section(report: TunedReport) -> Section | None:
    """Whether the choice lasts, and which effort does."""
    tuned = report.tuned
    if tuned.churn is None or tuned.choice is None:
        return None
    rows = [
        [listed(each.search), with_margin(each.first), with_margin(each.last), each.outcome or "-"]
        for each in tuned.churned
    ]
    header = ["search", f"{report.measure} at first", "at the end", "target"]
    said = [
        _in_words(tuned),
        f"Held-out queries, against the truth of each step. {OVER_QUERIES} {GOAL_BOUNDS}",
    ]
    return Section("After churn", [Sentences(said), Table("", header, rows, 1)], "churn", "Churn")


def _in_words(tuned: Tuned) -> str:
    book = cut(printable(tuned.churn or ""), _LONGEST)
    lasting = tuned.lasting
    if tuned.churn_failure is not None:
        return f"After {book}: the replay failed: {cut(printable(tuned.churn_failure), _LONGEST)}"
    if lasting is None:
        return f"After {book}, no effort of this build is proven to meet the target."
    if tuned.choice is not None and lasting == tuned.choice.search:
        return f"After {book}, the choice still meets the target."
    return f"After {book}, the choice is not proven to meet the target. {listed(lasting)} still meets it."
