"""The final choice: the cheapest setting of the final timing that the held-out queries confirm."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from recallatk.bench.supervisor import TrialFailed
from recallatk.core import Caution
from recallatk.tuning.candidates import broken_by, candidate_of, cost_of, key_of, rank_cost, recall_of
from recallatk.tuning.effort_search import settled_at
from recallatk.tuning.explanation import setting_text
from recallatk.tuning.full_builds import note_looks
from recallatk.tuning.study import Log
from recallatk.tuning.validation import judge

if TYPE_CHECKING:
    from collections.abc import Sequence

    from recallatk.core.tuned import Candidate
    from recallatk.tuning.effort_search import Look
    from recallatk.tuning.final_timing import Timing
    from recallatk.tuning.full_builds import Proven
    from recallatk.tuning.query_split import Side
    from recallatk.tuning.study import Study, Trail
    from recallatk.tuning.validation import Validated

# Each try may send all tuning and all held-out queries once more.
_MOST_TRIES = 3


@dataclass(frozen=True)
class FinalChoice:
    """The validated setting after the final timing, and what was learned on the way."""

    validated: Validated
    timing: Timing
    trail: Trail
    refused: frozenset[tuple[object, ...]] = frozenset()
    """Keys of cheaper settings that the held-out queries did not confirm."""


def choose_finally(
    study: Study,
    held_out: Side,
    proven: Sequence[Proven],
    validated: Validated,
    timing: Timing,
    trail: Trail,
) -> FinalChoice:
    """Replace the choice if the final timing shows a cheaper setting that meets every goal.

    The choice was made on latencies of earlier phases, which machine noise can reverse. A cheaper setting
    needs the same evidence: its bound over all tuning queries, and the held-out queries.

    Args:
        study: the tuning.
        held_out: the side that confirms.
        proven: the proven builds.
        validated: the confirmed setting.
        timing: the final timing.
        trail: everything tried so far.
    """
    log, kept = Log(study, trail), FinalChoice(validated, timing, trail)
    for setting in _cheaper(study, timing, validated.candidate)[:_MOST_TRIES]:
        answered = _validated(study, log, held_out, proven, kept.validated, setting)
        if answered is None:
            continue
        if answered.confirmed:
            # No setting was rejected in between, so this validation is no further look.
            answered = replace(answered, looks=kept.validated.looks, rejected=validated.rejected)
            updated = timing.updated(answered.candidate)
            return replace(kept, validated=answered, timing=updated, trail=log.trail)
        looks = replace(kept.validated, looks=answered.looks)
        kept = replace(kept, validated=looks, refused=kept.refused | {key_of(setting)})
    return replace(kept, trail=log.trail)


def _cheaper(study: Study, timing: Timing, choice: Candidate) -> list[Candidate]:
    """Settings within the budgets that cost less than the choice, the cheapest first."""
    limit = rank_cost(study, timing.of(choice) or choice)
    within = [each for each in timing.settings if broken_by(study.budgets, each) is None]
    return sorted(
        (each for each in within if rank_cost(study, each) < limit), key=lambda each: rank_cost(study, each)
    )


def _validated(
    study: Study,
    log: Log,
    held_out: Side,
    proven: Sequence[Proven],
    before: Validated,
    setting: Candidate,
) -> Validated | None:
    """The setting on the held-out queries; None if its build or its bound does not allow to choose it."""
    place = _place_of(setting, proven, before)
    look = None if place is None else _settled(study, log, proven[place], before, setting, place)
    if place is None or look is None:
        return None
    build = proven[place]
    candidate = candidate_of(study.targets, build.proposal, build.built, look)
    log.measured.append(candidate)
    return judge(study, log, held_out, build, candidate, place, look.effort, before)


def _place_of(setting: Candidate, proven: Sequence[Proven], before: Validated) -> int | None:
    """The position of a setting's build among the proven builds that no validation rejected."""
    for place, each in enumerate(proven):
        same = (each.candidate.engine, each.candidate.build) == (setting.engine, setting.build)
        if same and (place == before.place or place not in before.rejected):
            return place
    return None


def _settled(
    study: Study, log: Log, build: Proven, before: Validated, setting: Candidate, place: int
) -> Look | None:
    """The look at the setting over all tuning queries if its bound meets every target; None if not."""
    # Less effort than this was not proven, or the held-out queries rejected it.
    lowest = build.chosen.look
    least = before.effort if place == before.place or lowest is None else lowest.effort
    began = study.elapsed
    try:
        look = settled_at(study, build.index, build.chosen, dict(setting.search), least)
    except TrialFailed:
        return None
    if look is not None and look.effort not in build.chosen.looks:
        note_looks(study, log, build.proposal, [look], began)
    return look if look is not None and look.passed else None


def off_front(study: Study, choice: Candidate | None, front: Sequence[Candidate]) -> list[Caution]:
    """A caution if another setting has at least the recall of the choice at a lower cost."""
    if choice is None or key_of(choice) in map(key_of, front):
        return []
    measure = study.targets[0].name
    recall, cost = recall_of(choice, measure), cost_of(choice, study.prefer)
    if recall is None or cost is None:
        return []
    for each in front:
        its_recall, its_cost = recall_of(each, measure), cost_of(each, study.prefer)
        if its_recall is not None and its_recall >= recall and its_cost is not None and its_cost < cost:
            said = (
                f"the final timing measured a lower cost for {setting_text(each)}, but that setting was not "
                "shown to meet every goal, so the choice stays"
            )
            return [Caution("off-front", said, its_cost, cost)]
    return []
