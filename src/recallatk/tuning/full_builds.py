"""Whole builds in the order of their promise: the cheapest proven effort of each, and when to stop."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.adapters.memory_model import at_least, content, contradicts
from recallatk.analysis.betting import SequentialVerdict
from recallatk.bench.settings.grid import violations
from recallatk.bench.supervisor import TrialFailed
from recallatk.goals.decisions import broken_budget
from recallatk.tuning.candidates import broken_by, candidate_of, in_units, rank_cost
from recallatk.tuning.effort_search import Chosen, Look, least_effort
from recallatk.tuning.screening import MARGIN, Proposal
from recallatk.tuning.search_space import Ladder, usual_build
from recallatk.tuning.study import Log, Study, Trail

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from recallatk.bench.messages import Built
    from recallatk.core.tuned import Candidate
    from recallatk.tuning.index_client import IndexClient

ALPHA = 0.05
MOST_BUILDS = 3
# Until a build is proven, this many are tried.
_MOST_FAILED = 6
_WORSE = 1.10
# The share of a grid's time that a second or third build may bring the tuning to.
_OF_THE_GRID = 0.08
# Values of the fixed search knobs to try, the second where the first does not reach the target.
_LADDERS = 2
# This many times the usual search effort calls for this many times the build effort.
_FAR_MORE, _TIMES = 2.0, 2
# The grid that somebody would measure instead: builds of each engine and efforts of each build.
GRID_BUILDS, GRID_EFFORTS = 6, 12


@dataclass(frozen=True, eq=False)
class Proven:
    """One whole build with the setting that was proven for it."""

    proposal: Proposal
    index: IndexClient
    built: Built
    chosen: Chosen
    candidate: Candidate
    safer: Candidate | None = None
    """The same build with more effort, where that was measured."""


@dataclass(frozen=True, eq=False)
class FullBuild:
    """One whole build that was tried."""

    proposal: Proposal
    index: IndexClient
    ladders: int = 0
    """How many ladders were searched; each takes its share of the error."""
    proven: Proven | None = None
    exceeded: tuple[float, float] | None = None
    """Memory as predicted and as measured, where the build took more than the two can differ by."""
    corrected: tuple[int, int] | None = None
    """Memory as measured and as believed, where the process reported less than the index holds."""


def alpha_of(ladder: int) -> float:
    """The error that the bound of one ladder may make: the whole for the first, half for the second, and on.

    Together these are at most twice the whole. Of two settings that wrongly seem good, about one seems good
    on the held-out queries too: a recommended and confirmed setting is wrong no more often than the whole
    says. The efforts of one ladder need no shares of their own (see `effort_search`).
    """
    return ALPHA * 0.5**ladder


def build_fully(study: Study, proposals: Sequence[Proposal], trail: Trail) -> tuple[list[FullBuild], Trail]:
    """Build and prove until the next build could not win, or enough were tried."""
    log, tried = Log(study, trail), list[FullBuild]()
    waiting: list[Proposal] = list(proposals)
    thorough: Proposal | None = None
    while waiting:
        proposal = waiting.pop(0)
        reason = _cannot_fit(study, proposal, tried)
        if reason is not None:
            log.note(proposal.engine, proposal.build, "skipped", reason)
            continue
        reason = _enough(study, proposals, proposal, tried)
        if reason is not None:
            # That a slower build would take too long says nothing about faster ones.
            given_up, waiting = ([proposal], waiting) if proposal is thorough else ([proposal, *waiting], [])
            for other in given_up:
                log.note(other.engine, other.build, "skipped", reason)
            continue
        new = _full_build(study, log, proposal, sum(each.ladders for each in tried))
        tried.append(new)
        if new.proven is not None:
            new.index.kept = _has_room(new.proven.built)
            found = by_cost(study, tried)
            log.best = found[0].candidate
            if len(found) == 1 and (thorough := _more_thorough(study, new.proven)) is not None:
                waiting = [thorough, *waiting]
    return tried, log.trail


def by_cost(study: Study, builds: Iterable[FullBuild]) -> list[Proven]:
    """The proven builds, the cheapest first."""
    found = [each.proven for each in builds if each.proven is not None]
    return sorted(found, key=lambda each: rank_cost(study, each.candidate))


def _has_room(built: Built) -> bool:
    """Whether the index can stay in memory beside another of its size; if not, it is built again."""
    import psutil

    return bool((built.memory_bytes or 0) * 2 < psutil.virtual_memory().available)


def _enough(
    study: Study, proposals: Sequence[Proposal], proposal: Proposal, tried: Sequence[FullBuild]
) -> str | None:
    """Why a proposal gets no whole build; None where it gets one."""
    found = by_cost(study, tried)
    if study.over():
        return "no time was left"
    left = study.left()
    if left is not None and proposal.seconds is not None and proposal.seconds > left and found:
        return "no time was left for its build"
    if not found:
        return f"{_MOST_FAILED} builds had failed before" if len(tried) >= _MOST_FAILED else None
    if len(tried) >= MOST_BUILDS:
        return f"{MOST_BUILDS} whole builds were tried before"
    if study.seconds is None and proposal.seconds is not None:
        whole = grid_seconds(study, proposals, found)
        if study.elapsed + proposal.seconds > _OF_THE_GRID * whole:
            return "another build would take more than tuning is to save"
    best = found[0].candidate
    if broken_by(study.budgets, best) is not None:
        return None
    # The cost on the whole over the cost on the part, of the builds that were proven.
    scale = min(rank_cost(study, each.candidate) / each.proposal.cost for each in found if each.proposal.cost)
    worse = proposal.cost * scale / rank_cost(study, best)
    return f"predicted to cost {worse:.2f} times the best that is proven" if worse > _WORSE else None


def _cannot_fit(study: Study, proposal: Proposal, tried: Sequence[FullBuild]) -> str | None:
    """Why a build cannot fit, by how far the engine's last build exceeded its prediction."""
    name = proposal.engine.name
    known = [each.exceeded for each in tried if each.exceeded and each.proposal.engine.name == name]
    if not known or proposal.memory_bytes is None:
        return None
    predicted, taken = known[-1]
    broken = broken_budget(study.budgets, {"memory": proposal.memory_bytes * taken / predicted}, MARGIN)
    if broken is None:
        return None
    budget, expected = broken
    return f"{budget}: by what its last build took, it would take {budget.spelled(expected)}"


