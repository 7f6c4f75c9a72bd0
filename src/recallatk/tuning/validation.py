"""Validation: the choice on held-out queries.

A choice is confirmed if, on the held-out queries, the mean reaches every target and the sequential test
does not report a miss. The proof is the bound on the tuning queries; validation checks it on queries that
played no part in the choice. If a choice is not confirmed, the next safer setting is validated, and the
outcome states the number of validations.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from recallatk.bench.supervisor import TrialFailed
from recallatk.goals.decisions import confirms
from recallatk.tuning.candidates import broken_by
from recallatk.tuning.finalists import next_safer
from recallatk.tuning.full_builds import ALPHA, Proven
from recallatk.tuning.study import Log, Study, Trail

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from recallatk.core import Mean
    from recallatk.core.tuned import Candidate
    from recallatk.tuning.index_client import ScoredAnswers
    from recallatk.tuning.query_split import Side

_MOST_LOOKS = 5
# The first step up is small, because a proven bound is rarely far off; later steps double.
_FIRST_STEP = 0.1


@dataclass(frozen=True)
class Validated:
    """The last setting tested on the held-out queries."""

    place: int
    """Position of its build among the proven builds."""
    candidate: Candidate
    answers: ScoredAnswers
    means: Mapping[str, Mean]
    confirmed: bool
    looks: int
    """Number of validations that led to this setting: one, and one for every rejected setting."""
    effort: float
    rejected: tuple[int, ...] = ()
    """Positions of builds with a setting that was not confirmed."""


def validate(
    study: Study, held_out: Side, proven: Sequence[Proven], trail: Trail
) -> tuple[Validated | None, list[Proven], Trail]:
    """Validate the choice, then safer settings, until one is confirmed or the limit is reached.

    Returns the last validation, or None if no build could be validated; the builds with the efforts tried
    here; and the trail.
    """
    log, builds = Log(study, trail), list(proven)
    last: Validated | None = None
    for place, first in enumerate(proven):
        if broken_by(study.budgets, first.candidate) is not None:
            continue
        look, candidate = first.chosen.look, first.candidate
        while look is not None and (last is None or last.looks < _MOST_LOOKS):
            log.say("validation", first.candidate.engine)
            judged = judge(study, log, held_out, first, candidate, place, look.effort, last)
            if judged is None:
                break
            last = judged
            if last.confirmed:
                return last, builds, log.trail
            factor = 1 + _FIRST_STEP * 2 ** (last.looks - 1)
            safer, builds[place] = next_safer(study, log, builds[place], look.effort, factor)
            if safer is None or broken_by(study.budgets, safer[1]) is not None:
                break
            look, candidate = safer
    return last, builds, log.trail


def judge(
    study: Study, log: Log, held_out: Side, build: Proven, candidate: Candidate, place: int, effort: float,
    before: Validated | None,
) -> Validated | None:  # fmt: skip
    """Validate one setting of a proven build; None if it crashed.

    Args:
        study: the tuning.
        log: where a rejection or a crash is noted.
        held_out: the queries that confirm or reject.
        build: the proven build.
        candidate: the setting.
        place: the position of the build among the proven builds.
        effort: the effort of the setting.
        before: the validation before this one.
    """
    search = dict(candidate.search)
    answers = _asked(study, log, held_out, build, search)
    if answers is None:
        return None
    weights = answers.weights
    counts = None if weights is None else [weights] * len(study.targets)
    confirmed = confirms(study.targets, answers.values, ALPHA, counts)
    if not confirmed:
        why = "the held-out queries do not confirm it"
        log.note(build.proposal.engine, build.proposal.build, "failed", why, search=search)
    means = {
        target.name: target.mean(values, weights)
        for target, values in zip(study.targets, answers.values, strict=True)
    }
    return Validated(
        place,
        candidate,
        answers,
        means,
        confirmed=confirmed,
        looks=1 if before is None else before.looks + 1,
        effort=effort,
        rejected=() if before is None else (*before.rejected, before.place),
    )


def _asked(
    study: Study, log: Log, held_out: Side, build: Proven, search: dict[str, Any]
) -> ScoredAnswers | None:
    order = held_out.order(study.seed)
    try:
        return build.index.ask(held_out, study.targets, search, order, warm=True, purpose="validate")
    except TrialFailed as problem:
        log.note(build.proposal.engine, build.proposal.build, "crashed", str(problem), search=search)
        return None
