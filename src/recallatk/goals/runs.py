"""The goals of a run: those in its settings, and the cheapest trial that meets them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.analysis.headline import headline_measure
from recallatk.analysis.latency import percentiles, qps
from recallatk.analysis.measures import Recall, Robustness
from recallatk.analysis.relevance import loss_measure
from recallatk.core import Load, Mode
from recallatk.core.judgments import GoalResult, Outcome, Verdict
from recallatk.errors import RecallError
from recallatk.goals.evaluation import GoalEstimate, evaluate, severity, target_estimate
from recallatk.goals.grammar import parse_goal
from recallatk.goals.target import Target

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from recallatk.core import Dataset, Measurement, Run, Trial, Truth
    from recallatk.goals.budget import Budget
    from recallatk.goals.grammar import Goal

_MODES = (Mode.LATENCY, Mode.THROUGHPUT, Mode.RATE)


@dataclass(frozen=True)
class RunGoals:
    """The goals in a run's settings, and the texts that are not valid goals."""

    goals: tuple[Goal, ...] = ()
    unreadable: tuple[GoalResult, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.goals or self.unreadable)


def goals_of(run: Run, more: Sequence[str] = ()) -> RunGoals:
    """Every target and budget in the settings of a run, and further ones."""
    stated = run.settings.get("tune")
    texts = [*(text for key in ("target", "budget") for text in _texts(stated, key)), *more]
    goals: dict[Goal, None] = {}
    unreadable = []
    for text in dict.fromkeys(texts):
        try:
            goals[parse_goal(text)] = None
        except RecallError as problem:
            unreadable.append(GoalResult(text, Outcome.NOT_MEASURED, note=str(problem)))
    return RunGoals(tuple(goals), tuple(unreadable))


def _texts(stated: Any, key: str) -> list[str]:
    given = stated.get(key) if hasattr(stated, "get") else None
    listed = list(given) if isinstance(given, list | tuple) else [given]
    return [str(each) for each in listed if each is not None]


def run_verdict(
    run: Run, truth: Truth | None = None, dataset: Dataset | None = None, more: Sequence[str] = ()
) -> Verdict:
    """The verdict on the cheapest setting that meets the goals, else on the closest one.

    Settings are compared under one load, the first in latency mode if there is one. Trials kept from earlier
    settings of the run are not compared. The worst build of a setting counts. `qps` comes from a closed loop
    if one was measured.

    Args:
        run: the run, with goals in its settings.
        truth: the truth of the run, for measures that the run did not store.
        dataset: its data, likewise, and for segments.
        more: goals in addition to those in its settings.
    """
    stated = goals_of(run, more)
    trials = _trials(run)
    if not stated or not trials:
        return Verdict((*(_unmeasured(each) for each in stated.goals), *stated.unreadable))
    rates = _closed_loops(run)
    found = {
        each.trial: evaluate(stated.goals, TrialEvidence(each, rates, truth, dataset)) for each in trials
    }
    builds: dict[Trial, list[Measurement]] = {}
    for each in trials:
        builds.setdefault(replace(each.trial, repeat=0), []).append(each)
    worst = [
        max(same, key=lambda each: severity(stated.goals, found[each.trial])) for same in builds.values()
    ]
    chosen = _chosen(worst, found, headline_measure(run))
    return Verdict((*found[chosen.trial], *stated.unreadable), trial_numbers(run)[chosen.trial])


def _closed_loops(run: Run) -> dict[Trial, float]:
    """The best throughput of every setting measured in a closed loop."""
    best: dict[Trial, float] = {}
    for each in run.candidates:
        if each.trial.load.mode is Mode.THROUGHPUT:
            rate = qps(each.calls, one_client=False).median
            setting = replace(each.trial, load=Load())
            if rate is not None:
                best[setting] = max(rate, best.get(setting, 0.0))
    return best


def trial_numbers(run: Run) -> dict[Trial, int]:
    """Every trial with its number, counted from 1 in the planned order, as in the name of its file."""
    finished = [*(each.trial for each in run.measurements), *(each.trial for each in run.failures)]
    known = dict.fromkeys([*(run.planned or ()), *finished])
    return {trial: number for number, trial in enumerate(known, 1)}


def _unmeasured(goal: Goal) -> GoalResult:
    return GoalResult(str(goal), Outcome.NOT_MEASURED)


def _trials(run: Run) -> list[Measurement]:
    """Candidates under the first load, in latency mode if there is one."""
    candidates = run.candidates
    for mode in _MODES:
        loads = [each.trial.load for each in candidates if each.trial.load.mode is mode]
        if loads:
            return [each for each in candidates if each.trial.load == loads[0]]
    return []


def _chosen(
    trials: Sequence[Measurement], found: dict[Trial, tuple[GoalResult, ...]], headline: str | None
) -> Measurement:
    """The cheapest trial of those that miss no goal and meet the most; if all miss one, the best recall.

    A trial that refuses queries comes after all that do not.
    """
    measured = {one.outcome for results in found.values() for one in results} - {Outcome.NOT_MEASURED}
    outcomes = {trial: [one.outcome for one in results] for trial, results in found.items()}
    may = [each for each in trials if Outcome.MISSED not in outcomes[each.trial]]
    if may and measured:
        met = {trial: outcomes[trial].count(Outcome.MET) for trial in outcomes}
        return min(may, key=lambda each: (each.refused is not None, -met[each.trial], _cost(each)))
    return max(trials, key=lambda each: (each.refused is None, _mean(each, headline), -_cost(each)))


