"""What measuring a grid would take instead, by what builds and calls took here."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from recallatk.tune.halving import Proposal
    from recallatk.tune.proving import Proven
    from recallatk.tune.search import Search

# What somebody would measure: so many builds of each engine, so many efforts of each build, all queries.
BUILDS, EFFORTS = 6, 12


def grid_seconds(search: Search, proposals: Sequence[Proposal], proven: Sequence[Proven]) -> float:
    """What a grid of every engine that could reach the target would take with all queries."""
    queries = search.room.dataset.queries.rows
    names = sorted({each.engine.name for each in proposals})
    return sum(
        BUILDS * (_build(name, proposals, proven) + EFFORTS * queries * _call(name, proposals, proven))
        for name in names
    )


def _build(name: str, proposals: Sequence[Proposal], proven: Sequence[Proven]) -> float:
    """Seconds of one build: as measured, or as predicted from the part and corrected by what was measured."""
    own = [each.built.seconds or 0.0 for each in proven if each.proposal.engine.name == name]
    if own:
        return float(np.mean(own))
    predicted = [each.seconds for each in proposals if each.engine.name == name and each.seconds]
    if not predicted:
        return 0.0
    ratios = [(each.built.seconds or 0.0) / each.proposal.seconds for each in proven if each.proposal.seconds]
    slower = float(np.median(ratios)) if ratios else 1.0
    # Nothing is said to take longer than what was measured: not every build grows with the rows.
    return min(float(np.mean(predicted)) * slower, max(each.built.seconds or 0.0 for each in proven))


def _call(name: str, proposals: Sequence[Proposal], proven: Sequence[Proven]) -> float:
    """Seconds of one call, over all efforts: as measured, or as much slower as the engine was on the part."""
    own = [each for each in proven if each.proposal.engine.name == name]
    seconds = float(np.mean([_mean_call(each) for each in own or proven]))
    if own:
        return seconds
    on_part = min(each.median_ms for each in proposals if each.engine.name == name)
    return seconds * on_part / float(np.mean([each.proposal.median_ms for each in proven]))


def _mean_call(proven: Proven) -> float:
    """Seconds of a call of one build, over efforts as a grid has them: evenly spaced on the log scale."""
    looks = proven.chosen.looks
    # Where there is no effort to set, it is 0.
    efforts = np.log([max(each.effort, 1e-9) for each in looks])
    calls = np.log([each.latencies_ns.mean() / 1e9 for each in looks])
    steps = np.linspace(efforts[0], efforts[-1], EFFORTS)
    return float(np.exp(np.interp(steps, efforts, calls)).mean())
