"""The best alternative to the choice that is known to keep every target and budget."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recallatk.bench.supervisor import TrialFailed
from recallatk.tune.choosing import settled_above
from recallatk.tune.proving import SAFER, candidate_of, keeps, note_looks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from recallatk.core.tuned import Candidate
    from recallatk.tune.choosing import Look
    from recallatk.tune.proving import Proven
    from recallatk.tune.search import Search
    from recallatk.tune.validating import Validated


def runner_up(search: Search, proven: Sequence[Proven], validated: Validated) -> tuple[Candidate | None, str]:
    """Of another build if one is proven, else more effort on the same; or None, and why."""
    chosen = validated.proven
    for each in proven:
        if each is not chosen and each not in validated.rejected and keeps(search, each.candidate):
            return each.candidate, ""
    same, choice = chosen.safer, validated.candidate
    if same is None or choice is not chosen.candidate:
        same = safer(search, chosen, validated.effort)
    if same is None:
        return None, "No other build was proven, and the choice has no more search effort to give."
    if not keeps(search, same):
        broken = next(each for each in search.budgets if each.within(each.of(same)) is False)
        return None, f"No other build was proven, and more search effort would break {broken}."
    return same, ""


def safer(search: Search, proven: Proven, effort: float) -> Candidate | None:
    """The same build with clearly more effort that clears every target; None at full effort."""
    began = search.journal.elapsed
    try:
        look = _known_above(proven, effort) if search.over() else None
        look = look or settled_above(proven.chosen.prober, effort, SAFER)
    except TrialFailed:
        return None
    note_looks(search, proven.proposal, proven.chosen.looks, began)
    if look is None:
        return None
    candidate = candidate_of(search.targets, proven.proposal, proven.built, look)
    search.measured.append(candidate)
    return candidate


def _known_above(proven: Proven, effort: float) -> Look | None:
    """What had passed already when time was over."""
    passed = [
        look
        for other, look in sorted(proven.chosen.prober.counted().items())
        if other >= effort * SAFER and look.passed
    ]
    return passed[0] if passed else None
