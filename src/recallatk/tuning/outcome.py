"""The outcome: the results of all steps, combined into what tuning returns."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from recallatk.adapters.snippet import snippet
from recallatk.analysis.distribution import FEWEST_RESAMPLED
from recallatk.analysis.weighting import few_effective
from recallatk.bench.measurement import labels_of
from recallatk.core import Caution, Mean
from recallatk.core.filtering import REFUSED as REFUSED_FILTERS
from recallatk.core.judgments import GoalResult, Outcome, Verdict
from recallatk.core.tuned import FEW_HELD_OUT, Attempt, Candidate, Tuned
from recallatk.goals import evaluate, parse_goal
from recallatk.goals.evaluation import Costs
from recallatk.tuning.candidates import broken_by, front_of, key_of
from recallatk.tuning.downstream import choice_downstream
from recallatk.tuning.explanation import (
    binding_of,
    knee_of,
    nearest_of,
    prices_of,
    unprovable_of,
    worst_segment,
)
from recallatk.tuning.final_choice import FinalChoice, choose_finally, off_front
from recallatk.tuning.final_timing import Timing, time_together
from recallatk.tuning.finalists import runner_up
from recallatk.tuning.full_builds import ALPHA, FullBuild, Proven, grid_seconds
from recallatk.tuning.screening import REFUSED
from recallatk.units import counted, mebibytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from recallatk.tuning.index_client import IndexClient
    from recallatk.tuning.query_split import Side
    from recallatk.tuning.screening import Proposal
    from recallatk.tuning.study import Study, Trail
    from recallatk.tuning.validation import Validated

# Settings with fewer queries are too uncertain to be on the front.
_FEWEST = 100


@dataclass(frozen=True)
class Found:
    """Results of all steps up to validation."""

    proposals: Sequence[Proposal]
    builds: Sequence[FullBuild]
    proven: Sequence[Proven]
    validated: Validated | None
    trail: Trail

    @property
    def confirmed(self) -> Validated | None:
        """The validated setting, if the held-out queries confirmed it."""
        return self.validated if self.validated is not None and self.validated.confirmed else None


@dataclass(frozen=True)
class _Shown:
    """Settings that the outcome compares, with latencies of the final timing."""

    choice: Candidate | None
    nearest: Candidate | None
    """The closest setting, if none meets the goals."""
    second: Candidate | None
    no_second: str
    """Why there is no runner-up."""
    timing: Timing


def conclude(study: Study, held_out: Side, found: Found, by: Sequence[str]) -> Tuned:
    """Time all settings to be shown together, then explain the result.

    Args:
        study: the tuning.
        held_out: the side that the choice was validated on.
        found: the results of the steps.
        by: query columns in which to find the worst segment.
    """
    found, shown = _timed(study, held_out, found)
    met, validated = shown.choice is not None, found.validated
    weights = study.side.scored_weights
    measure = study.targets[0].name
    front = front_of(shown.timing.settings, study.prefer, measure)
    attempts = _attempts(study, found.trail, shown.timing)
    judged = choice_downstream(study, held_out, _index_of(found, shown.choice), shown.choice)
    return Tuned(
        targets=tuple(map(str, study.targets)),
        budgets=tuple(map(str, study.budgets)),
        prefer=study.prefer,
        met=met,
        choice=shown.choice,
        validated={} if validated is None else validated.means,
        looks=0 if validated is None else validated.looks,
        nearest=shown.nearest,
        binding=None if met else _binding(study, found.trail, attempts, shown.timing),
        runner_up=shown.second if met else None,
        no_runner_up=None if shown.second or not met else shown.no_second,
        front=front,
        knee=knee_of(front, study.prefer, measure),
        prices=prices_of(front, measure, study.prefer),
        worst_segment=None if validated is None else _worst(study, held_out, validated, by),
        attempts=attempts,
        trials=sum(each.search is not None for each in attempts),
        builds=_builds(study),
        seconds=study.elapsed,
        grid_seconds_estimate=grid_seconds(study, found.proposals, found.proven) if found.proven else None,
        cautions=(*_cautions(study, found), *off_front(study, shown.choice, front), *shown.timing.cautions),
        snippet=None if shown.choice is None else _snippet(study, shown.choice),
        verdict=_verdict(study, found, shown),
        weight=None if weights is None else weights.column,
        effective_queries=None if weights is None else weights.effective,
        downstream=judged.measures,
        downstream_notes=judged.notes,
    )


def _index_of(found: Found, choice: Candidate | None) -> IndexClient | None:
    """The full build of a setting."""
    keys = {(each.index.engine, tuple(each.index.build.items())): each.index for each in found.builds}
    return None if choice is None else keys.get((choice.engine, choice.build))


def _timed(study: Study, held_out: Side, found: Found) -> tuple[Found, _Shown]:
    """The choice, its runner-up or the nearest miss, timed together with all candidates for the front."""
    choice, second, why = None, None, ""
    if found.confirmed is not None:
        choice = found.confirmed.candidate
        second, why, proven, trail = runner_up(study, found.proven, found.confirmed, found.trail)
        found = replace(found, proven=proven, trail=trail)
    nearest = nearest_of(study.targets, study.budgets, _distinct(found.trail)) if choice is None else None
    enough = [each for each in _distinct(found.trail, second, choice) if each.queries >= _FEWEST]
    indexes = {(each.index.engine, tuple(each.index.build.items())): each.index for each in found.builds}
    timing = time_together(study, indexes, enough, [choice, second, nearest], found.trail)
    if found.confirmed is not None:
        final = choose_finally(study, held_out, found.proven, found.confirmed, timing, found.trail)
        found, timing = replace(found, validated=final.validated, trail=final.trail), final.timing
        second, why = _alternative(study, final, choice, second, why)
        choice = final.validated.candidate
    choice, second, nearest = timing.of(choice), timing.of(second), timing.of(nearest)
    if choice is not None and broken_by(study.budgets, choice) is not None:
        # It stayed within the budgets while choosing, but exceeds one in the final timing.
        choice, nearest = None, choice
    return found, _Shown(choice, nearest, second, why, timing)


def _alternative(
    study: Study, final: FinalChoice, before: Candidate | None, second: Candidate | None, why: str
) -> tuple[Candidate | None, str]:
    """The runner-up after the final choice: the replaced choice if it is of another build or the only one."""
    choice = final.validated.candidate
    if second is not None and key_of(second) in final.refused:
        second, why = None, "The held-out queries did not confirm the next best setting."
    if before is None or key_of(before) == key_of(choice):
        return second, why
    timed = [final.timing.of(each) for each in (before, second)]
    others = [
        each
        for each in timed
        if each is not None and key_of(each) != key_of(choice) and broken_by(study.budgets, each) is None
    ]
    # A stable sort: the replaced choice, which the held-out queries confirmed, comes before an equal one.
    others.sort(key=lambda each: (each.engine, each.build) == (choice.engine, choice.build))
    return (others[0], "") if others else (None, "No other setting stays within the budgets.")


def _distinct(trail: Trail, *final: Candidate | None) -> list[Candidate]:
    """Every measured setting once: its final version if any, else the one with the most queries."""
    found: dict[tuple[object, ...], Candidate] = {}
    for each in trail.measured:
        if key_of(each) not in found or found[key_of(each)].queries <= each.queries:
            found[key_of(each)] = each
    return list((found | {key_of(each): each for each in final if each is not None}).values())


def _attempts(study: Study, trail: Trail, timing: Timing) -> tuple[Attempt, ...]:
    """Every build and setting once, with its last verdict and only the latencies of the final timing."""
    found: dict[tuple[object, ...], Attempt] = {}
    for each in trail.attempts:
        key = each.engine, each.build, each.search, each.rows
        before = found.get(key)
        if before is not None:
            bound = each.bound if each.bound is not None else before.bound
            each = replace(each, seconds=before.seconds + each.seconds, bound=bound)  # noqa: PLW2901
        found[key] = each
    p95 = {key_of(each): each.latency_ms.get("p95") for each in timing.settings}
    return tuple(
        replace(each, p95_ms=p95.get((each.engine, each.build, each.search)))
        if each.rows == study.shape.rows
        else each
        for each in found.values()
    )


def _binding(study: Study, trail: Trail, attempts: Sequence[Attempt], timing: Timing) -> str:
    why = unprovable_of(study.targets, study.side, ALPHA)
    return binding_of(study.targets, study.budgets, _distinct(trail, *timing.settings), attempts, why)


def _builds(study: Study) -> int:
    """Number of successful builds in the journal, on samples and on the full corpus."""
    steps = study.journal.steps.items()
    return sum("built" in step for key, step in steps if key.startswith('["build"'))


def _verdict(study: Study, found: Found, shown: _Shown) -> Verdict:
    """The outcome of every goal, for the choice or the closest setting."""
    candidate = shown.choice or shown.nearest
    if candidate is None:
        goals = (*study.targets, *study.budgets)
        return Verdict(tuple(GoalResult(str(each), Outcome.NOT_MEASURED) for each in goals))
    validated = found.validated if shown.choice is not None else None
    targets = tuple(_beside_held_out(each, validated) for each in candidate.targets)
    if found.confirmed is None and all(each.outcome is Outcome.MET for each in targets):
        why = "the held-out queries do not confirm it"
        targets = tuple(replace(each, outcome=Outcome.UNDECIDED, note=why) for each in targets)
    return Verdict((*targets, *evaluate(study.budgets, Costs(candidate))))


def _beside_held_out(result: GoalResult, validated: Validated | None) -> GoalResult:
    """The outcome on the queries used for choosing, with the value on held-out queries."""
    goal = parse_goal(result.text)
    held = validated.means.get(goal.name) if validated is not None else None
    if held is None or held.value is None:
        return result
    return replace(result, note=f"on the tuning queries; {held.value:.4f} on held-out queries")


def _worst(study: Study, held_out: Side, validated: Validated, by: Sequence[str]) -> tuple[str, Mean] | None:
    if not by:
        return None
    answers = validated.answers
    values = np.full(len(held_out), np.nan)
    values[answers.which] = answers.measured
    share = study.targets[0].measure.is_share
    weights = None if held_out.weights is None else held_out.weights.values
    return worst_segment(values, held_out.columns, by, is_share=share, weights=weights)


def _snippet(study: Study, choice: Candidate) -> str:
    return snippet(choice.engine, study.metric, dict(choice.build), dict(choice.search), study.shape.k)


def _cautions(study: Study, found: Found) -> list[Caution]:
    cautions = [
        *labels_of(study.side.dataset, [each.measure.k for each in study.targets]),
        *(
            Caution(
                "monotonicity",
                f"{each.candidate.engine}: a setting failed although one with less effort had passed",
            )
            for each in found.proven
            if each.chosen.violated
        ),
    ]
    cautions += _about_memory(found.builds)
    few = few_effective(study.side.scored_weights)
    cautions += [] if few is None else [few]
    cautions += _few_held_out(found.validated)
    refused = {each.engine: each.why for each in found.trail.attempts if each.verdict == REFUSED}
    refused = {**study.left_out, **refused}
    cautions += [Caution(REFUSED_FILTERS, f"{engine} was left out: {why}") for engine, why in refused.items()]
    if found.validated is not None and found.validated.looks > 1:
        said = f"the held-out queries were used {found.validated.looks} times"
        cautions.append(Caution("looks", said, found.validated.looks, 1))
    if study.over():
        said = "the time limit ended tuning before everything was tried"
        cautions.append(Caution("time", said, None, study.seconds))
    return cautions


def _few_held_out(validated: Validated | None) -> list[Caution]:
    """Targets that were validated on few queries, as those of a small segment are."""
    means = {} if validated is None else validated.means
    return [
        Caution(
            FEW_HELD_OUT,
            f"{name} was validated on {counted(mean.n, 'query', 'queries')}, which is few: its margin "
            "is wide. Add queries of this kind",
            mean.n,
            FEWEST_RESAMPLED,
        )
        for name, mean in means.items()
        if mean.n < FEWEST_RESAMPLED
    ]


def _about_memory(builds: Sequence[FullBuild]) -> list[Caution]:
    """Contradictions between predicted and measured memory, by the last build of each engine."""
    found = []
    exceeded = {each.index.engine: each.exceeded for each in builds if each.exceeded}
    for name, (predicted, taken) in exceeded.items():
        said = f"{name}: a build took {_size(taken)} of memory; the prediction was {_size(predicted)}"
        found.append(Caution("memory", said, taken, predicted))
    corrected = {each.index.engine: each.corrected for each in builds if each.corrected}
    for name, (measured, held) in corrected.items():
        said = (
            f"{name}: a build was measured at {_size(measured)}, less than the "
            f"{_size(held)} that its content needs; the larger number counts"
        )
        found.append(Caution("memory", said, measured, held))
    return found


def _size(value: float) -> str:
    return mebibytes(value) if value >= 1 << 20 else f"{value / (1 << 10):,.1f} KiB"
