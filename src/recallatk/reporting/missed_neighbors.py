"""The missed neighbors that mattered, in sentences, in a table with one setting per engine, and in JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.analysis.answers import bounded
from recallatk.analysis.missed import missed_neighbors, relevant_rows
from recallatk.analysis.weighting import weights_of
from recallatk.goals.runs import trial_numbers
from recallatk.reporting.as_dict import mean_to_dict
from recallatk.reporting.document import Section, Sentences, Table
from recallatk.reporting.engine_segments import settings_by_engine
from recallatk.reporting.labels import OVER_QUERIES, with_margin
from recallatk.reporting.per_query import path_truth
from recallatk.units import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from recallatk.analysis.missed import MissedNeighbors
    from recallatk.core import Dataset, Measurement, Run, Trial, Truth
    from recallatk.reporting.charts.points import Curve
    from recallatk.reporting.run_report import RunReport

TITLE = "Missed neighbors that mattered"
_STAND_IN = "a wrong row that is nearer to the missed one than the query and every other true neighbor are"


@dataclass(frozen=True, eq=False)
class SettingMisses:
    """One setting of an engine, and the neighbors that it missed."""

    trial: Trial
    label: str
    found: MissedNeighbors


def misses_by_engine(
    curve: Curve, truth: Truth | None, dataset: Dataset | None, chosen: int | None
) -> list[SettingMisses]:
    """One setting per engine, as recall by selectivity shows them; empty without recall, truth or data.

    Args:
        curve: the settings of the run.
        truth: the truth of the run.
        dataset: the data of the run, with the judgments if there are any.
        chosen: the number of the verdict's point.
    """
    k = curve.k
    if truth is None or dataset is None or k is None or truth.depth < k:
        return []
    found = []
    for point in settings_by_engine(curve, chosen):
        measurement = curve.lines[point["n"]].measurement
        if len(measurement.answers) == len(truth) and not measurement.truth_lost:
            misses = _misses(measurement, truth, dataset, k)
            found.append(SettingMisses(measurement.trial, point["label"], misses))
    return found


def _misses(measurement: Measurement, truth: Truth, dataset: Dataset, k: int) -> MissedNeighbors:
    own = path_truth(measurement, truth)
    relevant = None
    if dataset.qrels:
        relevant = relevant_rows(own, dataset.corpus, dataset.queries.ids, dataset.qrels)
    return missed_neighbors(
        own,
        bounded(measurement.answers, truth.corpus_rows),
        k,
        dataset=dataset,
        relevant=relevant,
        weights=weights_of(measurement),
        among=np.flatnonzero(measurement.asked),
    )


def missed_section(report: RunReport) -> Section | None:
    """A line for one setting of every engine; None where nothing can be told of vectors or judgments."""
    found = [
        each for each in report.missed if each.found.without is not None or each.found.relevant is not None
    ]
    if not found:
        return None
    vectors = any(each.found.without is not None for each in found)
    judged = any(each.found.relevant is not None for each in found)
    k = found[0].found.k
    header = ["Setting", f"missed of top {k}"]
    header += ["with a stand-in", "without"] if vectors else []
    header += ["judged relevant"] if judged else []
    rows = [
        [
            each.label,
            with_margin(each.found.lost),
            *([with_margin(each.found.stood_in), with_margin(each.found.without)] if vectors else []),
            *([with_margin(each.found.relevant)] if judged else []),
        ]
        for each in found
    ]
    return Section(
        TITLE, [Table(TITLE, header, rows, 1), Sentences(_explained(found), "note")], "missed", "Missed"
    )


def _explained(found: Sequence[SettingMisses]) -> list[str]:
    """What the columns mean, and how many queries they are about."""
    said = []
    first = found[0].found
    if first.without is not None:
        said.append(
            f"A stand-in is {_STAND_IN}, so that the answer has much the same without the missed one."
        )
    if first.relevant is not None:
        queries = counted(first.relevant.n, "query", "queries")
        said.append(f"Judged relevant: over {queries} with judgments.")
    if first.sampled_from is not None:
        said.append(f"Over a random sample of {first.queries:,} of {first.sampled_from:,} queries.")
    return [*said, OVER_QUERIES]


def misses_to_dict(run: Run, found: Sequence[SettingMisses]) -> list[dict[str, Any]]:
    """One entry per engine, with the number of its trial."""
    numbers = trial_numbers(run)
    return [
        {"trial": numbers[each.trial], "engine": each.trial.engine, **missed_to_dict(each.found)}
        for each in found
    ]


def missed_lines(found: MissedNeighbors) -> list[str]:
    """The missed neighbors that mattered, in sentences."""
    sample = "" if found.sampled_from is None else f", random sample of {found.queries:,} queries"
    missed = counted(found.count, "neighbor", "neighbors")
    lines = [f"Missed: {with_margin(found.lost)} of the true top {found.k} ({missed}{sample})."]
    if found.stood_in is not None:
        lines.append(
            f"  {with_margin(found.stood_in)} have a stand-in among the answers: {_STAND_IN}. "
            f"{with_margin(found.without)} have none."
        )
    if found.relevant is not None and found.relevant_count is not None:
        relevant = counted(found.relevant_count, "neighbor", "neighbors")
        judged = counted(found.relevant.n, "query", "queries")
        lines.append(
            f"  {with_margin(found.relevant)} were judged relevant ({relevant}, {judged} with judgments)."
        )
    return lines


def missed_to_dict(found: MissedNeighbors) -> dict[str, Any]:
    """The missed neighbors that mattered as plain values, for JSON."""
    means = {name: getattr(found, name) for name in ("lost", "stood_in", "without", "relevant")}
    return {
        "k": found.k,
        "queries": found.queries,
        "sampled_from": found.sampled_from,
        "count": found.count,
        **{name: None if mean is None else mean_to_dict(mean) for name, mean in means.items()},
        "relevant_count": found.relevant_count,
    }
