"""What the chosen setting loses downstream: its answers to held-out queries, judged beside exact search."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from recallatk.analysis.comparison import difference_interval
from recallatk.analysis.distribution import scored_values, weighted_mean
from recallatk.analysis.relevance import query_names, relevance_mean, without_judgment
from recallatk.bench.downstream import judges_of
from recallatk.bench.supervisor import TrialFailed
from recallatk.core.tuned import ChoiceQuality

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from recallatk.core.tuned import Candidate
    from recallatk.tuning.index_client import IndexClient
    from recallatk.tuning.query_split import Side
    from recallatk.tuning.study import Study

# Differences of equal values are rounding errors.
_SLACK = 1e-12


@dataclass(frozen=True)
class ChoiceDownstream:
    """The quality of the choice by every measure, and what a reader must know of the judgments."""

    measures: tuple[ChoiceQuality, ...] = ()
    notes: tuple[str, ...] = ()


def choice_downstream(
    study: Study, held_out: Side, index: IndexClient | None, choice: Candidate | None
) -> ChoiceDownstream:
    """Judge the choice beside exact search on the held-out queries; nothing without judgments of them.

    Args:
        study: the tuning.
        held_out: the queries that had no part in the choice.
        index: the full build of the choice.
        choice: the setting to run.
    """
    k = study.targets[0].measure.k
    judges = judges_of(held_out.dataset, [k])
    if choice is None or index is None or not judges:
        return ChoiceDownstream()
    qrels = held_out.dataset.qrels or {}
    which = np.flatnonzero([bool(qrels.get(name)) for name in query_names(held_out.dataset)])
    try:
        rows = index.answers(held_out, dict(choice.search), which)[:, :k]
    except TrialFailed as problem:
        return ChoiceDownstream(notes=(f"the choice was not judged: {problem}",))
    answers = np.full((len(held_out), k), -1, np.int64)
    answers[which, : rows.shape[1]] = np.where(rows < held_out.dataset.corpus.rows, rows, -1)
    [judge] = judges
    values, exact = judge.values(answers), judge.values(held_out.truth.rows[:, :k])
    weights = None if held_out.weights is None else held_out.weights.values
    measures = tuple(_quality(name, values[name], exact[name], weights) for name in judge.names)
    unjudged = len(held_out) - len(which)
    notes = [without_judgment(unjudged)] if unjudged else []
    # The held-out queries are a part: the whole data say what the judgments name in vain.
    notes += [note for each in judges_of(study.pool.dataset, [k]) for note in each.notes]
    return ChoiceDownstream(measures, tuple(notes))


def _quality(
    name: str,
    values: NDArray[np.float64],
    exact: NDArray[np.float64],
    weights: NDArray[np.float64] | None,
) -> ChoiceQuality:
    """One measure of the choice and of exact search, with the paired difference."""
    difference = exact - values
    lost, counts = scored_values(np.where(np.abs(difference) <= _SLACK, 0.0, difference), weights)
    low, high = difference_interval(lost, weights=counts) or (None, None)
    return ChoiceQuality(
        name,
        relevance_mean(exact, weights),
        relevance_mean(values, weights),
        weighted_mean(lost, counts),
        low,
        high,
    )
