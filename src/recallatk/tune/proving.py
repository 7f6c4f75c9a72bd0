"""Whole builds in the order of their promise: the cheapest proven effort of each, and when to stop."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.analysis.betting import SequentialVerdict
from recallatk.analysis.latency import percentile
from recallatk.bench.conversation import TrialFailed
from recallatk.core.tuned import Candidate
from recallatk.goals.evaluation import target_result
from recallatk.tune.asking import Index
from recallatk.tune.choosing import Chosen, Look, OutOfTime, Prober, choose, rescued
from recallatk.tune.explaining import cost_of
from recallatk.tune.grid import grid_seconds
from recallatk.tune.halving import MARGIN
from recallatk.tune.predicting import at_least, content, contradicts
from recallatk.tune.space import Ladder
from recallatk.tune.thorough import more_thorough

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from recallatk.bench.events import Built
    from recallatk.goals import Target
    from recallatk.tune.halving import Proposal
    from recallatk.tune.search import Search

ALPHA = 0.05
MOST_BUILDS = 3
# Where nothing could be proven, it goes on a little longer.
_MOST_FAILED = 6
_WORSE = 1.10
# The share of a grid's time that a second or third build may bring tuning to.
_OF_THE_GRID = 0.08
# Other values of the effort knobs that stay, tried where the first does not reach the target.
_LADDERS = 2
_CURVE, _CURVE_QUERIES = 6, 500
# A setting with clearly more effort has so many times as much.
SAFER = 1.2


@dataclass(eq=False)
class Proven:
    """One whole build with the setting that it was proven for."""

    proposal: Proposal
    index: Index
    built: Built
    chosen: Chosen
    candidate: Candidate
    safer: Candidate | None = None
    """The same build with more effort, where that was measured beside it."""


def alpha_of(ladder: int) -> float:
    """The error that the bound of one ladder may make: the whole for the first, half for the second, and on.

    Together these are at most twice the whole, and of two settings that are wrongly thought good about one
    looks good on the held-out queries too: what is recommended and confirmed is wrong no more often than
    the whole says. The efforts of one ladder need no shares of their own (see `choosing.standing`).
    """
    return ALPHA * 0.5**ladder


def prove(search: Search, proposals: Sequence[Proposal]) -> list[Proven]:
    """Build and prove until the next could not win, or there has been enough."""
    found: list[Proven] = []
    waiting: list[Proposal] = list(proposals)
    thorough: Proposal | None = None
    chains = builds = 0
    while waiting:
        proposal = waiting.pop(0)
        reason = _cannot_fit(search, proposal)
        if reason is not None:
            began = search.journal.elapsed
            search.note(proposal.engine, proposal.build, None, search.shape.rows, "skipped", reason, began)
            continue
        why = _enough(search, proposals, proposal, found, builds)
        if why is not None:
            # A build that takes longer says nothing of those that take less.
            given_up, waiting = ([proposal], waiting) if proposal is thorough else ([proposal, *waiting], [])
            for other in given_up:
                began = search.journal.elapsed
                search.note(other.engine, other.build, None, search.shape.rows, "skipped", why, began)
            continue
        proven, tried = _proved(search, proposal, chains)
        chains, builds = chains + tried, builds + 1
        if proven is not None:
            found.append(proven)
            proven.index.kept = _has_room(proven.built)
            search.best = min((each.candidate for each in found), key=lambda each: cost(search, each))
            if len(found) == 1 and (thorough := more_thorough(search, proven)) is not None:
                waiting = [thorough, *waiting]
    return sorted(found, key=lambda each: cost(search, each.candidate))


def _has_room(built: Built) -> bool:
    """Whether the index can stay in memory beside another of its size; if not, it is built again."""
    import psutil

    return bool((built.memory_bytes or 0) * 2 < psutil.virtual_memory().available)


def cost(search: Search, candidate: Candidate) -> float:
    """By what is preferred; what was not measured is dearest, and what breaks a budget dearer still."""
    found = cost_of(candidate, search.prefer)
    if found is None:
        found = candidate.latency_ms.get("p50")
    return (1e18 if found is None else found) * (1 if keeps(search, candidate) else 1e6)


def keeps(search: Search, candidate: Candidate) -> bool:
    """Whether no budget is known to be broken."""
    return not any(each.within(each.of(candidate)) is False for each in search.budgets)


def _enough(
    search: Search, proposals: Sequence[Proposal], proposal: Proposal, found: list[Proven], builds: int
) -> str | None:
    if search.over():
        return "no time was left"
    left = search.left()
    if left is not None and proposal.seconds is not None and proposal.seconds > left and found:
        return "no time was left for its build"
    if not found:
        return f"{_MOST_FAILED} builds had failed before" if builds >= _MOST_FAILED else None
    if builds >= MOST_BUILDS:
        return f"{MOST_BUILDS} whole builds were tried before"
    if search.seconds is None and proposal.seconds is not None:
        whole = grid_seconds(search, proposals, found)
        if search.journal.elapsed + proposal.seconds > _OF_THE_GRID * whole:
            return "another build would take more than tuning is to save"
    best = min(found, key=lambda each: cost(search, each.candidate))
    if not keeps(search, best.candidate):
        return None
    # What the whole cost those that were proven, over what the part had.
    scale = min(cost(search, each.candidate) / each.proposal.cost for each in found if each.proposal.cost)
    worse = proposal.cost * scale / cost(search, best.candidate)
    if worse > _WORSE:
        return f"predicted to cost {worse:.2f} times the best that is proven"
    return None


def _proved(search: Search, proposal: Proposal, chains: int) -> tuple[Proven | None, int]:
    engine, build, began = proposal.engine, proposal.build, search.journal.elapsed
    index = Index(search.room, search.journal, engine.name, build, search.shape.rows)
    search.indexes[engine.name, tuple(build.items())] = index
    index.seconds_left = search.left()
    search.say("build", engine.name)
    try:
        built = _checked(search, proposal, index.built())
        broken = _broken(search, built)
        if broken is not None:
            search.note(engine, build, None, search.shape.rows, "over budget", broken, began)
            return None, 0
        said = "" if built.seconds is None else f"built in {built.seconds:.1f} s"
        search.note(engine, build, None, search.shape.rows, "passed", said, began)
        began = search.journal.elapsed
        for tried, others in enumerate(proposal.others[:_LADDERS], 1):
            chosen = _chosen(search, index, proposal, others, alpha_of(chains + tried - 1))
            candidates = _noted(search, proposal, built, chosen, began)
            if chosen.look is not None:
                return Proven(proposal, index, built, chosen, candidates[chosen.look.effort]), tried
            began = search.journal.elapsed
    except TrialFailed as problem:
        verdict = "skipped" if problem.kind == "time limit" else "crashed"
        search.note(engine, build, None, search.shape.rows, verdict, str(problem), began)
        return None, 1
    return None, len(proposal.others[:_LADDERS])


def _chosen(search: Search, index: Index, proposal: Proposal, others: dict[str, Any], alpha: float) -> Chosen:
    ladder = Ladder(proposal.engine, proposal.build, search.shape, others)
    prober = Prober(index, ladder, search.side, search.targets, alpha, search.seed, search.over)
    try:
        return choose(prober)
    except OutOfTime:
        return rescued(prober)


def _checked(search: Search, proposal: Proposal, built: Built) -> Built:
    """The build with memory that can be believed, and what it says of predictions."""
    name, taken, predicted = proposal.engine.name, built.memory_bytes, proposal.memory_bytes
    if taken is not None and predicted and taken > predicted and contradicts(taken, predicted):
        search.contradicted[name] = (predicted, taken)
    known = content(name, proposal.build, search.shape.dimension, search.metric)
    believed = at_least(taken, known, search.shape.rows)
    if taken is not None and believed is not None and believed != taken:
        search.corrected[name] = (taken, believed)
    return replace(built, memory_bytes=believed)


def _cannot_fit(search: Search, proposal: Proposal) -> str | None:
    """Whether what an engine's last build took beyond its prediction says that this one cannot fit."""
    predicted, taken = search.contradicted.get(proposal.engine.name, (None, None))
    if predicted is None or taken is None or proposal.memory_bytes is None:
        return None
    expected = proposal.memory_bytes * taken / predicted
    for budget in search.budgets:
        if budget.name == "memory" and expected > budget.limit * MARGIN:
            return f"{budget}: by what its last build took, it would take {budget.spelled(expected)}"
    return None


