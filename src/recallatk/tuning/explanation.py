"""Explanation of a tuning: knee, price of recall and worst segment, or why no setting meets the goals."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from recallatk.adapters import get_engine
from recallatk.analysis.distribution import FEWEST_RESAMPLED, mean_of_values
from recallatk.analysis.pareto import knee, nines
from recallatk.analysis.segments import by_column
from recallatk.core.tuned import Attempt, Candidate, Price
from recallatk.goals.budget import LATENCIES
from recallatk.goals.decisions import highest_bounds
from recallatk.goals.target import is_loss
from recallatk.redaction import public
from recallatk.tuning.candidates import cost_of, recall_of
from recallatk.units import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from recallatk.analysis.measures import Measure
    from recallatk.core import Mean
    from recallatk.goals import Budget, Target
    from recallatk.tuning.query_split import Side

# Smaller segments are too noisy to be called the worst if larger ones exist.
FEWEST_QUERIES = FEWEST_RESAMPLED
_ROUND = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999)
# Recall has leveled off if the highest effort gains less than this over the one below.
_FLAT = 0.002
_LEAST_MISS = 1e-4


def knee_of(
    front: Sequence[Candidate], prefer: str = "p95", measure: Measure | str | None = None
) -> Candidate | None:
    """The knee of the front by `analysis.pareto.knee`; None if it has none."""
    points = _curve(front, prefer, measure)
    recalls, costs = [point[0] for point in points], [point[1] for point in points]
    place = knee(recalls, costs, [each.queries for _, _, each in points])
    return None if place is None else points[place][2]


def prices_of(
    front: Sequence[Candidate], measure: Measure | str | None = None, prefer: str = "p95"
) -> tuple[Price, ...]:
    """Relative cost from each round recall to the next, interpolated between measured settings."""
    points = _curve(front, prefer, measure)
    if len(points) < 2 or is_loss(str(measure or next(iter(front[0].measures)))):
        return ()
    # The last point may have recall 1; its number of queries limits the nines it can show.
    known = [nines(recall, each.queries) for recall, _, each in points]
    costs = [math.log(cost) for _, cost, _ in points]
    inside = [each for each in _ROUND if known[0] <= nines(each) <= known[-1]]
    at = [float(np.interp(nines(each), known, costs)) for each in inside]
    pairs = zip(inside, inside[1:], at, at[1:], strict=False)
    return tuple(Price(low, high, math.exp(dear - cheap)) for low, high, cheap, dear in pairs)


def worst_segment(
    values: NDArray[np.float64],
    columns: pa.Table | None,
    by: Sequence[str],
    *,
    is_share: bool = False,
    weights: NDArray[np.float64] | None = None,
) -> tuple[str, Mean] | None:
    """The segment with the lowest mean, named `column=value`, among those with enough queries.

    If none has 30 queries, the lowest of all; its mean carries the number of queries.

    Args:
        values: one value per query; NaN for queries without one.
        columns: the columns of the queries, in the same order.
        by: the columns to group by.
        is_share: whether each value is 0 or 1.
        weights: how much each query counts; equally by default.
    """
    found: list[tuple[str, Mean]] = []
    for name in by:
        labels = by_column(columns, name).labels
        for label in sorted({each for each in labels if each is not None}):
            inside = labels == label
            counts = None if weights is None else weights[inside]
            mean = mean_of_values(values[inside], is_share=is_share, weights=counts)
            if mean.value is not None:
                found.append((f"{name}={label}", mean))
    enough = [each for each in found if (each[1].effective or each[1].n) >= FEWEST_QUERIES] or found
    return min(enough, key=lambda each: (each[1].value or 0.0, each[0]), default=None)


def _curve(
    front: Sequence[Candidate], prefer: str, measure: Measure | str | None
) -> list[tuple[float, float, Candidate]]:
    """Recall, cost and setting of each point, by ascending recall."""
    points = []
    for each in front:
        recall, cost = recall_of(each, measure), cost_of(each, prefer)
        if recall is not None and cost is not None and cost > 0:
            points.append((recall, cost, each))
    return sorted(points, key=lambda point: point[:2])


def nearest_of(
    targets: Sequence[Target], budgets: Sequence[Budget], candidates: Sequence[Candidate]
) -> Candidate | None:
    """The setting with the smallest worst miss over targets and budgets."""
    known = [each for each in candidates if not math.isinf(_miss(targets, budgets, each))]
    return min(known, key=lambda each: _miss(targets, budgets, each), default=None)


def binding_of(
    targets: Sequence[Target],
    budgets: Sequence[Budget],
    candidates: Sequence[Candidate],
    attempts: Sequence[Attempt] = (),
    unprovable: str = "",
) -> str:
    """The goal that no setting meets, and whether the build, quantization or search effort is the limit.

    Args:
        targets: the targets to meet.
        budgets: the budgets to stay within.
        candidates: every setting measured on the full corpus.
        attempts: everything tried, for the reason if nothing could be measured.
        unprovable: why these queries cannot prove a target, by `unprovable_of`.
    """
    if not candidates:
        return _nothing(attempts)
    for target in targets:
        if not any(target.reached_by(each.measures.get(target.name)) for each in candidates):
            return _target_binds(target, candidates)
    keeping = [each for each in candidates if _meets(targets, each)]
    if not keeping:
        listed = " and ".join(map(str, targets))
        return f"No single setting meets all of {listed}, though each is met by some setting."
    broken = [
        budget for budget in budgets if all(budget.within(budget.of(each)) is False for each in keeping)
    ]
    if broken:
        return _budget_binds(broken[0], targets, candidates, keeping)
    if all(any(budget.within(budget.of(each)) is False for budget in budgets) for each in keeping):
        listed = " and ".join(map(str, budgets))
        return f"No setting that meets the target stays within all of {listed}, only within some."
    said = "Some settings reach the target in the mean, but not with enough confidence"
    if unprovable:
        return f"{said}: {unprovable}."
    return f"{said}. Add queries or lower the target."


def unprovable_of(targets: Sequence[Target], side: Side, alpha: float) -> str:
    """The first target that the queries to tune on cannot prove even if every answer is right; else empty."""
    weights = side.weights
    inside = [each.members(side.columns, len(side), side.facts) for each in targets]
    counts = None if weights is None else [weights.values[each] for each in inside]
    bounds = highest_bounds([int(each.sum()) for each in inside], alpha, counts)
    for place, (target, bound) in enumerate(zip(targets, bounds, strict=True)):
        if bound >= target.threshold:
            continue
        queries = counted(int(inside[place].sum()), "query", "queries")
        cannot = (
            f"{target} cannot be proven: even if every answer were right, the bound on {queries} would be"
        )
        if counts is None or weights is None:
            return f"{cannot} {bound:.3f}. Add queries or lower the target"
        heaviest = counts[place].max(initial=0.0) / counts[place].sum()
        carried = f"because one query has {heaviest:.1%} of the weight by {weights.column}"
        return f"{cannot} {bound:.3f}, {carried}. Lower the target, cap the weights, or tune without --weight"
    return ""


def _nothing(attempts: Sequence[Attempt]) -> str:
    reasons = Counter(each.why for each in attempts if each.why)
    said = f": {reasons.most_common(1)[0][0]}" if reasons else ""
    return f"No setting could be measured{said}."


def _meets(targets: Sequence[Target], candidate: Candidate) -> bool:
    return all(target.reached_by(candidate.measures.get(target.name)) for target in targets)


def _miss(targets: Sequence[Target], budgets: Sequence[Budget], candidate: Candidate) -> float:
    """Logarithm of the factor by which the worst goal is missed; infinite if recall is unknown."""
    misses = [0.0]
    for target in targets:
        mean = candidate.measures.get(target.name)
        if mean is None or mean.value is None:
            return math.inf
        if not target.reached_by(mean):
            lost = mean.value if target.relevance else 1 - mean.value
            allowed = target.goal if target.relevance else 1 - target.goal
            misses.append(math.log(max(lost, _LEAST_MISS) / max(allowed, _LEAST_MISS)))
    for budget in budgets:
        value = budget.of(candidate)
        if value is not None and not budget.within(value):
            misses.append(abs(math.log(max(value, 1e-12) / budget.limit)))
    return max(misses)


def _target_binds(target: Target, candidates: Sequence[Candidate]) -> str:
    known = [each for each in candidates if _value(target, each) is not None]
    if not known:
        return f"{target} cannot be checked: no setting has a value for {target.name}."
    best = (min if target.relevance else max)(known, key=lambda each: _value(target, each) or 0.0)
    tried = counted(len(known), "setting", "settings")
    reached = f"{target} is out of reach: the best of {tried} reaches {_value(target, best):.4f}"
    return f"{reached} ({setting_text(best)}). {_limit(target, best, known)}"


def _value(target: Target, candidate: Candidate) -> float | None:
    mean = candidate.measures.get(target.name)
    return None if mean is None else mean.value


def _limit(target: Target, best: Candidate, candidates: Sequence[Candidate]) -> str:
    same = [each for each in candidates if (each.engine, each.build) == (best.engine, best.build)]
    by_cost = sorted(same, key=lambda each: (each.latency_ms.get("p95") or 0.0, each.search))
    values = [_value(target, each) or 0.0 for each in by_cost[-2:]]
    if len(values) == 2 and abs(values[1] - values[0]) > _FLAT and by_cost[-1] is best:
        return "Search effort is the limit: recall still rises at the highest effort tried."
    codes = get_engine(best.engine).codes(dict(best.build))
    if codes:
        return f"Quantization is the limit: {codes} loses neighbors that no search effort recovers."
    return "The build is the limit: its index misses neighbors even at full search effort."


def _budget_binds(
    budget: Budget, targets: Sequence[Target], candidates: Sequence[Candidate], keeping: Sequence[Candidate]
) -> str:
    known = [each for each in keeping if budget.of(each) is not None]
    cheapest = (max if budget.at_least else min)(known, key=lambda each: budget.of(each) or 0.0)
    kept, verb = " and ".join(map(str, targets)), "reaches" if budget.at_least else "takes"
    best_case = f"the cheapest setting that meets {kept} {verb} {_shown(budget, cheapest)}"
    said = f"{budget} is out of reach: {best_case} ({setting_text(cheapest)})."
    target = targets[0]
    within = [
        each for each in candidates if budget.within(budget.of(each)) and _value(target, each) is not None
    ]
    if within:
        best = (min if target.relevance else max)(within, key=lambda each: _value(target, each) or 0.0)
        value, named = _value(target, best), setting_text(best)
        said += f" Within the budget, the best {target.name} is {value:.4f} ({named})."
    return f"{said} {_WHAT_BINDS[_kind(budget)]}"


_WHAT_BINDS = {
    "effort": "Search effort is the limit: the target needs more effort than the budget allows.",
    "codes": "Quantization is the limit: indexes that are small enough lose too much of the vectors.",
    "build": "The build is the limit: indexes that are built in time do not meet the target.",
}


def _kind(budget: Budget) -> str:
    if budget.name in (*LATENCIES, "qps"):
        return "effort"
    return "build" if budget.name == "build" else "codes"


def _shown(budget: Budget, candidate: Candidate) -> str:
    value = budget.of(candidate)
    if value is None:
        return "-"
    return f"{value:,.0f} queries per second" if budget.name == "qps" else budget.shown(value)


def setting_text(candidate: Candidate) -> str:
    """A setting in one line, redacted."""
    parts = [f"{name}={public(value, name)}" for name, value in (*candidate.build, *candidate.search)]
    return " ".join([candidate.engine, *(part for part in parts if not part.endswith("="))])
