"""Measured paths in numbers: what each stage contained and took, and what was lost where."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from recallatk.analysis.distribution import mean_of_values
from recallatk.analysis.latency import percentile

if TYPE_CHECKING:
    from collections.abc import Mapping

    from recallatk.core import Mean, Measurement, Trial
    from recallatk.core.stages import MeasuredStage, MeasuredStages


@dataclass(frozen=True)
class StageSummary:
    """One stage of a measured path."""

    name: str
    candidates: float
    """Median number of rows per query."""
    contained: Mean
    """The share of the path's true top k that the list of the stage contains."""
    recall: Mean | None
    """Recall against what the stage returns with exact inputs; None if that is unknown."""
    p50_ms: float | None
    p95_ms: float | None
    share: float | None
    """Share of the time of all stages."""


@dataclass(frozen=True)
class PathSummary:
    """The stages of one trial."""

    trial: Trial
    k: int
    stages: tuple[StageSummary, ...]
    lost: Mapping[str, Mean]
    """By cause, the share of the true top k that was lost to it."""
    covered: float | None
    """The time of all stages as a share of the latency of all calls; None if calls overlap."""
    fused: bool
    """Whether its truth is its own stages over exact lists, not exact search by vectors."""


def path_summary(measurement: Measurement) -> PathSummary | None:
    """The stages of a trial; None for an engine without stages."""
    found = measurement.stages
    if found is None:
        return None
    weights = measurement.weights
    total = float(found.spans_ns.sum())
    stages = tuple(
        _summary(measurement, found, number, stage, total) for number, stage in enumerate(found.stages)
    )
    asked = measurement.asked
    lost = {
        name: mean_of_values(np.where(asked, shares, np.nan), weights=weights)
        for name, shares in found.lost.items()
    }
    return PathSummary(
        measurement.trial, found.k, stages, lost, _covered(measurement, total), found.truth is not None
    )


def _summary(
    measurement: Measurement, found: MeasuredStages, number: int, stage: MeasuredStage, total: float
) -> StageSummary:
    asked, weights = measurement.asked, measurement.weights
    spans = found.spans_ns[:, number]
    counts = (stage.rows >= 0).sum(axis=1)[asked]
    own = stage.recall
    return StageSummary(
        stage.name,
        float(np.median(counts)) if len(counts) else 0.0,
        mean_of_values(np.where(asked, stage.contained, np.nan), weights=weights),
        None if own is None else mean_of_values(np.where(asked, own, np.nan), weights=weights),
        percentile(spans, 0.5),
        percentile(spans, 0.95),
        float(spans.sum()) / total if total else None,
    )


def _covered(measurement: Measurement, total: float) -> float | None:
    calls = measurement.calls
    if calls.clients not in (None, 1) or not len(calls):
        return None
    return total / float((calls.latency_ns - calls.late_ns).sum())
