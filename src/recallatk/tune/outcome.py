"""All that was measured, put together as what tuning found."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from recallatk.core import Caution, Metric
from recallatk.core.judgments import GoalResult, Outcome, Verdict
from recallatk.core.tuned import Tuned
from recallatk.goals import evaluate, parse_goal
from recallatk.goals.budget import Costs
from recallatk.tune.explaining import binding_of, front_of, knee_of, nearest_of, prices_of, worst_segment
from recallatk.tune.grid import grid_seconds
from recallatk.tune.proving import keeps
from recallatk.tune.running_up import runner_up
from recallatk.tune.snippets import snippet
from recallatk.tune.timing import key_of, time_together

if TYPE_CHECKING:
    from collections.abc import Sequence

    from recallatk.core import Mean
    from recallatk.core.tuned import Attempt, Candidate
    from recallatk.tune.halving import Proposal
    from recallatk.tune.proving import Proven
    from recallatk.tune.search import Search
    from recallatk.tune.sides import Side
    from recallatk.tune.timing import Timing
    from recallatk.tune.validating import Validated

# Settings that were asked fewer queries say too little to be on the front.
_FEWEST = 100


def conclude(
    search: Search, held_out: Side, proposals: Sequence[Proposal], proven: Sequence[Proven],
    validated: Validated | None, by: Sequence[str],
) -> Tuned:  # fmt: skip
    """What tuning found: everything that is shown side by side is timed together first."""
    confirmed = validated is not None and validated.confirmed
    choice = validated.candidate if validated is not None and confirmed else None
    second, missing = runner_up(search, proven, validated) if validated and confirmed else (None, "")
    nearest = None if confirmed else nearest_of(search.targets, search.budgets, _distinct(search))
    enough = [each for each in _distinct(search, second, choice) if each.queries >= _FEWEST]
    timing = time_together(search, enough, [choice, second, nearest])
    choice, second, nearest = timing.of(choice), timing.of(second), timing.of(nearest)
    if choice is not None and not keeps(search, choice):
        # It kept its budgets while choosing, and does not in the final timing.
        choice, nearest = None, choice
    met = choice is not None
    measure = search.targets[0].name
    front = front_of(timing.settings, search.prefer, measure)
    builds = [step for key, step in search.journal.steps.items() if key.startswith('["build"')]
    return Tuned(
        targets=tuple(map(str, search.targets)),
        budgets=tuple(map(str, search.budgets)),
        prefer=search.prefer,
        met=met,
        choice=choice,
        validated={} if validated is None else validated.means,
        looks=0 if validated is None else validated.looks,
        nearest=nearest,
        binding=None if met else _binding(search, timing),
        runner_up=second if met else None,
        no_runner_up=None if second or not met else missing,
        front=front,
        knee=knee_of(front, search.prefer, measure),
        prices=prices_of(front, measure, search.prefer),
        worst_segment=None if validated is None else _worst(search, held_out, validated, by),
        attempts=_attempts(search, timing),
        trials=len(_settings(search.attempts)),
        builds=sum("built" in each for each in builds),
        seconds=search.journal.elapsed,
        grid_seconds_estimate=grid_seconds(search, proposals, proven) if proven else None,
        cautions=(*_cautions(search, proven, validated), *timing.cautions),
        snippet=None if choice is None else _snippet(search, choice),
        verdict=_verdict(search, choice or nearest, validated if met else None, confirmed=confirmed),
    )


def _verdict(
    search: Search, candidate: Candidate | None, validated: Validated | None, *, confirmed: bool
) -> Verdict:
    """Every goal, for the choice or for what comes nearest."""
    if candidate is None:
        goals = (*search.targets, *search.budgets)
        return Verdict(tuple(GoalResult(str(each), Outcome.NOT_MEASURED) for each in goals))
    targets = tuple(_beside_held_out(each, validated) for each in candidate.targets)
    if not confirmed and all(each.outcome is Outcome.MET for each in targets):
        why = "the held-out queries do not confirm it"
        targets = tuple(replace(each, outcome=Outcome.UNDECIDED, note=why) for each in targets)
    return Verdict((*targets, *evaluate(search.budgets, Costs(candidate))))


def _beside_held_out(result: GoalResult, validated: Validated | None) -> GoalResult:
    """The outcome on the queries that it was chosen by, with the figure of those that were held out."""
    goal = parse_goal(result.text)
    held = validated.means.get(goal.name) if validated is not None else None
    if held is None or held.value is None:
        return result
    return replace(result, note=f"on the queries it was chosen by; {held.value:.4f} on held-out ones")


def _settings(attempts: Sequence[Attempt]) -> set[tuple[object, ...]]:
    return {(each.engine, each.build, each.search, each.rows) for each in attempts if each.search is not None}


def _attempts(search: Search, timing: Timing) -> tuple[Attempt, ...]:
    """Everything that was tried, with the latencies of the final timing and no others."""
    p95 = {key_of(each): each.latency_ms.get("p95") for each in timing.settings}
    return tuple(
        replace(each, p95_ms=p95.get((each.engine, each.build, each.search)))
        if each.rows == search.shape.rows
        else each
        for each in search.attempts
    )


def _binding(search: Search, timing: Timing) -> str:
    """Why what came nearest is not near enough."""
    known = _distinct(search, *timing.settings)
    return binding_of(search.targets, search.budgets, known, search.attempts)


def _distinct(search: Search, *finally_measured: Candidate | None) -> list[Candidate]:
    """Every setting once: with the numbers of the end if it has some, else with those of most queries."""
    found: dict[tuple[object, ...], Candidate] = {}
    for each in search.measured:
        if key_of(each) not in found or found[key_of(each)].queries <= each.queries:
            found[key_of(each)] = each
    return list((found | {key_of(each): each for each in finally_measured if each is not None}).values())


def _worst(
    search: Search, held_out: Side, validated: Validated, by: Sequence[str]
) -> tuple[str, Mean] | None:
    if not by:
        return None
    answers = validated.answers
    values = np.full(len(held_out), np.nan)
    values[answers.which] = answers.measured
    return worst_segment(values, held_out.columns, by, is_share=search.targets[0].measure.is_share)


def _cautions(search: Search, proven: Sequence[Proven], validated: Validated | None) -> list[Caution]:
    found = []
    for each in proven:
        if each.chosen.violated:
            name = each.candidate.engine
            found.append(
                Caution("monotonicity", f"{name}: a setting failed though one of less effort had passed")
            )
    found += _about_memory(search)
    if validated is not None and validated.looks > 1:
        said = f"the held-out queries were looked at {validated.looks} times"
        found.append(Caution("looks", said, validated.looks, 1))
    if search.over():
        found.append(Caution("time", "time was over before everything had been tried", None, search.seconds))
    return found


def _about_memory(search: Search) -> list[Caution]:
    """Where prediction and measurement of memory contradict each other."""
    found = []
    for name, (predicted, taken) in search.contradicted.items():
        said = f"{name}: a build was predicted to take {_size(predicted)} and took {_size(taken)}"
        found.append(Caution("memory", said, taken, predicted))
    for name, (measured, held) in search.corrected.items():
        said = (
            f"{name}: a build was measured to take {_size(measured)}, less than the "
            f"{_size(held)} that it has to hold, which is what counts here"
        )
        found.append(Caution("memory", said, measured, held))
    return found


def _size(value: float) -> str:
    return f"{value / (1 << 20):,.1f} MiB" if value >= 1 << 20 else f"{value / (1 << 10):,.1f} KiB"


def _snippet(search: Search, choice: Candidate) -> str:
    metric = Metric(search.side.dataset.metric)
    return snippet(choice.engine, metric, dict(choice.build), dict(choice.search), search.shape.k)
