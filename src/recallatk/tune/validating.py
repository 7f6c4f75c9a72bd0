"""The choice on queries that it was not chosen by.

A choice is confirmed when on the held-out queries every target is reached in the mean, and the sequential
test does not say that it is missed. The proof is the bound on the side it was chosen by; this is its check,
on queries that cannot have been selected for. Where it is not confirmed, the next safer setting is looked
at, and the number of looks is told.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from recallatk.analysis.betting import SequentialVerdict, is_at_least
from recallatk.bench.conversation import TrialFailed
from recallatk.tune.choosing import settled_above
from recallatk.tune.proving import ALPHA, candidate_of, keeps, note_looks

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from recallatk.core import Mean
    from recallatk.core.tuned import Candidate
    from recallatk.goals import Target
    from recallatk.tune.asking import Answers
    from recallatk.tune.choosing import Look
    from recallatk.tune.proving import Proven
    from recallatk.tune.search import Search
    from recallatk.tune.sides import Side

_MOST_LOOKS = 5
# The first step up is small, because what the bound had proven can hardly be far off; later ones double.
_FIRST_STEP = 0.1


@dataclass(frozen=True)
class Validated:
    """What the held-out queries said."""

    proven: Proven
    candidate: Candidate
    answers: Answers
    means: Mapping[str, Mean]
    confirmed: bool
    looks: int
    effort: float
    rejected: tuple[Proven, ...] = ()
    """Builds of which a setting was not confirmed before."""


def confirms(targets: Sequence[Target], answers: Answers) -> bool:
    """Whether the held-out queries do not contradict the promise."""
    for target, values in zip(targets, answers.values, strict=True):
        scored = values[~np.isnan(values)]
        if not len(scored) or scored.mean() < target.threshold:
            return False
        if (
            0 < target.threshold < 1
            and is_at_least(scored, target.threshold, ALPHA)[0] is SequentialVerdict.FAIL
        ):
            return False
    return True


def validate(search: Search, held_out: Side, proven: Sequence[Proven]) -> Validated | None:
    """Look at the choice, then at safer ones until one is confirmed or there have been enough looks."""
    looks, last = 0, None
    rejected: list[Proven] = []
    for each in proven:
        if not keeps(search, each.candidate):
            continue
        look: Look | None = each.chosen.look
        while look is not None and looks < _MOST_LOOKS:
            search.say("validation", each.candidate.engine)
            answers = _asked(search, held_out, each, look)
            if answers is None:
                break
            looks += 1
            means = {
                target.name: target.mean(values)
                for target, values in zip(search.targets, answers.values, strict=True)
            }
            confirmed = confirms(search.targets, answers)
            candidate = each.candidate
            if look is not each.chosen.look:
                candidate = candidate_of(search.targets, each.proposal, each.built, look)
            last = Validated(each, candidate, answers, means, confirmed, looks, look.effort, tuple(rejected))
            if confirmed:
                return last
            rejected.append(each)
            search.note(
                each.proposal.engine, each.proposal.build, look.search, search.shape.rows, "failed",
                "the held-out queries do not confirm it", search.journal.elapsed,
            )  # fmt: skip
            look = _safer(search, each, look, 1 + _FIRST_STEP * 2 ** (looks - 1))
    return last


def _asked(search: Search, held_out: Side, proven: Proven, look: Look) -> Answers | None:
    try:
        order = held_out.order(search.seed)
        return proven.index.ask(held_out, search.targets, look.search, order, warm=True, purpose="validate")
    except TrialFailed as problem:
        search.note(
            proven.proposal.engine, proven.proposal.build, look.search, search.shape.rows, "crashed",
            str(problem), search.journal.elapsed,
        )  # fmt: skip
        return None


def _safer(search: Search, proven: Proven, look: Look, factor: float) -> Look | None:
    """The next effort up that clears on the side to choose by, if it still keeps the budgets."""
    began = search.journal.elapsed
    found = settled_above(proven.chosen.prober, look.effort, factor)
    note_looks(search, proven.proposal, proven.chosen.looks, began)
    if found is None:
        return None
    candidate = candidate_of(search.targets, proven.proposal, proven.built, found)
    search.measured.append(candidate)
    return found if keeps(search, candidate) else None