def _full_build(study: Study, log: Log, proposal: Proposal, ladders: int) -> FullBuild:
    began = study.elapsed
    index = study.index(proposal.engine, proposal.build)
    index.seconds_left = study.left()
    log.say("build", proposal.engine.name)
    try:
        built, tried = _with_memory(study, FullBuild(proposal, index), index.built())
    except TrialFailed as problem:
        return _failed(log, FullBuild(proposal, index), problem, began)
    costs = {"memory": built.memory_bytes, "size": built.size_bytes, "build": built.seconds}
    broken = broken_budget(study.budgets, costs)
    if broken is not None:
        why = f"{broken[0]}: it took {broken[0].spelled(broken[1])}"
        log.note(proposal.engine, proposal.build, "over budget", why, began=began)
        return tried
    said = "" if built.seconds is None else f"built in {built.seconds:.1f} s"
    log.note(proposal.engine, proposal.build, "passed", said, began=began)
    return _proved(study, log, tried, built, ladders)


def _failed(log: Log, tried: FullBuild, problem: TrialFailed, began: float) -> FullBuild:
    verdict = "skipped" if problem.kind == "time limit" else "crashed"
    log.note(tried.proposal.engine, tried.proposal.build, verdict, str(problem), began=began)
    return replace(tried, ladders=1)


def _with_memory(study: Study, tried: FullBuild, built: Built) -> tuple[Built, FullBuild]:
    """The build with memory that can be believed, and where it contradicts the prediction."""
    proposal, taken = tried.proposal, built.memory_bytes
    predicted = proposal.memory_bytes
    if taken is not None and predicted and taken > predicted and contradicts(taken, predicted):
        tried = replace(tried, exceeded=(predicted, taken))
    known = content(proposal.engine.name, proposal.build, study.shape.dimension, study.metric)
    believed = at_least(taken, known, study.shape.rows)
    if taken is not None and believed is not None and believed != taken:
        tried = replace(tried, corrected=(taken, believed))
    return replace(built, memory_bytes=believed), tried


def _proved(study: Study, log: Log, tried: FullBuild, built: Built, ladders: int) -> FullBuild:
    """Search one ladder after the other until an effort is proven."""
    proposal, index = tried.proposal, tried.index
    for others in proposal.others[:_LADDERS]:
        began = study.elapsed
        ladder = Ladder(proposal.engine, proposal.build, study.shape, others)
        try:
            chosen = least_effort(study, index, ladder, alpha_of(ladders + tried.ladders))
        except TrialFailed as problem:
            return _failed(log, tried, problem, began)
        tried = replace(tried, ladders=tried.ladders + 1)
        found = {look.effort: candidate_of(study.targets, proposal, built, look) for look in chosen.by_effort}
        log.measured += found.values()
        note_looks(study, log, proposal, chosen.by_effort, began, chosen.look)
        if chosen.look is not None:
            proven = Proven(proposal, index, built, chosen, found[chosen.look.effort])
            return replace(tried, proven=proven)
        why = "full effort misses the target: the build, or what it keeps of the vectors, is the limit"
        log.note(proposal.engine, proposal.build, "failed", why)
    return tried


