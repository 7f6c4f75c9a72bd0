"""The final timing: all settings to be shown are timed in interleaved blocks, in one phase."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.analysis.latency import PERCENTILES
from recallatk.bench.cautions import noise
from recallatk.bench.supervisor import TrialFailed
from recallatk.tuning.candidates import candidate_of, front_of, key_of, timed
from recallatk.tuning.effort_search import Look
from recallatk.tuning.finalists import in_turns
from recallatk.tuning.full_builds import Proven, note_looks
from recallatk.tuning.study import Log, Study, Trail

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from recallatk.core import Caution, Parameters
    from recallatk.core.tuned import Candidate
    from recallatk.tuning.index_client import IndexClient

    Indexes = Mapping[tuple[str, Parameters], IndexClient]

_CURVE, _CURVE_QUERIES = 6, 500
_BLOCKS, _FEWEST_CALLS, _MOST_CALLS = 5, 100, 1_000
_MOST_SETTINGS = 16
# The phase may take this share of the elapsed time, or this many seconds.
_SHARE, _SECONDS = 0.1, 2.0


@dataclass(frozen=True)
class Timing:
    """Settings with comparable latencies, and cautions about the machine."""

    settings: tuple[Candidate, ...]
    cautions: tuple[Caution, ...] = ()

    def of(self, candidate: Candidate | None) -> Candidate | None:
        """A setting with its latencies from this phase; unchanged if it was not timed."""
        if candidate is None:
            return None
        found = (each for each in self.settings if key_of(each) == key_of(candidate))
        return next(found, candidate)

    def updated(self, candidate: Candidate) -> Timing:
        """The timing with newer answers of one setting; its latencies stay those of this phase."""
        settings = (
            replace(candidate, latency_ms=each.latency_ms, qps=each.qps)
            if key_of(each) == key_of(candidate)
            else each
            for each in self.settings
        )
        return replace(self, settings=tuple(settings))


def draw_curve(study: Study, proven: Proven, trail: Trail) -> Trail:
    """Measure more efforts of the chosen build, so that the front shows the price of recall."""
    log, ladder, look = Log(study, trail), proven.chosen.ladder, proven.chosen.look
    if look is None or study.over() or ladder.knob is None:
        return trail
    low, high = max(ladder.least, look.effort / 4), min(ladder.most, look.effort * 4)
    which = study.side.order(study.seed)[:_CURVE_QUERIES]
    for effort in np.geomspace(low, high, _CURVE).tolist():
        began, setting = study.elapsed, ladder.search(effort)
        if setting == look.search or not ladder.allows(effort):
            continue
        try:
            answers = proven.index.ask(study.side, study.targets, setting, which, warm=True, purpose="curve")
        except TrialFailed:
            continue
        point = Look(effort, setting, (answers,), settled=True)
        log.measured.append(candidate_of(study.targets, proven.proposal, proven.built, point))
        note_looks(study, log, proven.proposal, [point], began)
    return log.trail


def time_together(
    study: Study,
    indexes: Indexes,
    known: Sequence[Candidate],
    first: Sequence[Candidate | None],
    trail: Trail,
) -> Timing:
    """Time settings in interleaved blocks, because machine speed drifts.

    Args:
        study: the tuning.
        indexes: every full build.
        known: every setting that may be shown.
        first: settings that must be timed: the choice and its alternatives.
        trail: the trail so far, for the progress.
    """
    phase, settings, calls = _entrants(study, indexes, known, [each for each in first if each is not None])
    if not settings:
        return Timing(())
    Log(study, trail).say("timing")
    blocks = np.array_split(np.resize(study.side.order(study.seed), calls), _BLOCKS)
    entrants = [(indexes[each.engine, each.build], each) for each in settings]
    latencies, paces = in_turns(study, entrants, blocks, f"timing {phase}", pace=True)
    found = (timed(settings[place], taken) for place, taken in latencies.items())
    return Timing(tuple(found), tuple(noise(paces)))


def _entrants(
    study: Study, indexes: Indexes, known: Sequence[Candidate], first: Sequence[Candidate]
) -> tuple[str, list[Candidate], int]:
    """The name of the phase, the settings to time, and the number of calls for each.

    A resumed tuning decides as before. If it got further than before, it starts a new phase, because
    latencies of two phases are not comparable.
    """
    by_key = {_text(each): each for each in (*known, *first)}
    phase = blake2b("\n".join([*map(_text, first), "", *by_key]).encode(), digest_size=8).hexdigest()
    step = study.journal.step(["timing", phase], lambda: _decided(study, indexes, known, first))
    return phase, [by_key[text] for text in step["settings"]], int(step["calls"])


def _decided(
    study: Study, indexes: Indexes, known: Sequence[Candidate], first: Sequence[Candidate]
) -> dict[str, Any]:
    ranked = [*first, *front_of(list(known), study.prefer, study.targets[0].name), *known]
    # The indexes of `first` are needed anyway; no other index is rebuilt for timing.
    needed = {(each.engine, each.build) for each in first}
    held = [
        each
        for each in ranked
        if (each.engine, each.build) in needed
        or study.pool.holding(indexes[each.engine, each.build]) is not None
    ]
    chosen = list({_text(each): each for each in held}.values())[:_MOST_SETTINGS]
    return {"settings": [_text(each) for each in chosen], "calls": _calls(study, chosen)}


def _calls(study: Study, settings: Sequence[Candidate]) -> int:
    """As many calls as time allows, and at least as many as the budgets' percentiles need."""
    allowed = max(_SECONDS, _SHARE * study.elapsed)
    if study.seconds is not None:
        allowed = min(allowed, max(0.0, study.seconds - study.elapsed))
    each = sum(setting.latency_ms.get("p50") or 0.0 for setting in settings) / 1000
    possible = _MOST_CALLS if not each else int(allowed / each)
    shares = [PERCENTILES[budget.name] for budget in study.budgets if budget.name in PERCENTILES]
    needed = max((math.ceil(round(1 / (1 - share), 6)) for share in shares), default=0)
    return max(_FEWEST_CALLS, needed, min(possible, _MOST_CALLS))


def _text(candidate: Candidate) -> str:
    return json.dumps([candidate.engine, candidate.build, candidate.search])
