"""Builds on a part of the corpus: what they seem to cost there says which are worth a whole build.

Recall on a part is not recall on the whole, in either direction. This is a filter and never a verdict.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.bench.settings.grid import violations
from recallatk.bench.supervisor import TrialFailed
from recallatk.core.tuned import Attempt
from recallatk.tune.index_client import IndexClient
from recallatk.tune.predicting import content, grown
from recallatk.tune.space import Builds, Ladder, Shape, ladders

if TYPE_CHECKING:
    from collections.abc import Sequence

    from recallatk.bench.messages import Built
    from recallatk.engines import Engine
    from recallatk.tune.search import Search
    from recallatk.tune.sides import Side

LEAST_ROWS, SHARE = 2_000, 0.05
# A part that is more than this of the whole saves nothing.
_MOST_OF_THE_WHOLE = 0.5
# The second part, for the few that did best on the first.
_LARGER, _LARGER_SHARE, _FEW, _NEAR = 4, 0.2, 3, 1.5
# While none of its builds reached the target, an engine gets so many times as long.
_PATIENCE = 6
# What else a machine does can only make a turn slower.
_TURNS = 3
# How often the few take turns on the larger part, and for how long and with how many queries at most.
_ROUNDS, _TURN_MS, _TURN_QUERIES = 5, 500.0, 1_000
# Predictions from a part are off by about this factor.
MARGIN = 1.3
_MOST_BUILDS = 6
# An engine whose usual build costs so many times the best of the others gets no more.
_LOST = 2.0


@dataclass(frozen=True)
class Proposal:
    """A build that is worth trying, with what it is expected to cost."""

    engine: type[Engine]
    build: dict[str, Any]
    cost: float
    """On the part, in the units of what is preferred: to compare with others there."""
    others: tuple[dict[str, Any], ...]
    """Values of the other effort knobs, the cheapest first."""
    seconds: float | None
    """What a whole build is expected to take."""
    memory_bytes: float | None
    median_ms: float
    """Of a call on the part, at the least effort that reached the targets there."""
    search: dict[str, Any]
    """That setting."""


def part_rows(rows: int) -> int:
    """How many rows the first part has; all where the whole is small enough."""
    count = max(LEAST_ROWS, int(rows * SHARE))
    return count if count < rows * _MOST_OF_THE_WHOLE else rows


def larger_rows(rows: int) -> list[int]:
    """How many rows the second part has; nothing where it would not be much larger than the first."""
    first = part_rows(rows)
    count = min(_LARGER * first, int(rows * _LARGER_SHARE))
    return [count] if count >= 2 * first else []


def propose(search: Search, engines: Sequence[type[Engine]]) -> list[Proposal]:
    """Try builds of every engine on the part, and rank all that could reach the targets together."""
    found: list[Proposal] = []
    for engine in engines:
        best = min((each.cost for each in found), default=None)
        found += _of_engine(search, engine, best)
    return _promoted(search, _ranked(found))


def _ranked(proposals: list[Proposal]) -> list[Proposal]:
    return sorted(proposals, key=lambda each: (each.cost, each.engine.name, repr(each.build)))


def _promoted(search: Search, ranked: list[Proposal]) -> list[Proposal]:
    """The best few again on the larger part; the others behind them, at what they would cost there."""
    if search.larger is None or len(ranked) < 2 or search.over():
        return ranked
    # The best of each engine: what its builds differ by is smaller than what engines do.
    best = {each.engine.name: each for each in reversed(ranked)}
    few = [each for each in _ranked(list(best.values()))[:_FEW] if each.cost <= _NEAR * ranked[0].cost]
    if len(few) < 2:
        few = ranked[:2]
    again = [_tried(search, each.engine, each.build, search.larger) for each in few]
    pairs = [(new, old) for new, old in zip(again, few, strict=True) if new is not None and old.cost]
    if not pairs:
        return ranked
    timed = _in_turns(search, search.larger, [new for new, _ in pairs])
    pairs = [(new, old) for new, (_, old) in zip(timed, pairs, strict=True)]
    dearer = float(np.median([new.cost / old.cost for new, old in pairs]))
    slower = float(np.median([new.median_ms / old.median_ms for new, old in pairs]))
    rest = [
        replace(each, cost=each.cost * dearer, median_ms=each.median_ms * slower)
        for each in ranked
        if each not in few
    ]
    # Who was not among the few was not measured as well, and comes after them.
    return [*_ranked([new for new, _ in pairs]), *_ranked(rest)]


def _in_turns(search: Search, part: Side, proposals: list[Proposal]) -> list[Proposal]:
    """The same at what their calls take when they take turns, because a machine drifts."""
    names = {each.engine.name for each in proposals}
    # A process holds one index: builds of one engine would be built again in every turn.
    if search.prefer in ("memory", "build") or len(names) < max(2, len(proposals)):
        return proposals
    slowest = max(each.median_ms for each in proposals)
    which = part.order(search.seed)[: max(1, min(_TURN_QUERIES, int(_TURN_MS / slowest)))]
    rows = part.dataset.corpus.rows
    found: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(_ROUNDS):
        for place in np.random.default_rng([search.seed, turn]).permutation(len(proposals)).tolist():
            each = proposals[place]
            if search.over():
                return proposals
            index = IndexClient(search.room, search.journal, each.engine.name, each.build, rows, part.rows)
            try:
                answers = index.ask(
                    part, search.targets, each.search, which, warm=True, purpose=f"turn {turn}"
                )
            except TrialFailed:
                return proposals
            found[each.engine.name].append(float(np.median(answers.latencies_ns)) / 1e6)
    best = [min(found[each.engine.name]) for each in proposals]
    return [replace(each, cost=ms, median_ms=ms) for each, ms in zip(proposals, best, strict=True)]


def _of_engine(search: Search, engine: type[Engine], best: float | None) -> list[Proposal]:
    builds = Builds(engine, search.shape, search.seed)
    found: list[Proposal] = []
    began = search.journal.elapsed
    for number in range(_MOST_BUILDS):
        # An engine whose builds take long gets fewer of them.
        sure = 1 if search.seconds is not None else 2
        patience = search.filter_seconds * (1 if found else _PATIENCE)
        if number >= sure and search.journal.elapsed - began > patience:
            break
        asked = builds.ask() if not search.over() else None
        if asked is None:
            break
        trial, build = asked
        proposal = _tried(search, engine, build, search.part, best)
        builds.tell(trial, None if proposal is None else proposal.cost)
        if proposal is not None:
            found.append(proposal)
        if number == 0 and best is not None and proposal is not None and proposal.cost > _LOST * best:
            break
    return found


def _tried(
    search: Search, engine: type[Engine], build: dict[str, Any], part: Side, best: float | None = None
) -> Proposal | None:
    began = search.journal.elapsed
    rows = part.dataset.corpus.rows
    if any(violations(engine, {**Shape(rows, search.shape.dimension, search.shape.k).known, **build})):
        why = "its constraints do not let it be built on a part"
        search.note(engine, build, None, rows, "skipped", why, began)
        return None
    if (reason := _too_large(search, engine, build)) is not None:
        search.note(engine, build, None, rows, "skipped", reason, began)
        return None
    index = IndexClient(search.room, search.journal, engine.name, build, rows, part.rows)
    index.seconds_left = search.left()
    try:
        built = index.built()
        reason = _cannot_fit(search, index, built)
        costs = [] if reason else _costs(search, index, engine, built, part, best)
    except TrialFailed as problem:
        search.note(engine, build, None, rows, "crashed", str(problem), began)
        return None
    if not costs:
        why = reason or "does not reach the target at full effort on the part"
        search.note(engine, build, None, rows, "skipped" if reason else "failed", why, began)
        return None
    costs.sort(key=lambda each: each[0])
    search.note(engine, build, None, rows, "passed", "reaches the target on the part", began)
    whole = _whole(search, index, built)
    others = tuple(each[3] for each in costs)
    cost, setting, median, _ = costs[0]
    return Proposal(engine, build, cost, others, whole["build"], whole["memory"], median, setting)


def _too_large(search: Search, engine: type[Engine], build: dict[str, Any]) -> str | None:
    """Which budget the whole could not keep, by what such an index has to hold; nothing is built for it."""
    known = content(engine.name, build, search.shape.dimension, search.metric)
    for budget in search.budgets:
        if known is not None and budget.name in ("memory", "size"):
            held = known.of(search.shape.rows)
            if held > budget.limit * MARGIN:
                return f"{budget}: the whole has to hold about {budget.shown(held)}"
    return None


def _whole(search: Search, index: IndexClient, built: Built) -> dict[str, float | None]:
    """What the whole is predicted to take, by what a part of it took."""
    rows = search.shape.rows
    known = content(index.engine, index.build, search.shape.dimension, search.metric)
    bytes_of = {"memory": built.memory_bytes, "size": built.size_bytes}
    found = {
        name: None if value is None else grown(value, index.rows, rows, known)
        for name, value in bytes_of.items()
    }
    return {**found, "build": None if built.seconds is None else built.seconds * rows / index.rows}


def _cannot_fit(search: Search, index: IndexClient, built: Built) -> str | None:
    """Which budget the whole could not keep, by what the part took."""
    whole = _whole(search, index, built)
    for budget in search.budgets:
        value = whole.get(budget.name)
        if value is not None and value > budget.limit * MARGIN:
            return f"{budget}: the whole is predicted to take {budget.spelled(value)}"
    return None


def _costs(
    search: Search,
    index: IndexClient,
    engine: type[Engine],
    built: Built,
    part: Side,
    best: float | None,
) -> list[tuple[float, dict[str, Any], float, dict[str, Any]]]:
    """For each ladder that reaches the targets: cost, setting, median latency, what stays."""
    found = []
    shape = Shape(index.rows, search.shape.dimension, search.shape.k)
    for ladder in ladders(engine, index.build, shape):
        reached = _least_reaching(search, index, engine, ladder, part)
        if reached is not None:
            setting, median = reached
            cost = {"memory": built.memory_bytes, "build": built.seconds}.get(search.prefer, median)
            found.append((median if cost is None else float(cost), setting, median, ladder.others))
            if best is not None and found[-1][0] > _LOST * best:
                break
    return found


def _least_reaching(
    search: Search, index: IndexClient, engine: type[Engine], ladder: Ladder, part: Side
) -> tuple[dict[str, Any], float] | None:
    """The least effort whose means reach the thresholds on the part, and its median latency at best."""
    which = part.order(search.seed)
    asked: dict[float, bool] = {}

    def reaches(effort: float) -> bool:
        if effort not in asked:
            began, setting = search.journal.elapsed, ladder.search(effort)
            answers = index.ask(part, search.targets, setting, which)
            means = [np.nanmean(each) if not np.isnan(each).all() else 1.0 for each in answers.values]
            enough = all(mean >= target.threshold for mean, target in zip(means, search.targets, strict=True))
            asked[effort] = enough
            came, why = ("passed", "reaches") if enough else ("failed", "does not reach")
            search.note(
                engine, index.build, setting, index.rows, came, f"{why} the target on the part", began
            )
        return asked[effort]

    low, high = ladder.least, ladder.generous
    while not reaches(high):
        if high >= ladder.most:
            high = next((each for each in ladder.lower(high) if reaches(each)), 0.0)
            if not high:
                return None
            break
        high = min(ladder.most, high * 4)
    if low < high and not reaches(low):
        while (middle := ladder.between(low, high)) is not None:
            low, high = (low, middle) if reaches(middle) else (middle, high)
    else:
        high = low
    setting = ladder.search(high)
    return setting, min(_median_ms(search, index, setting, part, turn) for turn in range(_TURNS))


def _median_ms(search: Search, index: IndexClient, setting: dict[str, Any], part: Side, turn: int) -> float:
    which = part.order(search.seed)
    answers = index.ask(part, search.targets, setting, which, warm=turn == 0, purpose=f"cost {turn}")
    return float(np.median(answers.latencies_ns)) / 1e6


def attempt(
    engine: type[Engine], build: dict[str, Any], search: dict[str, Any] | None, rows: int,
    verdict: str, why: str, seconds: float, bound: float | None = None,
) -> Attempt:  # fmt: skip
    """One line of what was tried."""
    setting = None if search is None else tuple(search.items())
    return Attempt(
        engine.name, tuple(build.items()), setting, rows, verdict, why, bound, seconds=round(seconds, 3)
    )
