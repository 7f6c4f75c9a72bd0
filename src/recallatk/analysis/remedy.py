"""Remedies for lost recall: what to change first, its effect, and its price in latency."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from recallatk.analysis.latency import percentile
from recallatk.analysis.loss import CAUSES, attribute
from recallatk.core.losses import Cause, Remedy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from recallatk.core import Mean, Measurement, Parameters
    from recallatk.core.losses import LossEvidence

    Suggest = Callable[[Measurement, LossEvidence, float, Sequence[Measurement]], Remedy]

# A cheaper trial that recovers this share of the largest gain is the better advice.
_NEARLY = 0.9
# Ranks that a list has to show before a depth for reranking is named.
_FEWEST_RANKS = 0.5
_HIGH = 0.95


def costlier(
    measurement: Measurement, others: Iterable[Measurement], names: Iterable[str]
) -> list[Measurement]:
    """The other trials of the same build that differ in some search parameters alone, and lower none.

    Args:
        measurement: a trial.
        others: trials of any kind.
        names: the parameters, such as the effort knobs.
    """
    own = measurement.trial
    return [
        each
        for each in others
        if (each.trial.engine, each.trial.build, each.trial.repeat) == (own.engine, own.build, own.repeat)
        and _raises(own.search, each.trial.search, set(names))
    ]


def _raises(own: Parameters, other: Parameters, names: set[str]) -> bool:
    """Whether parameters differ from others in these names alone, and only upward."""
    before, after = dict(own), dict(other)
    if before == after or before.keys() != after.keys():
        return False
    return all(
        after[name] >= value if name in names else after[name] == value for name, value in before.items()
    )


def remedy_of(
    measurement: Measurement, causes: Mapping[Cause, Mean], others: Sequence[Measurement]
) -> Remedy | None:
    """The remedy with the largest effect; None if no cause is known.

    Args:
        measurement: a trial with evidence.
        causes: the recall that it lost to each cause.
        others: all trials of its run.
    """
    evidence = measurement.loss
    if evidence is None:
        return None
    same_load = [each for each in others if each.trial.load == measurement.trial.load]
    found = [
        suggest(measurement, evidence, share, same_load)
        for cause, suggest in _REMEDIES.items()
        if (share := causes[cause].value or 0.0) > 0
    ]
    return max(found, key=lambda each: each.gain, default=None)


def _measured(
    cause: Cause, own: Measurement, better: Sequence[Measurement], k: int, verb: str = "raise"
) -> Remedy | None:
    """The cheapest of some trials with nearly the largest recall; None if none has more recall."""
    measure = f"recall@{k}"
    before, start = own.score[measure], percentile(own.latencies_ns, _HIGH)
    if before is None or start is None:
        return None
    gains = {}
    for number, each in enumerate(better):
        after, end = each.score[measure], percentile(each.latencies_ns, _HIGH)
        if after is not None and end is not None and after > before:
            gains[number] = (after - before, end)
    if not gains:
        return None
    best = max(gain for gain, _ in gains.values())
    nearly = {number: end for number, (gain, end) in gains.items() if gain >= _NEARLY * best}
    chosen = min(nearly, key=nearly.__getitem__)
    trial = better[chosen].trial
    changes = _changes(own.trial.search, trial.search) + _changes(own.trial.build, trial.build)
    gain, end = gains[chosen]
    return Remedy(cause, f"{verb} {', '.join(changes)}", gain, (start, end), measured=True)


def _changes(own: Parameters, other: Parameters) -> list[str]:
    before, after = dict(own), dict(other)
    return [
        f"{name} from {before[name]} to {value}"
        for name, value in after.items()
        if name in before and before[name] != value
    ]


def _effort(own: Measurement, evidence: LossEvidence, share: float, others: Sequence[Measurement]) -> Remedy:
    found = _measured(Cause.EFFORT, own, costlier(own, others, evidence.effort_knobs), evidence.k)
    if found is not None:
        return found
    more = evidence.enough_search or evidence.full_search or {}
    changes = _changes(own.trial.search, tuple(more.items()))
    if not changes:
        return Remedy(Cause.EFFORT, "request more neighbors than you need", share, None, measured=False)
    start, end = percentile(own.latencies_ns, _HIGH), evidence.enough_p95_ms
    price = None if start is None or end is None else (start, end)
    return Remedy(Cause.EFFORT, f"raise {', '.join(changes)}", share, price, measured=False)


def _ranking(own: Measurement, evidence: LossEvidence, share: float, others: Sequence[Measurement]) -> Remedy:
    found = _measured(Cause.RANKING, own, costlier(own, others, evidence.rerank_knobs), evidence.k)
    if found is not None:
        return found
    lost = attribute(evidence) == CAUSES.index(Cause.RANKING)
    ranks = np.max([evidence.deeper[lost], evidence.full[lost], evidence.unfiltered[lost]], axis=0)
    known = ranks[ranks >= 0]
    action = "rerank more candidates with exact scores, or quantize less"
    if evidence.rerank_knobs:
        action = f"raise {' or '.join(evidence.rerank_knobs)} to rerank more candidates"
    elif len(known) >= _FEWEST_RANKS * len(ranks):
        depth = int(np.quantile(known, _HIGH, method="higher")) + 1
        action = f"request {depth} neighbors and rerank them with exact scores"
    return Remedy(Cause.RANKING, action, share, None, measured=False)


def _filter(own: Measurement, evidence: LossEvidence, share: float, others: Sequence[Measurement]) -> Remedy:
    found = _measured(Cause.FILTER, own, costlier(own, others, evidence.effort_knobs), evidence.k)
    action = "raise the effort of filtered queries, or use an engine that filters during the search"
    return found or Remedy(Cause.FILTER, action, share, None, measured=False)


def _build(own: Measurement, evidence: LossEvidence, share: float, others: Sequence[Measurement]) -> Remedy:
    names = set(evidence.build_knobs)
    better = [
        each
        for each in others
        if (each.trial.engine, each.trial.search) == (own.trial.engine, own.trial.search)
        and _raises(own.trial.build, each.trial.build, names)
    ]
    found = _measured(Cause.BUILD, own, better, evidence.k, "rebuild and raise")
    action = f"rebuild with more {' or '.join(evidence.build_knobs)}" if names else "build a better index"
    return found or Remedy(Cause.BUILD, action, share, None, measured=False)


_REMEDIES: dict[Cause, Suggest] = {
    Cause.MISSING: lambda _own, _evidence, share, _others: Remedy(
        Cause.MISSING, "rebuild the index with all rows", share, None, measured=False
    ),
    Cause.RANKING: _ranking,
    Cause.FILTER: _filter,
    Cause.EFFORT: _effort,
    Cause.BUILD: _build,
}