def _broken(search: Search, built: Built) -> str | None:
    taken = {"memory": built.memory_bytes, "size": built.size_bytes, "build": built.seconds}
    for budget in search.budgets:
        value = taken.get(budget.name)
        if value is not None and budget.within(value) is False:
            return f"{budget}: it took {budget.spelled(value)}"
    return None


def _noted(
    search: Search, proposal: Proposal, built: Built, chosen: Chosen, began: float
) -> dict[float, Candidate]:
    """Every setting that was asked, as a candidate and as an attempt."""
    found = {look.effort: candidate_of(search.targets, proposal, built, look) for look in chosen.looks}
    search.measured += found.values()
    note_looks(search, proposal, chosen.looks, began, chosen.look)
    if chosen.look is None:
        why = "full effort misses the target: the build, or what it keeps of the vectors, is the limit"
        rows, start = search.shape.rows, search.journal.elapsed
        search.note(proposal.engine, proposal.build, None, rows, "failed", why, start)
    return found


def note_looks(
    search: Search, proposal: Proposal, looks: Sequence[Look], began: float, chosen: Look | None = None
) -> None:
    """Write down every setting that was asked and is not written down yet."""
    rows = search.shape.rows
    for look in looks:
        if not look.noted:
            verdict, why = _words(look, chosen)
            bound = _in_units(search.targets[0], look.bound)
            search.note(proposal.engine, proposal.build, look.search, rows, verdict, why, began, bound)
            began, look.noted = search.journal.elapsed, True


