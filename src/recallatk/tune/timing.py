"""The final timing: every setting that is shown beside another is timed in turns, in one phase."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.analysis.latency import PERCENTILES
from recallatk.bench.cautions import noise
from recallatk.bench.supervisor import TrialFailed
from recallatk.tune.explaining import front_of
from recallatk.tune.proving import timed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from recallatk.core import Caution
    from recallatk.core.tuned import Candidate
    from recallatk.tune.search import Search

_BLOCKS, _FEWEST_CALLS, _MOST_CALLS = 5, 100, 1_000
_MOST_SETTINGS = 16
# It may take this share of what was spent before, and so many seconds anyway.
_SHARE, _SECONDS = 0.1, 2.0


@dataclass(frozen=True)
class Timing:
    """Settings with latencies that compare, and what the machine's pace says of them."""

    settings: tuple[Candidate, ...]
    cautions: tuple[Caution, ...] = ()

    def of(self, candidate: Candidate | None) -> Candidate | None:
        """A setting with its latencies of this phase; as it is where it was no part of it."""
        if candidate is None:
            return None
        found = (each for each in self.settings if key_of(each) == key_of(candidate))
        return next(found, candidate)

    def has(self, candidate: Candidate) -> bool:
        """Whether a setting was part of it."""
        return key_of(candidate) in map(key_of, self.settings)


def key_of(candidate: Candidate) -> tuple[object, ...]:
    """What tells a setting from others."""
    return candidate.engine, candidate.build, candidate.search


def time_together(search: Search, known: Sequence[Candidate], first: Sequence[Candidate | None]) -> Timing:
    """Time settings in interleaved blocks, because a machine drifts while it is measured.

    Args:
        search: the tuning.
        known: every setting that may be shown.
        first: those that must be among them: the choice and what it is compared with.
    """
    phase, entrants, calls = _entrants(search, known, [each for each in first if each is not None])
    if not entrants:
        return Timing(())
    search.say("timing")
    latencies: dict[int, list[NDArray[np.int64]]] = {}
    paces: list[int] = []
    order = np.resize(search.side.order(search.seed), calls)
    for turn, which in enumerate(np.array_split(order, _BLOCKS)):
        for place in np.random.default_rng([search.seed, turn]).permutation(len(entrants)).tolist():
            taken = _block(search, entrants[place], which, f"timing {phase} {turn}")
            if taken is not None:
                latencies.setdefault(place, []).append(taken[0])
                paces.append(taken[1])
    found = [timed(entrants[place], np.concatenate(parts)) for place, parts in sorted(latencies.items())]
    return Timing(tuple(found), tuple(noise(paces)))


def _block(
    search: Search, candidate: Candidate, which: NDArray[np.int64], purpose: str
) -> tuple[NDArray[np.int64], int] | None:
    index = search.indexes[candidate.engine, candidate.build]
    try:
        found = index.ask(
            search.side, search.targets, dict(candidate.search), which, warm=True, pace=True, purpose=purpose
        )
    except TrialFailed:
        return None
    return found.latencies_ns, found.pace_ns or 0


def _entrants(
    search: Search, known: Sequence[Candidate], first: Sequence[Candidate]
) -> tuple[str, list[Candidate], int]:
    """A name for the phase, which settings are timed, and with how many calls each.

    A resumed tuning decides as before. One that went further than before has a phase of its own: latencies of
    two phases do not compare.
    """
    by_key = {_text(each): each for each in (*known, *first)}
    phase = blake2b("\n".join([*map(_text, first), "", *by_key]).encode(), digest_size=8).hexdigest()
    step = search.journal.step(["timing", phase], lambda: _decided(search, known, first))
    return phase, [by_key[text] for text in step["settings"]], int(step["calls"])


def _decided(search: Search, known: Sequence[Candidate], first: Sequence[Candidate]) -> dict[str, Any]:
    measure = search.targets[0].name
    ranked = [*first, *front_of(list(known), search.prefer, measure), *known]
    # The indexes of those that come first are needed anyway.
    needed = {(each.engine, each.build) for each in first}
    held = [each for each in ranked if (each.engine, each.build) in needed or _is_held(search, each)]
    chosen = list({_text(each): each for each in held}.values())[:_MOST_SETTINGS]
    return {"settings": [_text(each) for each in chosen], "calls": _calls(search, chosen)}


def _is_held(search: Search, candidate: Candidate) -> bool:
    """Whether its index is in memory: nothing is built again for a timing."""
    index = search.indexes.get((candidate.engine, candidate.build))
    return index is not None and search.room.holding(index) is not None


def _calls(search: Search, settings: Sequence[Candidate]) -> int:
    """As many calls as the time allows, and as many as the percentiles of the budgets need."""
    allowed = max(_SECONDS, _SHARE * search.journal.elapsed)
    if search.seconds is not None:
        allowed = min(allowed, max(0.0, search.seconds - search.journal.elapsed))
    each = sum(setting.latency_ms.get("p50") or 0.0 for setting in settings) / 1000
    possible = _MOST_CALLS if not each else int(allowed / each)
    shares = [PERCENTILES[budget.name] for budget in search.budgets if budget.name in PERCENTILES]
    needed = max((math.ceil(round(1 / (1 - share), 6)) for share in shares), default=0)
    return max(_FEWEST_CALLS, needed, min(possible, _MOST_CALLS))


def _text(candidate: Candidate) -> str:
    return json.dumps([candidate.engine, candidate.build, candidate.search])
