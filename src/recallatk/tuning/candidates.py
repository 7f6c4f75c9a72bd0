"""Measured settings: quality, cost, and the Pareto front."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from recallatk.analysis.latency import PERCENTILES, percentile
from recallatk.analysis.pareto import front
from recallatk.core.judgments import Outcome
from recallatk.core.tuned import Candidate
from recallatk.goals.evaluation import Costs, evaluate, target_result
from recallatk.goals.target import is_loss

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from recallatk.analysis.measures import Measure
    from recallatk.bench.messages import Built
    from recallatk.goals import Budget, Target
    from recallatk.tuning.effort_search import Look
    from recallatk.tuning.screening import Proposal
    from recallatk.tuning.study import Study

COST = "cost"
PREFERENCES = ("p95", "qps", "memory", "build", COST)
# Unmeasured settings rank after measured ones, and settings that exceed a budget rank last.
_NOT_MEASURED, _BROKEN = 1e18, 1e6


def candidate_of(targets: Sequence[Target], proposal: Proposal, built: Built, look: Look) -> Candidate:
    """A setting with everything measured for it."""
    candidate = Candidate(
        engine=proposal.engine.name,
        build=tuple(proposal.build.items()),
        search=tuple(look.search.items()),
        measures={target.name: target.mean(look.values(n), look.weights) for n, target in enumerate(targets)},
        bound=in_units(targets[0], look.bound),
        memory_bytes=built.memory_bytes,
        size_bytes=built.size_bytes,
        build_seconds=built.seconds,
        version=built.version,
        queries=look.asked,
        targets=tuple(target_result(target, look.raw(n), look.weights) for n, target in enumerate(targets)),
    )
    return timed(candidate, look.latencies_ns)


def in_units(target: Target, bound: float | None) -> float | None:
    """The bound in units of the target: for a loss, an upper bound."""
    return bound if bound is None or not target.relevance else 1 - 2 * bound


def timed(candidate: Candidate, latencies_ns: NDArray[np.int64]) -> Candidate:
    """The candidate with these latencies."""
    latency = {name: percentile(latencies_ns, share) for name, share in PERCENTILES.items()}
    mean = float(latencies_ns.mean()) if len(latencies_ns) else 0.0
    return replace(candidate, latency_ms=latency, qps=1e9 / mean if mean else None)


def key_of(candidate: Candidate) -> tuple[object, ...]:
    """Engine, build and search parameters, which identify a setting."""
    return candidate.engine, candidate.build, candidate.search


def cost_of(candidate: Candidate, prefer: str) -> float | None:
    """Cost of a setting by a preference, lower is better; None if not measured."""
    # At one price per hour, the highest throughput costs least per query.
    if prefer in ("qps", COST):
        return 1 / candidate.qps if candidate.qps else None
    found = {"memory": candidate.memory_bytes, "build": candidate.build_seconds}
    return found[prefer] if prefer in found else candidate.latency_ms.get(prefer)


def rank_cost(study: Study, candidate: Candidate) -> float:
    """Cost to rank by: settings without a cost rank late, those that exceed a budget last."""
    found = cost_of(candidate, study.prefer)
    if found is None:
        found = candidate.latency_ms.get("p50")
    known = _NOT_MEASURED if found is None else found
    return known * (1 if broken_by(study.budgets, candidate) is None else _BROKEN)


def broken_by(budgets: Sequence[Budget], candidate: Candidate) -> Budget | None:
    """The first budget that a setting is known to exceed; None if there is none."""
    results = zip(budgets, evaluate(budgets, Costs(candidate)), strict=True)
    return next((budget for budget, result in results if result.outcome is Outcome.MISSED), None)


def recall_of(candidate: Candidate, measure: Measure | str | None = None) -> float | None:
    """Mean of a measure, by default the candidate's first; for a loss, one minus the loss."""
    name = str(measure) if measure is not None else next(iter(candidate.measures), None)
    mean = None if name is None else candidate.measures.get(name)
    if mean is None or mean.value is None or name is None:
        return None
    return 1 - mean.value if is_loss(name) else mean.value


def front_of(
    candidates: Sequence[Candidate], prefer: str = "p95", measure: Measure | str | None = None
) -> tuple[Candidate, ...]:
    """The Pareto front of recall and cost, by ascending recall."""
    places = front(
        [recall_of(each, measure) for each in candidates], [cost_of(each, prefer) for each in candidates]
    )
    return tuple(candidates[place] for place in places)