def _words(look: Look, chosen: Look | None) -> tuple[str, str]:
    if look is chosen:
        return "passed", "the least effort that clears every target"
    if look.verdict is SequentialVerdict.UNDECIDED and look.whole is not None:
        return "undecided", "the bound over all queries does not clear the target"
    name = {
        SequentialVerdict.PASS: "passed",
        SequentialVerdict.FAIL: "failed",
        SequentialVerdict.UNDECIDED: "undecided",
    }[look.verdict]
    return name, f"after {look.asked} queries"


def candidate_of(
    targets: Sequence[Target], proposal: Proposal, built: Built, look: Look,
    latencies: NDArray[np.int64] | None = None,
) -> Candidate:  # fmt: skip
    """A setting with what it was measured to do."""
    candidate = Candidate(
        engine=proposal.engine.name,
        build=tuple(proposal.build.items()),
        search=tuple(look.search.items()),
        measures={target.name: target.mean(look.values(n)) for n, target in enumerate(targets)},
        bound=_in_units(targets[0], look.bound),
        memory_bytes=built.memory_bytes,
        size_bytes=built.size_bytes,
        build_seconds=built.seconds,
        version=built.version,
        queries=look.asked,
        targets=tuple(target_result(target, look.raw(n)) for n, target in enumerate(targets)),
    )
    return timed(candidate, look.latencies_ns if latencies is None else latencies)


def _in_units(target: Target, bound: float | None) -> float | None:
    """The bound as people say it: of a loss, what is lost at the most."""
    return bound if bound is None or not target.relevance else 1 - 2 * bound


def timed(candidate: Candidate, latencies_ns: NDArray[np.int64]) -> Candidate:
    """The same with these latencies."""
    shares = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p99.9": 0.999}
    latency = {name: percentile(latencies_ns, share) for name, share in shares.items()}
    mean = float(latencies_ns.mean()) if len(latencies_ns) else 0.0
    return replace(candidate, latency_ms=latency, qps=1e9 / mean if mean else None)


def curve(search: Search, proven: Proven) -> None:
    """Some more settings of the build that was chosen, so that what recall costs can be seen."""
    prober = proven.chosen.prober
    look = proven.chosen.look
    if look is None or search.over() or prober.ladder.knob is None:
        return
    low, high = max(prober.ladder.least, look.effort / 4), min(prober.ladder.most, look.effort * 4)
    which = prober.order[:_CURVE_QUERIES]
    for effort in np.geomspace(low, high, _CURVE).tolist():
        began, setting = search.journal.elapsed, Look(effort, prober.ladder.search(effort))
        if setting.search == look.search or not prober.ladder.allows(effort):
            continue
        try:
            setting.whole = proven.index.ask(
                search.side, search.targets, setting.search, which, warm=True, purpose="curve"
            )
        except TrialFailed:
            continue
        search.measured.append(candidate_of(search.targets, proven.proposal, proven.built, setting))
        note_looks(search, proven.proposal, [setting], began)
