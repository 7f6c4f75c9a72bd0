"""The best few asked the same queries in turns, because a machine drifts while it is measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from recallatk.bench.conversation import TrialFailed
from recallatk.tune.proving import cost, timed

if TYPE_CHECKING:
    from recallatk.tune.proving import Proven
    from recallatk.tune.search import Search

_FINALISTS, _BLOCKS, _BLOCK_QUERIES = 3, 5, 200
# What cost more than this was not near enough for drift to explain it.
_NEAR = 1.3


def compare(search: Search, proven: list[Proven]) -> list[Proven]:
    """The same, the cheapest first, those that were near with the latencies of interleaved blocks."""
    if len(proven) < 2 or search.prefer in ("memory", "build"):
        return proven
    limit = cost(search, proven[0].candidate) * _NEAR
    near = [each for each in proven[:_FINALISTS] if cost(search, each.candidate) <= limit]
    if len(near) < 2:
        return proven
    search.say("finalists")
    latencies: dict[int, list[np.ndarray[tuple[int], np.dtype[np.int64]]]] = {}
    order = search.side.order(search.seed)[: _BLOCKS * _BLOCK_QUERIES]
    for turn, which in enumerate(np.array_split(order, _BLOCKS)):
        for place in np.random.default_rng([search.seed, turn]).permutation(len(near)).tolist():
            taken = _block(search, near[place], which, turn)
            if taken is not None:
                latencies.setdefault(place, []).append(taken)
    for place, parts in latencies.items():
        near[place].candidate = timed(near[place].candidate, np.concatenate(parts))
    return sorted(proven, key=lambda each: cost(search, each.candidate))


def _block(
    search: Search, proven: Proven, which: np.ndarray[tuple[int], np.dtype[np.int64]], turn: int
) -> np.ndarray[tuple[int], np.dtype[np.int64]] | None:
    look = proven.chosen.look
    if look is None or not len(which):
        return None
    try:
        found = proven.index.ask(
            search.side, search.targets, look.search, which, warm=True, purpose=f"finalists {turn}"
        )
    except TrialFailed:
        return None
    return found.latencies_ns