def note_looks(
    study: Study,
    log: Log,
    proposal: Proposal,
    looks: Iterable[Look],
    began: float,
    chosen: Look | None = None,
) -> None:
    """Log settings that were asked."""
    for look in looks:
        verdict, why = _words(look, chosen)
        bound = in_units(study.targets[0], look.bound)
        log.note(proposal.engine, proposal.build, verdict, why, search=look.search, began=began, bound=bound)
        began = study.elapsed


def _words(look: Look, chosen: Look | None) -> tuple[str, str]:
    if look is chosen:
        return "passed", "the least effort that clears every target"
    if look.verdict is SequentialVerdict.UNDECIDED and look.settled:
        return "undecided", "the bound over all queries does not clear the target"
    name = {
        SequentialVerdict.PASS: "passed",
        SequentialVerdict.FAIL: "failed",
        SequentialVerdict.UNDECIDED: "undecided",
    }[look.verdict]
    return name, f"after {look.asked} queries"


def _more_thorough(study: Study, proven: Proven) -> Proposal | None:
    """The same build with twice the build effort; None where searching is cheap, or it cannot be built.

    A part of the corpus does not show what a careful build is worth: a graph leads astray more often the
    more rows it has.
    """
    proposal, look, knob = proven.proposal, proven.chosen.look, proven.chosen.ladder.knob
    if study.prefer in ("memory", "build") or look is None or knob is None:
        return None
    build = _with_more_effort(study, proposal)
    if look.effort < _FAR_MORE * float(knob.default) or build == proposal.build:
        return None
    taken = proven.built.seconds
    seconds = None if taken is None else taken * _TIMES
    if broken_budget(study.budgets, {"build": seconds}) is not None:
        return None
    return replace(proposal, build=build, seconds=seconds)


def _with_more_effort(study: Study, proposal: Proposal) -> dict[str, Any]:
    """The same build where its effort is twice the usual already, or its constraints forbid more."""
    engine, build = proposal.engine, proposal.build
    usual = usual_build(engine, study.shape)
    more = {
        knob.name: knob.plain(min(knob.high, _TIMES * build[knob.name]))
        for knob in engine.build_knobs
        if knob.effort and build[knob.name] < _TIMES * usual[knob.name]
    }
    found = {**build, **more}
    return build if any(violations(engine, {**study.shape.known, **found})) else found


def grid_seconds(study: Study, proposals: Sequence[Proposal], proven: Sequence[Proven]) -> float:
    """Estimated seconds of a grid over every engine that could reach the target, with all queries."""
    queries = study.pool.dataset.queries.rows
    names = sorted({each.engine.name for each in proposals})
    builds = (_build_seconds(name, proposals, proven) for name in names)
    calls = (_call_seconds(name, proposals, proven) for name in names)
    return sum(
        GRID_BUILDS * (build + GRID_EFFORTS * queries * call)
        for build, call in zip(builds, calls, strict=True)
    )


def _build_seconds(name: str, proposals: Sequence[Proposal], proven: Sequence[Proven]) -> float:
    """Seconds of one build: measured, or predicted from the part and corrected by other measured builds."""
    own = [each.built.seconds or 0.0 for each in proven if each.proposal.engine.name == name]
    if own:
        return float(np.mean(own))
    predicted = [each.seconds for each in proposals if each.engine.name == name and each.seconds]
    if not predicted:
        return 0.0
    ratios = [(each.built.seconds or 0.0) / each.proposal.seconds for each in proven if each.proposal.seconds]
    slower = float(np.median(ratios)) if ratios else 1.0
    # No longer than the longest measured build: not every build time grows with the rows.
    return min(float(np.mean(predicted)) * slower, max(each.built.seconds or 0.0 for each in proven))


def _call_seconds(name: str, proposals: Sequence[Proposal], proven: Sequence[Proven]) -> float:
    """Seconds of one call over all efforts: measured, or scaled by how slow the engine was on the part."""
    own = [each for each in proven if each.proposal.engine.name == name]
    seconds = float(np.mean([_mean_call(each) for each in own or proven]))
    if own:
        return seconds
    on_part = min(each.median_ms for each in proposals if each.engine.name == name)
    return seconds * on_part / float(np.mean([each.proposal.median_ms for each in proven]))


def _mean_call(proven: Proven) -> float:
    """Seconds of a call of one build, over efforts as a grid has them: evenly spaced on the log scale."""
    looks = proven.chosen.by_effort
    # The effort is 0 where there is no effort knob.
    efforts = np.log([max(each.effort, 1e-9) for each in looks])
    calls = np.log([each.latencies_ns.mean() / 1e9 for each in looks])
    steps = np.linspace(efforts[0], efforts[-1], GRID_EFFORTS)
    return float(np.exp(np.interp(steps, efforts, calls)).mean())
