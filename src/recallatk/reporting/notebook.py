"""Runs and scores for notebooks: small HTML tables and Arrow tables."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from recallatk.reporting.document import Table
from recallatk.reporting.labels import with_margin
from recallatk.reporting.text import printable

if TYPE_CHECKING:
    import pyarrow as pa

    from recallatk.core import Run, Score

_MOST_ROWS = 20


def run_repr_html(run: Run) -> str:
    """The verdict and the best settings of a run, as a notebook shows them."""
    from recallatk.reporting.charts.points import curve_of
    from recallatk.reporting.run_report import RunReport
    from recallatk.reporting.run_tables import settings_table
    from recallatk.reporting.verdict_words import spoken_verdict

    curve = curve_of(run)
    found, table = spoken_verdict(curve), settings_table(curve)
    said = f"{found.why}{found.sentence}"
    parts = [f"<p><strong>{_text(RunReport(run).title)}</strong><br>{_text(said)}</p>", _table(table)]
    more = len(table.rows) - _MOST_ROWS
    if more > 0:
        parts.append(f"<p>… and {more:,} more settings.</p>")
    return f"<div>{''.join(parts)}</div>"


def score_repr_html(score: Score) -> str:
    """The measures of a score, as a notebook shows them."""
    rows = [[name, with_margin(mean), f"{mean.n:,}"] for name, mean in score.measures.items()]
    return _table(Table("Score", ["Measure", "Mean ± 95 % interval", "Queries"], rows, 1))


def run_to_arrow(run: Run) -> pa.Table:
    """One row per trial with all of its numbers; null where not measured."""
    from recallatk.reporting.exports.tabular import arrow_table

    return arrow_table(run)


def score_to_arrow(score: Score) -> pa.Table:
    """One row per measure: mean, ends of the interval, mean by strict ids, number of queries."""
    import pyarrow as pa

    means = score.measures
    return pa.table(
        {
            "measure": pa.array(list(means), pa.string()),
            **{
                name: pa.array([getattr(mean, name) for mean in means.values()], pa.float64())
                for name in ("value", "low", "high", "ids")
            },
            "n": pa.array([mean.n for mean in means.values()], pa.int64()),
        }
    )


def _table(table: Table) -> str:
    head = "".join(f"<th>{_text(name)}</th>" for name in table.header)
    rows = ["".join(f"<td><bdi>{_text(cell)}</bdi></td>" for cell in row) for row in table.rows[:_MOST_ROWS]]
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _text(text: str) -> str:
    return escape(printable(text))
