"""Full builds in order of promise: the cheapest proven effort of each, and when to stop."""

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
from recallatk.tuning.screening import MARGIN, REFUSED, Proposal
from recallatk.tuning.search_space import Ladder, usual_build
from recallatk.tuning.study import Log, Study, Trail
from recallatk.units import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from recallatk.bench.messages import Built
    from recallatk.core.tuned import Candidate
    from recallatk.tuning.index_client import IndexClient

ALPHA = 0.05
MOST_BUILDS = 3
# At most this many builds are tried before one is proven.
_MOST_FAILED = 6
_WORSE = 1.10
# Another build must keep the tuning within this share of the grid's time.
_OF_THE_GRID = 0.08
# Values of the fixed search knobs to try; the second only if the first misses the target.
_LADDERS = 2
# If search needs this many times the usual effort, try this many times the build effort.
_FAR_MORE, _TIMES = 2.0, 2
# The grid search to compare with: builds per engine and efforts per build.
GRID_BUILDS, GRID_EFFORTS = 6, 12


@dataclass(frozen=True, eq=False)
class Proven:
    """A full build with its proven setting."""

    proposal: Proposal
    index: IndexClient
    built: Built
    chosen: Chosen
    candidate: Candidate
    safer: Candidate | None = None
    """The same build with more effort, if measured."""


@dataclass(frozen=True, eq=False)
class FullBuild:
    """A full build that was tried."""

    proposal: Proposal
    index: IndexClient
    ladders: int = 0
    """Number of ladders searched; each takes a share of the error probability."""
    proven: Proven | None = None
    exceeded: tuple[float, float] | None = None
    """Predicted and measured memory, if the build exceeded the prediction by more than its tolerance."""
    corrected: tuple[int, int] | None = None
    """Measured and assumed memory, if the process reported less than the index must hold."""


def alpha_of(ladder: int) -> float:
    """Error probability of one ladder's bound: ALPHA for the first, half of it for the second, and so on.

    The sum is at most twice ALPHA. About one in two settings that wrongly pass here also passes on the
    held-out queries, so a confirmed recommendation is wrong with probability at most ALPHA. The efforts of
    one ladder need no shares of their own (see `effort_search`).
    """
    return ALPHA * 0.5**ladder


def build_fully(study: Study, proposals: Sequence[Proposal], trail: Trail) -> tuple[list[FullBuild], Trail]:
    """Build and prove until no further build could win, or enough were tried."""
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
            # If the more thorough build takes too long, faster ones may still fit.
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
    """Whether memory has room for another index of this size; if not, this one is built again later."""
    import psutil

    return bool((built.memory_bytes or 0) * 2 < psutil.virtual_memory().available)


def _enough(
    study: Study, proposals: Sequence[Proposal], proposal: Proposal, tried: Sequence[FullBuild]
) -> str | None:
    """Reason to skip a proposal's full build; None to build it."""
    found = by_cost(study, tried)
    if study.over():
        return "out of time"
    left = study.left()
    if left is not None and proposal.seconds is not None and proposal.seconds > left and found:
        return "not enough time left for its build"
    if not found:
        return f"{_MOST_FAILED} builds failed already" if len(tried) >= _MOST_FAILED else None
    if len(tried) >= MOST_BUILDS:
        return f"{MOST_BUILDS} full builds were tried already"
    if study.seconds is None and proposal.seconds is not None:
        whole = grid_seconds(study, proposals, found)
        if study.elapsed + proposal.seconds > _OF_THE_GRID * whole:
            return "another build would cost more time than tuning should save"
    best = found[0].candidate
    if broken_by(study.budgets, best) is not None:
        return None
    # Cost on the full corpus over cost on the sample, for the proven builds.
    scale = min(rank_cost(study, each.candidate) / each.proposal.cost for each in found if each.proposal.cost)
    worse = proposal.cost * scale / rank_cost(study, best)
    return f"predicted to cost {worse:.2f} times the best proven setting" if worse > _WORSE else None


def _cannot_fit(study: Study, proposal: Proposal, tried: Sequence[FullBuild]) -> str | None:
    """Reason why a build cannot fit, scaled by how far the engine's last build exceeded its prediction."""
    name = proposal.engine.name
    known = [each.exceeded for each in tried if each.exceeded and each.proposal.engine.name == name]
    if not known or proposal.memory_bytes is None:
        return None
    predicted, taken = known[-1]
    broken = broken_budget(study.budgets, {"memory": proposal.memory_bytes * taken / predicted}, MARGIN)
    if broken is None:
        return None
    budget, expected = broken
    return f"{budget}: judging by the engine's last build, it would take {budget.spelled(expected)}"


