"""The score of a trial: every call counts, also where a query was asked often or never."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from recallatk.analysis.answers import bounded
from recallatk.analysis.compared import Compared
from recallatk.analysis.distances import answer_scores
from recallatk.analysis.measures import Recall
from recallatk.analysis.score import count_anomalies, wanted_measures
from recallatk.analysis.summarising import mean_of
from recallatk.core import Score

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from recallatk.analysis.measures import Measure
    from recallatk.core import Dataset, Measurement, Others, Truth

    Values = dict[Measure, list[NDArray[np.float64]]]


def score_repeated(
    answers: NDArray[np.int64],
    times: NDArray[np.int64],
    others: Others | None,
    truth: Truth,
    dataset: Dataset,
    at: Sequence[int] | None = None,
    measures: Sequence[Measure | str] = (),
) -> Score:
    """The mean over the queries that were asked, each query's own value being the mean over its calls.

    Args:
        answers: (queries, k) corpus rows that each query got first.
        times: how often each query was asked.
        others: what it got later, where that differs.
        truth: the right answers.
        dataset: what was asked of what.
        at: the values of k for recall.
        measures: what else to measure.
    """
    wanted = wanted_measures(truth, at, measures)
    asked = np.flatnonzero(times)
    table = _Table(truth if len(asked) == len(truth) else truth.take(asked), dataset, asked, wanted)
    compared, values = table.of(answers)
    if others is not None and len(others):
        _average(values, answers, times[asked], others, table)
    deepest = max((each.k for each in wanted if isinstance(each, Recall)), default=truth.depth)
    never = np.zeros(len(asked), bool)
    eligibility = dataset.eligibility.subset(asked)
    return Score(
        queries=len(asked),
        scored=int((compared.available > 0).sum()),
        measures={str(each): mean_of(found[0], each, *found[1:]) for each, found in values.items()},
        anomalies=count_anomalies(compared, never, deepest, eligibility, told=True),
        per_query={str(each): found[0] for each, found in values.items()},
        sampled_from=truth.sampled_from,
    )


def measure_repeated(
    measurement: Measurement, truth: Truth, dataset: Dataset, measure: Measure
) -> NDArray[np.float64]:
    """One more measure of a trial: the value of each query that was asked, as `score_repeated` has it."""
    times = measurement.times
    if times is None:
        times = np.bincount(measurement.calls.query, minlength=len(measurement.answers))
    score = score_repeated(
        measurement.answers, times, measurement.others, truth, dataset, [measure.deepest], [measure]
    )
    return score.per_query[str(measure)]


class _Table:
    """What answers are compared with."""

    def __init__(
        self, truth: Truth, dataset: Dataset, asked: NDArray[np.int64], wanted: list[Measure]
    ) -> None:
        self.truth, self.dataset, self.asked, self.wanted = truth, dataset, asked, wanted
        self.needs_scores = any(each.needs_scores for each in wanted)

    def of(self, answers: NDArray[np.int64]) -> tuple[Compared, Values]:
        rows = bounded(answers, self.dataset.corpus.rows)
        scores = answer_scores(self.dataset, rows)[self.asked] if self.needs_scores else None
        compared = Compared(self.truth, rows[self.asked], scores)
        return compared, {each: _values(each, compared) for each in self.wanted}


def _values(measure: Measure, compared: Compared) -> list[NDArray[np.float64]]:
    """The values of all queries, and those by strict ids where ties count."""
    by_ids = measure.by_ids(compared)
    return [measure.per_query(compared), *([] if by_ids is None else [by_ids])]


def _average(
    values: Values,
    answers: NDArray[np.int64],
    times: NDArray[np.int64],
    others: Others,
    table: _Table,
) -> None:
    """Let every other answer count for its call: the first again, then the second again, and so on."""
    first = dict(values)
    order = np.argsort(others.query, kind="stable")
    query = others.query[order]
    place = np.arange(len(query)) - np.searchsorted(query, query)
    for turn in range(int(place.max()) + 1):
        chosen = order[place == turn]
        changed = answers.copy()
        changed[others.query[chosen]] = others.rows[chosen]
        _, now = table.of(changed)
        for each, means in values.items():
            parts = zip(means, now[each], first[each], strict=True)
            values[each] = [mean + (after - before) / times for mean, after, before in parts]
