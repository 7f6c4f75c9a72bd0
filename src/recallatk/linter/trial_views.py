"""Trials of a run as rules see them: recall, effort, engine and name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from recallatk.adapters import get_engine, registered
from recallatk.errors import RecallError
from recallatk.redaction import public

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from recallatk.adapters import Engine
    from recallatk.core import Mean, Measurement, Trial

_LONGEST = 80


def engine_of(name: str) -> type[Engine] | None:
    """The class of an engine; None if it is not installed."""
    if name not in registered():
        return None
    try:
        return get_engine(name)
    except RecallError:
        return None


def is_exact(name: str) -> bool:
    """Whether an engine compares every row, so that its recall does not depend on effort."""
    engine = engine_of(name)
    return engine is not None and engine.family == "exact"


def effort(trial: Trial) -> tuple[float, ...]:
    """Values of the engine's effort knobs, in the engine's order; empty if it has none."""
    engine = engine_of(trial.engine)
    given = dict(trial.search)
    knobs = () if engine is None else engine.search_knobs
    values = (given.get(knob.name) for knob in knobs if knob.effort)
    return tuple(float(value) for value in values if isinstance(value, int | float))


def recall_of(measurement: Measurement, name: str) -> Mean | None:
    """The mean of that name, if it was measured and has a value."""
    mean = measurement.score.measures.get(name)
    return None if mean is None or mean.value is None else mean


def sweeps(measurements: Iterable[Measurement]) -> Mapping[Any, list[Measurement]]:
    """Measurements of one build under one load, by ascending effort."""
    groups: dict[Any, list[Measurement]] = {}
    for each in measurements:
        if effort(each.trial):
            trial = each.trial
            groups.setdefault((trial.engine, trial.build, trial.load, trial.repeat), []).append(each)
    return {key: sorted(found, key=lambda each: effort(each.trial)) for key, found in groups.items()}


def by_engine(measurements: Iterable[Measurement]) -> dict[str, list[Measurement]]:
    """Measurements by engine, sorted by engine name."""
    groups: dict[str, list[Measurement]] = {}
    for each in measurements:
        groups.setdefault(each.trial.engine, []).append(each)
    return dict(sorted(groups.items()))


def called(trial: Trial) -> str:
    """Short name of a trial, without secrets."""
    search = ", ".join(f"{name}={public(value, name)}" for name, value in trial.search)
    load = "" if str(trial.load) == "latency" else f" {trial.load}"
    text = f"{trial.engine}[{search}]{load}" if search else f"{trial.engine}{load}"
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