def _full_build(study: Study, log: Log, proposal: Proposal, ladders: int) -> FullBuild:
    began = study.elapsed
    index = study.index(proposal.engine, proposal.build)
    index.seconds_left = study.left()
    log.say("build", proposal.engine.name)
    try:
        built, tried = _with_memory(study, FullBuild(proposal, index), index.built())
    except TrialFailed as problem:
        return _failed(log, FullBuild(proposal, index), problem, began)
    if built.refused is not None:
        log.note(proposal.engine, proposal.build, REFUSED, built.refused, began=began)
        return tried
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
    """The build with a plausible memory figure, and its contradictions to the prediction."""
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
    """Search one ladder after another until an effort is proven."""
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
        why = "misses the target at full effort: the build or its quantization is the limit"
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
    """Log the settings that were tried."""
    for look in looks:
        verdict, why = _words(look, chosen)
        bound = in_units(study.targets[0], look.bound)
        log.note(proposal.engine, proposal.build, verdict, why, search=look.search, began=began, bound=bound)
        began = study.elapsed


def _words(look: Look, chosen: Look | None) -> tuple[str, str]:
    if look is chosen:
        return "passed", "the lowest effort that meets every target"
    if look.verdict is SequentialVerdict.UNDECIDED and look.settled:
        return "undecided", "the bound over all queries does not meet the target"
    name = {
        SequentialVerdict.PASS: "passed",
        SequentialVerdict.FAIL: "failed",
        SequentialVerdict.UNDECIDED: "undecided",
    }[look.verdict]
    return name, f"after {counted(look.asked, 'query', 'queries')}"


def _more_thorough(study: Study, proven: Proven) -> Proposal | None:
    """The same build with twice the build effort; None if searching is cheap or the build is not allowed.

    A sample does not show the benefit of build effort: searches in a graph get stuck more often the more
    rows it has.
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
    """The build with twice its effort; unchanged at twice the usual effort, or if constraints forbid more."""
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
    """Estimated seconds of a grid search over every engine that could reach the target, with all queries."""
    queries = study.pool.dataset.queries.rows
    names = sorted({each.engine.name for each in proposals})
    builds = (_build_seconds(name, proposals, proven) for name in names)
    calls = (_call_seconds(name, proposals, proven) for name in names)
    return sum(
        GRID_BUILDS * (build + GRID_EFFORTS * queries * call)
        for build, call in zip(builds, calls, strict=True)
    )


def _build_seconds(name: str, proposals: Sequence[Proposal], proven: Sequence[Proven]) -> float:
    """Seconds per build: measured, or predicted from the sample and corrected by other measured builds."""
    own = [each.built.seconds or 0.0 for each in proven if each.proposal.engine.name == name]
    if own:
        return float(np.mean(own))
    predicted = [each.seconds for each in proposals if each.engine.name == name and each.seconds]
    if not predicted:
        return 0.0
    ratios = [(each.built.seconds or 0.0) / each.proposal.seconds for each in proven if each.proposal.seconds]
    slower = float(np.median(ratios)) if ratios else 1.0
    # Cap at the longest measured build, because not every build time grows with the rows.
    return min(float(np.mean(predicted)) * slower, max(each.built.seconds or 0.0 for each in proven))


def _call_seconds(name: str, proposals: Sequence[Proposal], proven: Sequence[Proven]) -> float:
    """Mean seconds per call over all efforts: measured, or scaled by the engine's latency on the sample."""
    own = [each for each in proven if each.proposal.engine.name == name]
    seconds = float(np.mean([_mean_call(each) for each in own or proven]))
    if own:
        return seconds
    on_part = min(each.median_ms for each in proposals if each.engine.name == name)
    return seconds * on_part / float(np.mean([each.proposal.median_ms for each in proven]))


def _mean_call(proven: Proven) -> float:
    """Mean seconds per call of one build, over efforts spaced evenly on the log scale as in a grid."""
    looks = proven.chosen.by_effort
    # Engines without an effort knob have effort 0.
    efforts = np.log([max(each.effort, 1e-9) for each in looks])
    calls = np.log([each.latencies_ns.mean() / 1e9 for each in looks])
    steps = np.linspace(efforts[0], efforts[-1], GRID_EFFORTS)
    return float(np.exp(np.interp(steps, efforts, calls)).mean())
