"""Estimates of the time and memory that a plan needs, from small builds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from recallatk.adapters import get_engine
from recallatk.bench.measurement import describe_run
from recallatk.bench.plan import Plan
from recallatk.bench.run_sink import MemorySink
from recallatk.bench.runner import Runner
from recallatk.core import Load
from recallatk.datasets import sample_queries, sampled
from recallatk.truths import ground_truth

if TYPE_CHECKING:
    from collections.abc import Sequence

    from recallatk.bench.job import TrialSettings
    from recallatk.bench.plan import PlannedBuild
    from recallatk.core import Dataset

# Two sizes, so that growth is measured and not assumed.
_ROWS = (1_500, 6_000)
_QUERIES = 50
# Costs grow with an exponent between 0 and this; anything outside is noise of small builds.
_STEEPEST = 1.3


@dataclass(frozen=True)
class CostEstimate:
    """Expected cost of one build and its trials; None if unknown."""

    planned: PlannedBuild
    build_seconds: float | None
    memory_bytes: float | None
    search_seconds: float | None
    problem: str | None = None
    """Why it is unknown."""


def estimate(plan: Plan, dataset: Dataset, settings: TrialSettings) -> list[CostEstimate]:
    """Build every planned index on two small samples and extrapolate to the whole corpus.

    The user's programs, services and servers are neither started nor contacted: their cost stays unknown.
    """
    if dataset.corpus.rows <= _ROWS[-1]:
        sizes: tuple[int, ...] = (dataset.corpus.rows,)
    else:
        sizes = _ROWS
    tried = Plan(tuple(_reduced(each) for each in plan.builds if _reached(each) is None))
    measured = [_measured(tried, dataset, rows, settings) for rows in sizes] if tried.builds else []
    return [_estimate(each, measured, sizes, dataset, settings) for each in plan.builds]


def _reached(planned: PlannedBuild) -> str | None:
    """The user's program or server that a build would start or contact."""
    return get_engine(planned.engine).reaches(**dict(planned.parameters))


def _measured(small: Plan, dataset: Dataset, rows: int, settings: TrialSettings) -> MemorySink:
    """Measure each build on a few rows, at its first and last search setting."""
    few = dataset if rows == dataset.corpus.rows else sampled(dataset, rows)
    few = replace(few, queries=sample_queries(few.queries, min(_QUERIES, few.queries.rows)))
    quick = replace(settings, at=tuple(min(k, rows) for k in settings.at), measures=(), rounds=1)
    truth = ground_truth(few, depth=min(quick.k, rows))
    sink = MemorySink(describe_run(few, truth, small, {}))
    Runner(small, few, truth, sink, quick).run()
    return sink


def _reduced(planned: PlannedBuild) -> PlannedBuild:
    ends = (planned.searches[0], planned.searches[-1])
    return replace(planned, searches=tuple(dict.fromkeys(ends)), loads=(Load(),), repeat=0)


def _estimate(
    planned: PlannedBuild,
    measured: list[MemorySink],
    sizes: tuple[int, ...],
    dataset: Dataset,
    settings: TrialSettings,
) -> CostEstimate:
    queries, rows = dataset.queries.rows, dataset.corpus.rows
    reached = _reached(planned)
    if reached is not None:
        problem = f"a dry run does not start or contact {reached}, so its cost is unknown"
        return CostEstimate(planned, None, None, _seconds(planned, None, queries, settings.rounds), problem)
    trials = _reduced(planned).trials
    found = [[each.finished[trial] for trial in trials if trial in each.finished] for each in measured]
    if not all(found):
        failed = (each.failed[trial] for each in measured for trial in trials if trial in each.failed)
        return CostEstimate(planned, None, None, None, f"a small build of it failed: {next(failed).message}")
    builds = [each[0].build for each in found]
    calls = [float(np.mean([each.latencies_ns.mean() for each in of_size])) / 1e9 for of_size in found]
    per_call = _grown(calls, sizes, rows)
    return CostEstimate(
        planned,
        build_seconds=_grown([each.seconds for each in builds], sizes, rows),
        memory_bytes=_grown([each.memory_bytes for each in builds], sizes, rows),
        search_seconds=_seconds(planned, per_call, queries, settings.rounds),
    )


def _seconds(planned: PlannedBuild, per_call: float | None, queries: int, rounds: int) -> float | None:
    """Seconds of all trials of a build; loads with a stated length or rate take that long."""
    lengths = [_length(load, per_call, queries) for load in planned.loads]
    known = [each for each in lengths if each is not None]
    return rounds * len(planned.searches) * sum(known) if len(known) == len(lengths) else None


def _length(load: Load, per_call: float | None, queries: int) -> float | None:
    """Seconds of one round."""
    if load.seconds is not None:
        return load.seconds
    if load.rate is not None:
        return queries / load.rate
    return None if per_call is None else queries * per_call / load.clients_or(1)


def _grown(values: Sequence[float | None], sizes: tuple[int, ...], rows: int) -> float | None:
    """Extrapolate two measurements to this many rows with a power law."""
    known = [value for value in values if value is not None]
    if len(known) != len(values):
        return None
    if len(known) == 1 or min(known) <= 0:
        return known[-1] * rows / sizes[-1]
    power = np.log(known[1] / known[0]) / np.log(sizes[1] / sizes[0])
    return float(known[1] * (rows / sizes[1]) ** np.clip(power, 0.0, _STEEPEST))
