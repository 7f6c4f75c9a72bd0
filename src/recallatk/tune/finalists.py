"""The best few asked the same queries in turns, because a machine drifts while it is measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from recallatk.bench.supervisor import TrialFailed
from recallatk.tune.proving import cost, keeps, timed
from recallatk.tune.running_up import safer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from recallatk.core.tuned import Candidate
    from recallatk.tune.proving import Proven
    from recallatk.tune.search import Search

_FINALISTS, _BLOCKS, _BLOCK_QUERIES = 3, 5, 200
# What cost more than this was not near enough for drift to explain it.
_NEAR = 1.3
# What only the runner-up is measured for may take so much of what was spent, and this many seconds anyway.
_SHARE, _SECONDS = 0.1, 1.0


def compare(search: Search, proven: list[Proven]) -> list[Proven]:
    """The same, the cheapest first, those that were near with the latencies of interleaved blocks.

    Where none was near, the first takes turns with what would be its runner-up, so that the two compare.
    """
    if not proven or search.prefer in ("memory", "build"):
        return proven
    limit = cost(search, proven[0].candidate) * _NEAR
    near = [each for each in proven[:_FINALISTS] if cost(search, each.candidate) <= limit]
    if len(near) < 2:
        near = _with_another(search, proven)
    first, added = proven[0], proven[0].safer if len(near) == 1 else None
    settings = [each.candidate for each in near] + ([added] if added is not None else [])
    if len(settings) < 2:
        return proven
    search.say("finalists")
    indexes = [*near, first]
    latencies = _turns(search, list(zip(indexes, settings, strict=False)))
    for place, parts in latencies.items():
        found = timed(settings[place], np.concatenate(parts))
        if place < len(near):
            near[place].candidate = found
        else:
            first.safer = found
    return sorted(proven, key=lambda each: cost(search, each.candidate))


def _with_another(search: Search, proven: list[Proven]) -> list[Proven]:
    """The first and the next that keeps the budgets; where there is none, the first with a safer effort."""
    first = proven[0]
    others = [each for each in proven[1:] if keeps(search, each.candidate)][:1]
    if not others and first.chosen.look is not None and keeps(search, first.candidate):
        first.safer = safer(search, first, first.chosen.look.effort)
    beside = others[0].candidate if others else first.safer
    if beside is None or _seconds(search, first.candidate, beside) > max(
        _SECONDS, _SHARE * search.journal.elapsed
    ):
        return []
    return [first, *others]


def _seconds(search: Search, *candidates: Candidate) -> float:
    """What their turns would take."""
    calls = min(_BLOCKS * _BLOCK_QUERIES, len(search.side))
    return sum((each.latency_ms.get("p50") or 0.0) * calls / 1000 for each in candidates)


def _turns(
    search: Search, entrants: Sequence[tuple[Proven, Candidate]]
) -> dict[int, list[NDArray[np.int64]]]:
    latencies: dict[int, list[NDArray[np.int64]]] = {}
    order = search.side.order(search.seed)[: _BLOCKS * _BLOCK_QUERIES]
    for turn, which in enumerate(np.array_split(order, _BLOCKS)):
        for place in np.random.default_rng([search.seed, turn]).permutation(len(entrants)).tolist():
            proven, candidate = entrants[place]
            taken = _block(search, proven, candidate, which, turn)
            if taken is not None:
                latencies.setdefault(place, []).append(taken)
    return latencies


def _block(
    search: Search, proven: Proven, candidate: Candidate, which: NDArray[np.int64], turn: int
) -> NDArray[np.int64] | None:
    if not len(which):
        return None
    try:
        found = proven.index.ask(
            search.side, search.targets, dict(candidate.search), which, warm=True, purpose=f"finalists {turn}"
        )
    except TrialFailed:
        return None
    return found.latencies_ns