def _cost(measurement: Measurement) -> float:
    latencies = percentiles(measurement.calls)
    found = latencies["p95"].value if latencies["p95"].value is not None else latencies["p50"].value
    return float("inf") if found is None else found


def _mean(measurement: Measurement, name: str | None) -> float:
    mean = measurement.score.measures.get(name or "")
    return -1.0 if mean is None or mean.value is None else mean.value


class TrialEvidence:
    """Measurements of one trial; with truth and data, also measures computed anew from its answers."""

    def __init__(
        self,
        measurement: Measurement,
        rates: Mapping[Trial, float],
        truth: Truth | None = None,
        dataset: Dataset | None = None,
    ) -> None:
        self.measurement, self.rates, self.truth, self.dataset = measurement, rates, truth, dataset

    def estimate(self, goal: Goal) -> GoalEstimate | None:
        """The figure that a goal is about; None where it was not measured."""
        found = self._quality(goal) if isinstance(goal, Target) else self._cost(goal)
        refused = self.measurement.refused
        if found is None or refused is None or not found.sampled:
            return found
        return replace(found, note=f"over answered queries; {refused.count_in_words}")

    def _cost(self, budget: Budget) -> GoalEstimate | None:
        built = self.measurement.build
        if budget.name == "qps":
            return GoalEstimate(self._qps())
        exact = {"memory": built.memory_bytes, "size": built.size_bytes, "build": built.seconds}
        if budget.name in exact:
            return GoalEstimate(exact[budget.name])
        found = percentiles(self.measurement.calls)[budget.name]
        return GoalEstimate(found.value, found.low, found.high, sampled=True)

    def _qps(self) -> float | None:
        """Throughput of the setting: of its best closed loop, else of one client."""
        own = self.measurement
        known = self.rates.get(replace(own.trial, load=Load()))
        one_client = own.trial.load.mode is Mode.LATENCY
        return qps(own.calls, one_client=one_client).median if known is None else known

    def _quality(self, target: Target) -> GoalEstimate | None:
        values = self._values(target)
        if values is None:
            return self._stored(target)
        try:
            inside = self._members(target, len(values))
        except RecallError:
            return None
        weights = self.measurement.score.weights
        counts = None if weights is None else weights.values
        return target_estimate(target, np.where(inside, values, np.nan), counts)

    def _values(self, target: Target) -> NDArray[np.float64] | None:
        """The target's measure or loss for every query that was sent."""
        kept = self.measurement.score.per_query
        if target.relevance and (lost := self._judged_loss(target.relevance)) is not None:
            return lost
        if not target.relevance:
            if str(target.measure) in kept:
                return kept[str(target.measure)]
            recall = kept.get(str(Recall(target.measure.k)))
            if isinstance(target.measure, Robustness) and recall is not None:
                return target.measure.of_recalls(recall)
        return self._scored_again(target)

    def _judged_loss(self, measure: str) -> NDArray[np.float64] | None:
        """The loss that the judged values of the run tell."""
        judged, name = self.measurement.judged, loss_measure(measure)
        if judged is None or name not in judged.values:
            return None
        return np.asarray((judged.exact[name] - judged.values[name])[self.measurement.asked])

    def _scored_again(self, target: Target) -> NDArray[np.float64] | None:
        truth, dataset = self.truth, self.dataset
        if truth is None or dataset is None or len(truth) != len(self.measurement.answers):
            return None
        try:
            return _scored_again(self.measurement, target, truth, dataset)
        except RecallError:
            return None

    def _members(self, target: Target, asked: int) -> NDArray[np.bool_]:
        """Which of the sent queries are in the segment."""
        if target.segment is None:
            return np.ones(asked, bool)
        columns = None if self.dataset is None else self.dataset.queries.metadata
        if columns is None and self.truth is not None:
            columns = self.truth.query_columns
        inside = target.members(columns, len(self.measurement.answers), self.measurement.filters)
        return np.asarray(inside[self.measurement.asked], bool)

    def _stored(self, target: Target) -> GoalEstimate | None:
        """The stored mean and interval of an older run that has no per-query values."""
        mean = self.measurement.score.measures.get(str(target.measure))
        if mean is None or target.percentile is not None or target.relevance or target.segment:
            return None
        return GoalEstimate(mean.value, mean.low, mean.high, sampled=True)


def _scored_again(
    measurement: Measurement, target: Target, truth: Truth, dataset: Dataset
) -> NDArray[np.float64]:
    from recallatk.analysis.relevance import relevance_loss
    from recallatk.analysis.score import measure_repeated

    if not target.relevance:
        return measure_repeated(measurement, truth, dataset, target.measure)
    lost = relevance_loss(measurement.answers, truth, dataset, target.relevance)
    return np.asarray(lost[measurement.asked])
