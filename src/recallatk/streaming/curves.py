"""Curves of finished replays: decay with its interval, recovery with its cost, and the verdict at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from recallatk.analysis.comparison import difference_interval
from recallatk.core.churned import AppliedChange, ChurnCurve, CurveFailure, Operation, Recovery
from recallatk.core.judgments import Verdict
from recallatk.core.measured import Mean
from recallatk.streaming.step_goals import verdict_at

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from recallatk.core.trials import Parameters
    from recallatk.goals import Goal
    from recallatk.streaming.replay import Replay
    from recallatk.streaming.step_scores import StepRecord


def curves_of(replay: Replay, goals: Sequence[Goal]) -> Iterator[ChurnCurve]:
    """One curve for each search setting of a build."""
    # Writes happen once, so that only the first setting is searched during them.
    for search in replay.planned.searches:
        yield _curve(replay, search, goals)


def _curve(replay: Replay, search: Parameters, goals: Sequence[Goal]) -> ChurnCurve:
    records = {each.step: each for each in replay.records(search)}
    measure = str(replay.shared.measures[0])
    built, failed = replay.recorded("build"), replay.recorded("failure")
    build_seconds = None if built is None else built["seconds"]
    recoveries = tuple(_recoveries(replay, records, measure))
    before = [
        each for step, each in records.items() if not recoveries or step < min(r.step for r in recoveries)
    ]
    decay = None
    if len(before) > 1:
        decay = _difference(before[-1], before[0], measure)
    ended = bool(before) and failed is None
    return ChurnCurve(
        engine=replay.planned.engine,
        build=replay.planned.parameters,
        search=search,
        measure=measure,
        version=None if built is None else built["version"],
        build_seconds=build_seconds,
        searches=tuple(each.summary() for each in records.values()),
        changes=tuple(_changes(replay)),
        decay=decay,
        recoveries=recoveries,
        failure=None if failed is None else CurveFailure(failed["step"], failed["kind"], failed["message"]),
        resumed=tuple(_resumed(replay)),
        verdict=verdict_at(goals, before[-1], build_seconds) if ended and goals else Verdict(),
    )


def _difference(after: StepRecord, before: StepRecord, measure: str) -> Mean:
    """The mean change of each query's value; queries without a value at either search do not count."""
    changes = after.values[measure] - before.values[measure]
    known = changes[~np.isnan(changes)]
    if not len(known):
        return Mean(None, None, 0)
    low, high = difference_interval(known, 0.95) or (None, None)
    return Mean(float(known.mean()), None, len(known), low, high)


def _changes(replay: Replay) -> Iterator[AppliedChange]:
    for step in replay.shared.runbook.steps:
        found = replay.recorded("change", step.number)
        if found is not None:
            deleted, inserted = len(step.deleted), len(step.inserted)
            yield AppliedChange(step.number, step.operation, deleted, inserted, found["took"], found["note"])


def _recoveries(replay: Replay, records: dict[int, StepRecord], measure: str) -> Iterator[Recovery]:
    """Maintenance and rebuilds between two searches of the same rows, after the last other change."""
    steps = replay.shared.runbook.steps
    changed = [each.number for each in steps if len(each.deleted) or len(each.inserted)]
    before: StepRecord | None = None
    acted: tuple[Operation, int] | None = None
    for step in steps:
        if step.operation.recovers and step.number > changed[-1]:
            acted = (step.operation, step.number)
        record = records.get(step.number)
        if record is None:
            continue
        if acted is not None and before is not None:
            took = replay.recorded("change", acted[1])
            if took is not None and not (acted[0] is Operation.MAINTAIN and took["took"] is None):
                gain = _difference(record, before, measure)
                yield Recovery(acted[0], acted[1], took["took"], gain)
        before, acted = record, None


def _resumed(replay: Replay) -> Iterator[int]:
    for step in replay.shared.runbook.searches:
        if replay.recorded("resumed", step.number) is not None:
            yield step.number
