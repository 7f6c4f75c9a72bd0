"""Screening: builds on a sample of the corpus, ranked by cost.

Recall on a sample can be higher or lower than on the full corpus. Screening only filters; it never decides.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from recallatk.adapters.memory_model import content, grown
from recallatk.bench.settings.grid import violations
from recallatk.bench.supervisor import TrialFailed
from recallatk.goals.decisions import broken_budget, means_reach
from recallatk.tuning.query_split import Side, part_of
from recallatk.tuning.search_space import Builds, Ladder, ladders
from recallatk.tuning.study import Log, Study, Trail

if TYPE_CHECKING:
    from recallatk.adapters import Engine
    from recallatk.bench.messages import Built
    from recallatk.tuning.index_client import IndexClient

LEAST_ROWS, SHARE = 2_000, 0.05
# A sample larger than this share of the corpus saves nothing.
_MOST_OF_THE_WHOLE = 0.5
# The second sample, for the few builds that did best on the first.
_LARGER, _LARGER_SHARE, _FEW, _NEAR = 4, 0.2, 3, 1.5
# An engine gets this many times longer until one of its builds reaches the target.
_PATIENCE = 6
# Background load only adds latency, so the fastest of several repeats counts.
_TURNS = 3
# Interleaved rounds on the larger sample; maximum milliseconds and queries of one block.
_ROUNDS, _TURN_MS, _TURN_QUERIES = 5, 500.0, 1_000
# Predictions from a sample are off by about this factor.
MARGIN = 1.3
_MOST_BUILDS = 6
# An engine whose usual build costs this many times the best so far gets no more builds.
_LOST = 2.0
REFUSED = "refused"
"""The verdict on a build that cannot answer every query because of its filter."""


@dataclass(frozen=True)
class Proposal:
    """A build worth a full build, with its expected cost."""

    engine: type[Engine]
    build: dict[str, Any]
    cost: float
    """The preferred cost on the sample, to compare with other proposals."""
    others: tuple[dict[str, Any], ...]
    """Values of the fixed search knobs of a ladder, cheapest first."""
    seconds: float | None
    """Predicted seconds of the full build."""
    memory_bytes: float | None
    median_ms: float
    """Median latency on the sample, at the lowest effort that reaches the targets there."""
    search: dict[str, Any]
    """Search parameters of that effort."""


class _Reached(NamedTuple):
    """The lowest effort of one ladder that reaches the targets on the sample."""

    cost: float
    search: dict[str, Any]
    median_ms: float
    others: dict[str, Any]


def part_rows(rows: int) -> int:
    """Rows of the first sample; all rows of a small corpus."""
    count = max(LEAST_ROWS, int(rows * SHARE))
    return count if count < rows * _MOST_OF_THE_WHOLE else rows


def larger_rows(rows: int) -> list[int]:
    """Rows of the second sample; empty if it would not be much larger than the first."""
    first = part_rows(rows)
    count = min(_LARGER * first, int(rows * _LARGER_SHARE))
    return [count] if count >= 2 * first else []


def parts_of(side: Side, depth: int, seed: int) -> list[Side]:
    """The side on one or two samples of its corpus, with their ground truth."""
    rows = side.dataset.corpus.rows
    return [part_of(side, count, depth, seed) for count in (part_rows(rows), *larger_rows(rows))]


def screen(study: Study) -> tuple[list[Proposal], Trail]:
    """Try builds of every engine on the sample, and rank all that reach the targets there."""
    log = Log(study, Trail())
    found: list[Proposal] = []
    for engine in study.engines:
        best = min((each.cost for each in found), default=None)
        found += _of_engine(study, log, engine, best)
    return _promoted(study, log, _ranked(found)), log.trail


def _ranked(proposals: list[Proposal]) -> list[Proposal]:
    return sorted(proposals, key=lambda each: (each.cost, each.engine.name, repr(each.build)))


def _of_engine(study: Study, log: Log, engine: type[Engine], best: float | None) -> list[Proposal]:
    builds = Builds(engine, study.shape, study.seed)
    found: list[Proposal] = []
    began = study.elapsed
    for number in range(_MOST_BUILDS):
        # An engine with slow builds gets fewer of them.
        sure = 1 if study.seconds is not None else 2
        patience = study.screen_seconds * (1 if found else _PATIENCE)
        if number >= sure and study.elapsed - began > patience:
            break
        asked = builds.ask() if not study.over() else None
        if asked is None:
            break
        trial, build = asked
        proposal = _tried(study, log, engine, build, study.part, best)
        builds.tell(trial, None if proposal is None else proposal.cost)
        if proposal is not None:
            found.append(proposal)
        if number == 0 and best is not None and proposal is not None and proposal.cost > _LOST * best:
            break
    return found


def _promoted(study: Study, log: Log, ranked: list[Proposal]) -> list[Proposal]:
    """Rank the best few again on the larger sample; the others follow, with their cost scaled up."""
    if study.larger is None or len(ranked) < 2 or study.over():
        return ranked
    few = _best_few(ranked)
    again = [_tried(study, log, each.engine, each.build, study.larger) for each in few]
    pairs = [(new, old) for new, old in zip(again, few, strict=True) if new is not None and old.cost]
    if not pairs:
        return ranked
    timed = _in_turns(study, study.larger, [new for new, _ in pairs])
    pairs = [(new, old) for new, (_, old) in zip(timed, pairs, strict=True)]
    dearer = float(np.median([new.cost / old.cost for new, old in pairs]))
    slower = float(np.median([new.median_ms / old.median_ms for new, old in pairs]))
    rest = [
        replace(each, cost=each.cost * dearer, median_ms=each.median_ms * slower)
        for each in ranked
        if each not in few
    ]
    # The others were measured less precisely, so they come last.
    return [*_ranked([new for new, _ in pairs]), *_ranked(rest)]


def _best_few(ranked: list[Proposal]) -> list[Proposal]:
    """The best of each engine, because engines differ by more than builds of one engine."""
    best = {each.engine.name: each for each in reversed(ranked)}
    few = [each for each in _ranked(list(best.values()))[:_FEW] if each.cost <= _NEAR * ranked[0].cost]
    return few if len(few) > 1 else ranked[:2]


def _in_turns(study: Study, part: Side, proposals: list[Proposal]) -> list[Proposal]:
    """The proposals with latencies from interleaved blocks, because machine speed drifts."""
    names = {each.engine.name for each in proposals}
    # A worker holds one index, so two builds of one engine would be rebuilt in every round.
    if study.prefer in ("memory", "build") or len(names) < max(2, len(proposals)):
        return proposals
    slowest = max(each.median_ms for each in proposals)
    which = part.order(study.seed)[: max(1, min(_TURN_QUERIES, int(_TURN_MS / slowest)))]
    found: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(_ROUNDS):
        for place in np.random.default_rng([study.seed, turn]).permutation(len(proposals)).tolist():
            each = proposals[place]
            if study.over():
                return proposals
            index = study.index(each.engine, each.build, part)
            try:
                answers = index.ask(
                    part, study.targets, each.search, which, warm=True, purpose=f"turn {turn}"
                )
            except TrialFailed:
                return proposals
            found[each.engine.name].append(float(np.median(answers.latencies_ns)) / 1e6)
    best = [min(found[each.engine.name]) for each in proposals]
    return [replace(each, cost=ms, median_ms=ms) for each, ms in zip(proposals, best, strict=True)]


def _tried(
    study: Study, log: Log, engine: type[Engine], build: dict[str, Any], part: Side, best: float | None = None
) -> Proposal | None:
    """Build on a sample and search it; None if that fails or is not promising."""
    began, rows = study.elapsed, part.dataset.corpus.rows
    reason = _impossible(study, engine, build, rows)
    if reason is not None:
        log.note(engine, build, "skipped", reason, rows=rows, began=began)
        return None
    index = study.index(engine, build, part)
    index.seconds_left = study.left()
    try:
        built = index.built()
        whole = _whole(study, index, built)
        if built.refused is not None:
            log.note(engine, build, REFUSED, built.refused, rows=rows, began=began)
            return None
        reason = _too_costly(study, whole)
        reached = [] if reason else _all_reached(study, log, index, engine, built, part, best)
    except TrialFailed as problem:
        log.note(engine, build, "crashed", str(problem), rows=rows, began=began)
        return None
    if not reached:
        why = reason or "misses the target at full effort on the sample"
        log.note(engine, build, "skipped" if reason else "failed", why, rows=rows, began=began)
        return None
    log.note(engine, build, "passed", "reaches the target on the sample", rows=rows, began=began)
    ranked = sorted(reached, key=lambda each: each.cost)
    others = tuple(each.others for each in ranked)
    cost, setting, median_ms, _ = ranked[0]
    return Proposal(engine, build, cost, others, whole["build"], whole["memory"], median_ms, setting)


def _impossible(study: Study, engine: type[Engine], build: dict[str, Any], rows: int) -> str | None:
    """Reason to skip a build: its constraints on a sample, or a budget that its content exceeds."""
    if any(violations(engine, {**replace(study.shape, rows=rows).known, **build})):
        return "its constraints do not allow a build on a sample"
    known = content(engine.name, build, study.shape.dimension, study.metric)
    held = None if known is None else known.of(study.shape.rows)
    broken = broken_budget(study.budgets, {"memory": held, "size": held}, MARGIN)
    if broken is None:
        return None
    budget, value = broken
    return f"{budget}: the full index holds about {budget.shown(value)}"


def _whole(study: Study, index: IndexClient, built: Built) -> dict[str, float | None]:
    """Predicted costs of the full build, from those on the sample."""
    rows = study.shape.rows
    known = content(index.engine, index.build, study.shape.dimension, study.metric)
    bytes_of = {"memory": built.memory_bytes, "size": built.size_bytes}
    found = {
        name: None if value is None else grown(value, index.rows, rows, known)
        for name, value in bytes_of.items()
    }
    return {**found, "build": None if built.seconds is None else built.seconds * rows / index.rows}


def _too_costly(study: Study, whole: dict[str, float | None]) -> str | None:
    """The budget that the full build is predicted to exceed."""
    broken = broken_budget(study.budgets, whole, MARGIN)
    if broken is None:
        return None
    budget, value = broken
    return f"{budget}: the full build is predicted to take {budget.spelled(value)}"


def _all_reached(
    study: Study,
    log: Log,
    index: IndexClient,
    engine: type[Engine],
    built: Built,
    part: Side,
    best: float | None,
) -> list[_Reached]:
    """The lowest effort of each ladder that reaches the targets on the sample."""
    found = []
    shape = replace(study.shape, rows=index.rows)
    for ladder in ladders(engine, index.build, shape):
        effort = _least_reaching(study, log, index, ladder, part)
        if effort is not None:
            setting = ladder.search(effort)
            median = min(_median_ms(study, index, setting, part, turn) for turn in range(_TURNS))
            cost = {"memory": built.memory_bytes, "build": built.seconds}.get(study.prefer, median)
            found.append(_Reached(median if cost is None else float(cost), setting, median, ladder.others))
            if best is not None and found[-1].cost > _LOST * best:
                break
    return found


def _least_reaching(study: Study, log: Log, index: IndexClient, ladder: Ladder, part: Side) -> float | None:
    """The lowest effort whose means reach the thresholds on the sample."""
    which = part.order(study.seed)
    asked: dict[float, bool] = {}

    def reaches(effort: float) -> bool:
        if effort not in asked:
            began, setting = study.elapsed, ladder.search(effort)
            answers = index.ask(part, study.targets, setting, which)
            counts = None if answers.weights is None else [answers.weights] * len(study.targets)
            asked[effort] = means_reach(study.targets, answers.values, counts)
            verdict, why = ("passed", "reaches") if asked[effort] else ("failed", "misses")
            log.note(
                ladder.engine, index.build, verdict, f"{why} the target on the sample",
                search=setting, rows=index.rows, began=began,
            )  # fmt: skip
        return asked[effort]

    low, high = ladder.least, ladder.generous
    while not reaches(high):
        if high >= ladder.most:
            high = next((each for each in ladder.lower(high) if reaches(each)), 0.0)
            if not high:
                return None
            break
        high = min(ladder.most, high * 4)
    if low >= high or reaches(low):
        return low
    while (middle := ladder.between(low, high)) is not None:
        low, high = (low, middle) if reaches(middle) else (middle, high)
    return high


def _median_ms(study: Study, index: IndexClient, setting: dict[str, Any], part: Side, turn: int) -> float:
    which = part.order(study.seed)
    answers = index.ask(part, study.targets, setting, which, warm=turn == 0, purpose=f"cost {turn}")
    return float(np.median(answers.latencies_ns)) / 1e6
