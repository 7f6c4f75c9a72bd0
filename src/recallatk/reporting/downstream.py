"""What lost neighbors cost downstream: verdict, table, chart and JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from recallatk.analysis.downstream import downstream_of
from recallatk.goals.runs import trial_numbers
from recallatk.reporting.as_dict import mean_to_dict
from recallatk.reporting.document import Figure, Items, Section, Sentences, Table
from recallatk.reporting.labels import OVER_QUERIES, number, signed_interval, with_margin

if TYPE_CHECKING:
    from collections.abc import Sequence

    from recallatk.analysis.downstream import Downstream, Point
    from recallatk.core import Mean, Run, Trial
    from recallatk.reporting.document import Block
    from recallatk.reporting.labels import Naming
    from recallatk.reporting.run_report import RunReport

TITLE = "Downstream quality"
_EXACT = "exact search"
_CAPTION = (
    "Each point is a setting. Dashed line: exact search. Thin lines: what the paired difference from exact "
    "search allows, with 95 % confidence."
)


def downstream(report: RunReport) -> Section | None:
    """The verdict on each measure, and every setting beside exact search."""
    found = report.downstream
    return Section(TITLE, _blocks(found, report.labels)) if found else None


def downstream_page(report: RunReport) -> Section | None:
    """The same with the curve of quality over recall."""
    found = report.downstream
    if not found:
        return None
    from recallatk.reporting.charts.downstream import quality_curve

    # One table per measure: all of them side by side are wider than a laptop.
    verdicts, *blocks = _blocks(found, report.labels, apart=True)
    chart = Figure("downstream", _CAPTION, quality_curve(found[0], report.labels))
    return Section(TITLE, [verdicts, chart, *blocks], "downstream", "Downstream")


def downstream_in_brief(report: RunReport) -> Section:
    """The verdict in one line per headline measure."""
    found = downstream_of(report.run, brief=True)
    return Section("", [Sentences([f"downstream: {each.in_words}." for each in found])])


def _blocks(found: Sequence[Downstream], labels: Naming, *, apart: bool = False) -> list[Block]:
    verdicts = [f"{each.measure}: {each.in_words}." for each in found]
    notes = list(dict.fromkeys(f"{note[:1].upper()}{note[1:]}." for each in found for note in each.notes))
    return [
        Items(verdicts),
        *(_table(each, labels) for each in ([[one] for one in found] if apart else [found])),
        Sentences([_about(found[0])], "note"),
        Items(notes, "note"),
    ]


def _about(found: Downstream) -> str:
    judged = f"{found.judged:,} of {found.queries:,} queries"
    return (
        f"{found.recall} and differences are over the {judged} that are judged and that every setting "
        f"answered. A difference is exact search minus the setting, query by query. {OVER_QUERIES}"
    )


def _table(found: Sequence[Downstream], labels: Naming) -> Table:
    first = found[0]
    header = ["Setting", first.recall]
    for each in found:
        header += [each.measure, f"{each.measure} lost"]
    exact = [_EXACT, "1"]
    for each in found:
        exact += [with_margin(each.exact), "0"]
    points = {each.measure: {point.trial: point for point in each.points} for each in found}
    rows = [exact]
    for point in reversed(first.points):
        mine = [points[each.measure].get(point.trial) for each in found]
        cells = [cell for each in mine for cell in _cells(each)]
        rows.append([labels.label(point.trial), number(point.recall, ".3f"), *cells])
    return Table(TITLE if len(found) > 1 else first.measure, header, rows, 1)


def _cells(point: Point | None) -> list[str]:
    return ["-", "-"] if point is None else [with_margin(point.mean), signed_interval(point.loss)]


def downstream_to_dict(run: Run) -> list[dict[str, Any]]:
    """Every measure as JSON can hold it; what is not known is None."""
    numbers = trial_numbers(run)
    return [_measure(each, numbers) for each in downstream_of(run)]


def _measure(found: Downstream, numbers: dict[Trial, int]) -> dict[str, Any]:
    plateau = found.plateau
    return {
        "measure": found.measure,
        "recall": found.recall,
        "in_words": found.in_words,
        "queries": found.queries,
        "judged": found.judged,
        "exact": _mean(found.exact),
        "trials": [
            {
                "trial": numbers[each.trial],
                "recall": each.recall,
                "mean": _mean(each.mean),
                "lost": {**asdict(each.loss), "joint_low": each.low, "joint_high": each.high},
            }
            for each in found.points
        ],
        "plateau": None
        if not plateau
        else {"from": plateau[0].recall, "lost_at_most": found.bound, "trials": len(plateau)},
        "per_hundredth_of_recall": None if found.slope is None else asdict(found.slope),
        "step": found.step,
        "queries_needed": found.needed,
        "notes": list(found.notes),
    }


def _mean(mean: Mean) -> dict[str, Any]:
    """A mean without strict ids, which judged values do not have."""
    return {name: value for name, value in mean_to_dict(mean).items() if name != "ids"}
