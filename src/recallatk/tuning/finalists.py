"""Finalists: the best few settings timed in interleaved blocks, and the runner-up."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from recallatk.bench.supervisor import TrialFailed
from recallatk.tuning.candidates import broken_by, candidate_of, rank_cost, timed
from recallatk.tuning.effort_search import Look, settled_above
from recallatk.tuning.full_builds import Proven, note_looks
from recallatk.tuning.study import Log, Study, Trail

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from recallatk.core.tuned import Candidate
    from recallatk.tuning.index_client import IndexClient
    from recallatk.tuning.validation import Validated

_FINALISTS, _BLOCKS, _BLOCK_QUERIES = 3, 5, 200
# Machine drift does not explain a larger cost ratio.
_NEAR = 1.3
# Timing for the runner-up alone may take this share of the elapsed time, or this many seconds.
_SHARE, _SECONDS = 0.1, 1.0
# A clearly higher effort is at least this many times as high.
_SAFER = 1.2


def compare(study: Study, proven: Sequence[Proven], trail: Trail) -> tuple[list[Proven], Trail]:
    """The proven builds, cheapest first; close contenders are timed in interleaved blocks.

    Without a close contender, the first is timed with its potential runner-up, so the two are comparable.
    """
    log, found = Log(study, trail), list(proven)
    if not found or study.prefer in ("memory", "build"):
        return found, log.trail
    limit = rank_cost(study, found[0].candidate) * _NEAR
    near = [n for n, each in enumerate(found[:_FINALISTS]) if rank_cost(study, each.candidate) <= limit]
    if len(near) < 2:
        found[0], near = _with_another(study, log, found)
    entrants = [(found[place].index, found[place].candidate) for place in near]
    first = found[0]
    if len(near) == 1 and first.safer is not None:
        entrants.append((first.index, first.safer))
    if len(entrants) < 2:
        return found, log.trail
    log.say("finalists")
    order = study.side.order(study.seed)[: _BLOCKS * _BLOCK_QUERIES]
    latencies, _ = in_turns(study, entrants, np.array_split(order, _BLOCKS), "finalists")
    for number, taken in latencies.items():
        new = timed(entrants[number][1], taken)
        if number < len(near):
            found[near[number]] = replace(found[near[number]], candidate=new)
        else:
            found[0] = replace(found[0], safer=new)
    return sorted(found, key=lambda each: rank_cost(study, each.candidate)), log.trail


def in_turns(
    study: Study, entrants: Sequence[tuple[IndexClient, Candidate]], blocks: Sequence[NDArray[np.int64]],
    purpose: str, *, pace: bool = False,
) -> tuple[dict[int, NDArray[np.int64]], list[int]]:  # fmt: skip
    """Latencies of settings timed in interleaved blocks, and the machine's pace after each block.

    Args:
        study: the tuning.
        entrants: the settings, each with its index; one that fails keeps the latencies of its other blocks.
        blocks: the queries of each block, numbered within the side to choose by.
        purpose: the name of the phase in the journal.
        pace: whether to measure the machine's pace.
    """
    parts: dict[int, list[NDArray[np.int64]]] = {}
    paces: list[int] = []
    for turn, which in enumerate(blocks):
        for place in np.random.default_rng([study.seed, turn]).permutation(len(entrants)).tolist():
            index, candidate = entrants[place]
            if not len(which):
                continue
            try:
                found = index.ask(
                    study.side, study.targets, dict(candidate.search), which,
                    warm=True, pace=pace, purpose=f"{purpose} {turn}",
                )  # fmt: skip
            except TrialFailed:
                continue
            parts.setdefault(place, []).append(found.latencies_ns)
            paces.append(found.pace_ns or 0)
    return {place: np.concatenate(taken) for place, taken in sorted(parts.items())}, paces


def _with_another(study: Study, log: Log, proven: Sequence[Proven]) -> tuple[Proven, list[int]]:
    """The first build, and the positions to time together: the first and the next within the budgets.

    If no other build is within the budgets, the first is paired with a safer effort of its own. Empty if the
    timing would take too long.
    """
    first = proven[0]
    others = [n for n, each in enumerate(proven) if n and broken_by(study.budgets, each.candidate) is None][
        :1
    ]
    if not others and broken_by(study.budgets, first.candidate) is None and first.chosen.look is not None:
        safer, first = _safer(study, log, first, first.chosen.look.effort)
        first = replace(first, safer=safer)
    beside = proven[others[0]].candidate if others else first.safer
    if beside is None:
        return first, []
    enough = max(_SECONDS, _SHARE * study.elapsed)
    return first, [] if _seconds(study, first.candidate, beside) > enough else [0, *others]


def _seconds(study: Study, *candidates: Candidate) -> float:
    """Estimated seconds of timing these candidates."""
    calls = min(_BLOCKS * _BLOCK_QUERIES, len(study.side))
    return sum((each.latency_ms.get("p50") or 0.0) * calls / 1000 for each in candidates)


def runner_up(
    study: Study, proven: Sequence[Proven], validated: Validated, trail: Trail
) -> tuple[Candidate | None, str, list[Proven], Trail]:
    """The best alternative to the choice that meets every target and budget.

    It is another proven build, or else the chosen build with more effort. Returns the candidate, or None with
    the reason; the builds with the efforts tried here; and the trail.
    """
    log, builds = Log(study, trail), list(proven)
    for place, each in enumerate(builds):
        rejected = place == validated.place or place in validated.rejected
        if not rejected and broken_by(study.budgets, each.candidate) is None:
            return each.candidate, "", builds, log.trail
    chosen = builds[validated.place]
    same = chosen.safer
    if same is None or validated.candidate is not chosen.candidate:
        same, builds[validated.place] = _safer(study, log, chosen, validated.effort)
    why = ""
    if same is None:
        why = "No other build was proven, and the choice already uses full search effort."
    elif (broken := broken_by(study.budgets, same)) is not None:
        same, why = None, f"No other build was proven, and more search effort would exceed {broken}."
    return same, why, builds, log.trail


def _safer(study: Study, log: Log, proven: Proven, effort: float) -> tuple[Candidate | None, Proven]:
    """The same build with clearly more effort that meets every target; None at full effort."""
    if study.over():
        # When time is over, use an effort that was measured already, if any.
        # Without an effort parameter, every effort is 0 and the setting itself.
        more = [each for each in proven.chosen.counted if each.effort > effort and each.passed]
        passed = [each for each in more if each.effort >= effort * _SAFER]
        if passed:
            candidate = candidate_of(study.targets, proven.proposal, proven.built, passed[0])
            log.measured.append(candidate)
            return candidate, proven
    found, proven = next_safer(study, log, proven, effort, _SAFER)
    return (None if found is None else found[1]), proven


def next_safer(
    study: Study, log: Log, proven: Proven, effort: float, factor: float
) -> tuple[tuple[Look, Candidate] | None, Proven]:
    """The next effort, at least `factor` times higher, that meets every target, and the updated build."""
    began = study.elapsed
    try:
        look, chosen = settled_above(study, proven.index, proven.chosen, effort, factor)
    except TrialFailed:
        return None, proven
    new = [each for each in chosen.by_effort if each.effort not in proven.chosen.looks]
    note_looks(study, log, proven.proposal, new, began)
    proven = replace(proven, chosen=chosen)
    if look is None:
        return None, proven
    candidate = candidate_of(study.targets, proven.proposal, proven.built, look)
    log.measured.append(candidate)
    return (look, candidate), proven
