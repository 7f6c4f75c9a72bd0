"""What a plan will take, guessed from small builds: time and memory before anybody waits for them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from recallatk.bench.keeping import Kept
from recallatk.bench.measuring import describe_run
from recallatk.bench.plan import Plan
from recallatk.bench.running import Runner
from recallatk.core import Load
from recallatk.datasets import sample_queries, sampled
from recallatk.truth import ground_truth

if TYPE_CHECKING:
    from collections.abc import Sequence

    from recallatk.bench.plan import PlannedBuild
    from recallatk.bench.running import Manner
    from recallatk.core import Dataset, Measurement, Trial

# Two sizes, so that growth is seen and not assumed.
_ROWS = (1_500, 6_000)
_QUERIES = 50
# Nothing of an index grows faster than this, nor shrinks; what two small builds say beyond it is noise.
_STEEPEST = 1.3


@dataclass(frozen=True)
class Estimate:
    """What one build and its trials may take; None where the pilot could not tell."""

    planned: PlannedBuild
    build_seconds: float | None
    memory_bytes: float | None
    search_seconds: float | None
    problem: str | None = None
    """Why it could not."""


def estimate(plan: Plan, dataset: Dataset, manner: Manner) -> list[Estimate]:
    """Build every planned index small, twice, and draw the line on to the whole corpus."""
    if dataset.corpus.rows <= _ROWS[-1]:
        sizes: tuple[int, ...] = (dataset.corpus.rows,)
    else:
        sizes = _ROWS
    measured = [_measured(plan, dataset, rows, manner) for rows in sizes]
    return [_estimate(each, measured, sizes, dataset, manner) for each in plan.builds]


def _measured(plan: Plan, dataset: Dataset, rows: int, manner: Manner) -> dict[Trial, Measurement]:
    """Each build on a few rows, at its first and last search setting."""
    few = dataset if rows == dataset.corpus.rows else sampled(dataset, rows)
    few = replace(few, queries=sample_queries(few.queries, min(_QUERIES, few.queries.rows)))
    small = Plan(tuple(_reduced(each) for each in plan.builds))
    quick = replace(manner, at=tuple(min(k, rows) for k in manner.at), measures=(), rounds=1)
    truth = ground_truth(few, depth=min(quick.k, rows))
    keeper = Kept(describe_run(few, truth, small, quick, {}))
    Runner(small, few, truth, keeper, quick).run()
    return keeper.finished


def _reduced(planned: PlannedBuild) -> PlannedBuild:
    ends = (planned.searches[0], planned.searches[-1])
    return replace(planned, searches=tuple(dict.fromkeys(ends)), loads=(Load(),), repeat=0)


def _estimate(
    planned: PlannedBuild,
    measured: list[dict[Trial, Measurement]],
    sizes: tuple[int, ...],
    dataset: Dataset,
    manner: Manner,
) -> Estimate:
    trials = _reduced(planned).trials
    found = [[each[trial] for trial in trials if trial in each] for each in measured]
    if not all(found):
        return Estimate(planned, None, None, None, "a small build of it failed")
    rows = dataset.corpus.rows
    builds = [each[0].build for each in found]
    calls = [float(np.mean([each.latencies_ns.mean() for each in of_size])) / 1e9 for of_size in found]
    per_call = _grown(calls, sizes, rows)
    return Estimate(
        planned,
        build_seconds=_grown([each.seconds for each in builds], sizes, rows),
        memory_bytes=_grown([each.memory_bytes for each in builds], sizes, rows),
        search_seconds=None
        if per_call is None
        else _seconds(planned, per_call, dataset.queries.rows, manner.rounds),
    )


def _seconds(planned: PlannedBuild, per_call: float, queries: int, rounds: int) -> float:
    """What all trials of a build come to; loads of a stated length take that."""
    lengths = [
        load.seconds if load.seconds is not None else queries / (load.rate or load.clients_or(1) / per_call)
        for load in planned.loads
    ]
    return rounds * len(planned.searches) * sum(lengths)


def _grown(values: Sequence[float | None], sizes: tuple[int, ...], rows: int) -> float | None:
    """The value at so many rows, by the power law through the two measured ones."""
    known = [value for value in values if value is not None]
    if len(known) != len(values):
        return None
    if len(known) == 1 or min(known) <= 0:
        return known[-1] * rows / sizes[-1]
    power = np.log(known[1] / known[0]) / np.log(sizes[1] / sizes[0])
    return float(known[1] * (rows / sizes[1]) ** np.clip(power, 0.0, _STEEPEST))
