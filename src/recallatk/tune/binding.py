"""Why nothing meets the target: the nearest miss, which constraint binds, and what is the limit."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

from recallatk.engines import get_engine
from recallatk.goals.budget import LATENCIES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from recallatk.core.tuned import Attempt, Candidate
    from recallatk.goals import Budget, Target

# Where the highest effort adds less than this to the one below, more of it would add nothing.
_FLAT = 0.002
_LEAST_MISS = 1e-4


def nearest_of(
    targets: Sequence[Target], budgets: Sequence[Budget], candidates: Sequence[Candidate]
) -> Candidate | None:
    """The setting whose worst miss, of targets and budgets, is the smallest."""
    known = [each for each in candidates if not math.isinf(_miss(targets, budgets, each))]
    return min(known, key=lambda each: _miss(targets, budgets, each), default=None)


def binding_of(
    targets: Sequence[Target],
    budgets: Sequence[Budget],
    candidates: Sequence[Candidate],
    attempts: Sequence[Attempt] = (),
) -> str:
    """Which target or budget stands in the way, and whether build, codes or search effort is the limit.

    Args:
        targets: what was to be kept.
        budgets: what it might take.
        candidates: every setting that was measured on the whole corpus.
        attempts: what else was tried, for when nothing could be measured.
    """
    if not candidates:
        return _nothing(attempts)
    for target in targets:
        if not any(target.reached_by(each.measures.get(target.name)) for each in candidates):
            return _target_binds(target, candidates)
    keeping = [each for each in candidates if _keeps(targets, each)]
    if not keeping:
        listed = " and ".join(map(str, targets))
        return f"No single setting keeps {listed} together, though each is kept by some."
    broken = [
        budget for budget in budgets if all(budget.within(budget.of(each)) is False for each in keeping)
    ]
    if broken:
        return _budget_binds(broken[0], targets, candidates, keeping)
    if all(any(budget.within(budget.of(each)) is False for budget in budgets) for each in keeping):
        listed = " and ".join(map(str, budgets))
        return f"No setting that keeps the target is within {listed} together, though each is kept by some."
    return (
        "Some settings reach the target in the mean, but not with the confidence of a decision: more queries "
        "would tell, or a lower target."
    )


def _nothing(attempts: Sequence[Attempt]) -> str:
    reasons = Counter(each.why for each in attempts if each.why)
    said = f": {reasons.most_common(1)[0][0]}" if reasons else ""
    return f"No setting could be measured{said}."


def _keeps(targets: Sequence[Target], candidate: Candidate) -> bool:
    return all(target.reached_by(candidate.measures.get(target.name)) for target in targets)


def _miss(targets: Sequence[Target], budgets: Sequence[Budget], candidate: Candidate) -> float:
    """By what factor the worst constraint is missed, as a logarithm; infinite where recall is unknown."""
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
        return f"{target} binds: no setting has a {target.name} at all."
    best = (min if target.relevance else max)(known, key=lambda each: _value(target, each) or 0.0)
    reached = f"{target} binds: of {len(known)} settings the best reaches {_value(target, best):.4f}"
    return f"{reached} ({named(best)}). {_limit(target, best, known)}"


def _value(target: Target, candidate: Candidate) -> float | None:
    mean = candidate.measures.get(target.name)
    return None if mean is None else mean.value


def _limit(target: Target, best: Candidate, candidates: Sequence[Candidate]) -> str:
    same = [each for each in candidates if (each.engine, each.build) == (best.engine, best.build)]
    by_cost = sorted(same, key=lambda each: (each.latency_ms.get("p95") or 0.0, each.search))
    values = [_value(target, each) or 0.0 for each in by_cost[-2:]]
    if len(values) == 2 and abs(values[1] - values[0]) > _FLAT and by_cost[-1] is best:
        return "Search effort is the limit: recall still rises with it at the highest that was tried."
    codes = get_engine(best.engine).codes(dict(best.build))
    if codes:
        return f"Quantisation is the limit: {codes} loses neighbours that no search effort brings back."
    return "The build is the limit: at full search effort its index still misses them."


def _budget_binds(
    budget: Budget, targets: Sequence[Target], candidates: Sequence[Candidate], keeping: Sequence[Candidate]
) -> str:
    known = [each for each in keeping if budget.of(each) is not None]
    cheapest = (max if budget.name == "qps" else min)(known, key=lambda each: budget.of(each) or 0.0)
    kept = " and ".join(map(str, targets))
    said = f"{budget} binds: what keeps {kept} takes at least {shown(budget, cheapest)} ({named(cheapest)})."
    if budget.name == "qps":
        said = f"{budget} binds: what keeps {kept} has at most {shown(budget, cheapest)} ({named(cheapest)})."
    target = targets[0]
    within = [
        each for each in candidates if budget.within(budget.of(each)) and _value(target, each) is not None
    ]
    if within:
        best = (min if target.relevance else max)(within, key=lambda each: _value(target, each) or 0.0)
        said += f" Within it, the best {target.name} is {_value(target, best):.4f} ({named(best)})."
    return f"{said} {_WHAT_BINDS[_kind(budget)]}"


_WHAT_BINDS = {
    "effort": "Search effort is the limit: the target needs more of it than the budget allows.",
    "codes": "Quantisation is the limit: what is small enough keeps too little of the vectors.",
    "build": "The build is the limit: what is built in time is not good enough.",
}


def _kind(budget: Budget) -> str:
    if budget.name in (*LATENCIES, "qps"):
        return "effort"
    return "build" if budget.name == "build" else "codes"


def shown(budget: Budget, candidate: Candidate) -> str:
    """What a setting takes of a budget, as people say it."""
    value = budget.of(candidate)
    if value is None:
        return "-"
    if budget.name in LATENCIES:
        return f"{value:.3g} ms"
    if budget.name == "build":
        return f"{value:,.1f} s"
    return f"{value:,.0f} queries a second" if budget.name == "qps" else f"{value / (1 << 20):,.1f} MiB"


def named(candidate: Candidate) -> str:
    """A setting in one line, without secrets."""
    from recallatk.redaction import public

    parts = [f"{name}={public(value, name)}" for name, value in (*candidate.build, *candidate.search)]
    return " ".join([candidate.engine, *(part for part in parts if not part.endswith("="))])
