"""Stages of a path that leave fewer rows than results are requested: stage, queries and remedy."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from recallatk.adapters.registry import get_engine
from recallatk.core import Caution
from recallatk.errors import RecallError
from recallatk.pipeline.path_engine import PathEngine
from recallatk.units import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from recallatk.core import Measurement
    from recallatk.core.stages import MeasuredStage
    from recallatk.pipeline.path import Path

SHORT = "short"
"""Kind of the caution."""


class _Short(NamedTuple):
    """The queries of a trial that lost neighbors because a stage left fewer rows than k."""

    measurement: Measurement
    queries: NDArray[np.int64]


def short_stages(measurements: Sequence[Measurement]) -> Iterator[Caution]:
    """One warning per path, about the trial with the most short queries; recall counts what they lack."""
    worst: dict[str, _Short] = {}
    for each in measurements:
        found = _Short(each, _short_queries(each))
        before = worst.get(each.trial.engine)
        if len(found.queries) and (before is None or len(before.queries) < len(found.queries)):
            worst[each.trial.engine] = found
    for name, found in worst.items():
        path = _path(name)
        if path is not None:
            yield Caution(SHORT, _said(found, path), float(len(found.queries)))


def _path(name: str) -> Path | None:
    try:
        kind = get_engine(name)
    except RecallError:
        return None
    return kind.path if issubclass(kind, PathEngine) else None


def _short_queries(measurement: Measurement) -> NDArray[np.int64]:
    """Queries whose answers have fewer rows than results were requested, and lack true neighbors."""
    stages = measurement.stages
    if stages is None:
        return np.empty(0, np.int64)
    last = stages.stages[-1]
    lacking = (_counts([last]) < stages.k) & (last.contained < 1)
    return np.flatnonzero(lacking & measurement.asked)


def _counts(stages: Sequence[MeasuredStage]) -> NDArray[np.int64]:
    """Number of distinct rows that these stages returned together, by query."""
    rows = np.sort(np.concatenate([each.rows for each in stages], axis=1), axis=1)
    fresh = np.diff(rows, axis=1, prepend=-1) > 0
    counts: NDArray[np.int64] = (fresh & (rows >= 0)).sum(axis=1)
    return counts


def _said(short: _Short, path: Path) -> str:
    """The stage that first left too few rows for the first of these queries, and what to change."""
    measurement, query = short.measurement, int(short.queries[0])
    stages = measurement.stages
    assert stages is not None  # noqa: S101 - it has short queries
    legs = stages.stages[: len(path.legs)]
    names, count = " and ".join(each.name for each in legs), int(_counts(legs)[query])
    leaves = f"stages {names} together leave" if len(legs) > 1 else f"stage {names} leaves"
    remedy = _remedy_of_legs(legs, query)
    if count >= stages.k:
        first = next(each for each in stages.stages[len(legs) :] if _counts([each])[query] < stages.k)
        leaves, count = f"stage {first.name} leaves", int(_counts([first])[query])
        leg = legs[0].name
        remedy = f"Raise depth of stage {first.name}"
        if path.post_filter is not None and first.name == path.post_filter.name:
            remedy = f"Raise oversample or depth of stage {leg}, or let it filter: remove stage {first.name}"
    setting = ", ".join(f"{name}={value}" for name, value in measurement.trial.search)
    among = counted(int(measurement.asked.sum()), "query", "queries")
    held = f"query {query}: {counted(count, 'row', 'rows')}"
    return (
        f"path {path.name}: {leaves} fewer than k = {stages.k} rows for "
        f"{len(short.queries):,} of {among} ({held}), which recall counts as missed. {remedy}. "
        f"Measured at {setting or 'the only setting'}"
    )


def _remedy_of_legs(legs: Sequence[MeasuredStage], query: int) -> str:
    full = [each.name for each in legs if (each.rows[query] >= 0).all()]
    if full:
        return f"Raise oversample or depth of stage {' and '.join(full)}"
    return "The index found no more: raise its search effort, or add a leg that finds other rows"
