"""Runs and scores for notebooks: small HTML tables, Arrow tables, the curve and the best setting."""

from __future__ import annotations

from dataclasses import replace
from html import escape
from typing import TYPE_CHECKING, Any

from recallatk.errors import UsageError, unknown
from recallatk.goals import parse_goal
from recallatk.reporting.document import Table
from recallatk.reporting.labels import number, weighted_by, with_margin
from recallatk.reporting.text import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from recallatk.analysis import Assessment, StagedAssessment
    from recallatk.analysis.compared_results import ComparedResults
    from recallatk.core import Measurement, Run, Score
    from recallatk.core.judgments import GoalResult
    from recallatk.core.tuned import Tuned
    from recallatk.reporting.charts.theme import Chart

_MOST_ROWS = 20
_AXES = ("latency", "qps")


def run_text(run: Run) -> str:
    """A run as `print` shows it."""
    from recallatk.reporting import to_text

    return to_text(run)


def tuned_text(tuned: Tuned) -> str:
    """A tuning as `print` shows it."""
    from recallatk.reporting.tuned import tuned_to_text

    return tuned_to_text(tuned)


def assessment_text(assessment: Assessment) -> str:
    """An assessment as `print` shows it."""
    from recallatk.reporting import assessment_to_text

    return assessment_to_text(assessment)


def stages_text(assessment: StagedAssessment) -> str:
    """Assessed stages as `print` shows them."""
    from recallatk.reporting import stages_to_text

    return stages_to_text(assessment)


def comparison_text(found: ComparedResults) -> str:
    """A comparison as `print` shows it."""
    from recallatk.reporting.results import comparison_to_text

    return comparison_to_text(found)


def comparison_dict(found: ComparedResults) -> dict[str, Any]:
    """A comparison for JSON."""
    from recallatk.reporting.results import comparison_to_dict

    return comparison_to_dict(found)


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
    weighted = score.weights is not None
    rows = [
        [name, with_margin(mean), *([number(mean.unweighted, ".3f")] if weighted else []), f"{mean.n:,}"]
        for name, mean in score.measures.items()
    ]
    by = f", {weighted_by(score.weights)}" if weighted else ""
    header = ["Measure", f"Mean ± 95 % interval{by}", *(["Unweighted"] if weighted else []), "Queries"]
    return _table(Table("Score", header, rows, 1))


def run_to_arrow(run: Run) -> pa.Table:
    """One row per trial with all of its numbers; null where not measured."""
    from recallatk.reporting.exports.tabular import arrow_table

    return arrow_table(run)


def run_chart(run: Run, against: str) -> Chart:
    """The curve of a run's recall against a cost."""
    from recallatk.reporting.charts import charts_of

    if against not in _AXES:
        raise UsageError(f"against = {against!r}: {unknown('axis', against, _AXES)}")
    chart = charts_of(run).get(f"recall-{against}")
    if chart is None:
        raise UsageError(f"nothing to plot: the run has no measurement with recall and {against}")
    return chart


def best_measurement(run: Run, target: str | Sequence[str], budget: str | Sequence[str]) -> Measurement:
    """The cheapest setting of a run that meets all goals; an error says what the nearest one reaches."""
    from recallatk.goals.runs import run_verdict, trial_numbers

    if not all(isinstance(each, str | list | tuple) for each in (target, budget)):
        raise UsageError(f'{target!r} is not a target. Write it as "recall@10 >= 0.95"')
    texts = [text for each in (target, budget) for text in ([each] if isinstance(each, str) else each)]
    goals = [str(parse_goal(text)) for text in texts]
    if not goals:
        raise UsageError('no goal given. Pass one, such as target="recall@10 >= 0.95"')
    verdict = run_verdict(replace(run, settings={"tune": {"target": goals}}))
    numbers = trial_numbers(run)
    chosen = [each for each in run.measurements if numbers[each.trial] == verdict.trial]
    if chosen and verdict.met:
        return chosen[0]
    nearest = f" Nearest: {chosen[0].trial}," if chosen else ""
    reached = "; ".join(_reached(each) for each in verdict.goals)
    raise UsageError(f"no measured setting meets {' and '.join(goals)}.{nearest} {reached}")


def _reached(goal: GoalResult) -> str:
    if goal.value is None:
        return f"{goal.text}: {goal.note or 'not measured'}"
    ends = "" if goal.low is None or goal.high is None else f" ({goal.low:.4g} to {goal.high:.4g})"
    return f"{goal.text}: {goal.outcome} at {goal.value:.4g}{ends}"


def score_to_arrow(score: Score) -> pa.Table:
    """One row per measure: mean, ends of the interval, mean by strict ids, number of queries.

    With weights also the unweighted mean and the effective number of queries.
    """
    import pyarrow as pa

    means = score.measures
    further = () if score.weights is None else ("unweighted", "effective")
    return pa.table(
        {
            "measure": pa.array(list(means), pa.string()),
            **{
                name: pa.array([getattr(mean, name) for mean in means.values()], pa.float64())
                for name in ("value", "low", "high", "ids", *further)
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
