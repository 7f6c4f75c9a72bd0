"""Entries of a history from a gate: what each setting had, and the verdict on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from blake3 import blake3

from recallatk.analysis.sides import SideKind
from recallatk.core.history import EntryKind, HistoryEntry
from recallatk.core.judgments import Verdict
from recallatk.redaction import public

if TYPE_CHECKING:
    from collections.abc import Iterator

    from recallatk.analysis.sides import ComparedSide, SideSetting
    from recallatk.goals.gated import Gated


def gate_entries(found: Gated, now: str) -> Iterator[HistoryEntry]:
    """One entry per setting and recall@k, each with the verdict on its setting."""
    side = found.measured
    for setting in () if side is None else side.settings:
        # A label before the name says which baseline it was judged against.
        judged = tuple(each.result for each in found.goals if each.setting.endswith(setting.label))
        for measure in setting.measures:
            if measure.startswith("recall@") and judged and side is not None:
                yield from _entry(found, side, setting, measure, Verdict(judged), now)


def _entry(
    found: Gated, side: ComparedSide, setting: SideSetting, measure: str, verdict: Verdict, now: str
) -> Iterator[HistoryEntry]:
    values, mean = setting.by_build(measure), setting.builds[0].means.get(measure)
    if values is None or mean is None or mean.value is None:
        return
    live, one = side.kind is SideKind.PROBE, len(setting.builds) == 1
    state: dict[str, Any] = {"version": setting.version, "baseline": found.baseline}
    state |= {name: str(public(each, name)) for name, each in (setting.search if live else ())}
    latency = setting.builds[0].latencies.get("p95")
    yield HistoryEntry(
        when=now,
        kind=EntryKind.GATE,
        collection=side.data or side.name,
        # The settings in force of a collection are what may change.
        subject=setting.engine if live else setting.label,
        measure=measure,
        value=mean.value if one else float(np.nanmean(values)),
        low=mean.low if one else None,
        high=mean.high if one else None,
        queries=mean.n,
        verdict=verdict.outcome,
        state={name: each for name, each in state.items() if each is not None},
        costs={"p95_ms": None if latency is None else latency.value},
        query_set=side.fingerprints.get("queries"),
        origin=_origin(found, setting, verdict),
        per_query=None if found.stopped else np.asarray(values.mean(axis=0), np.float64),
    )


def _origin(found: Gated, setting: SideSetting, verdict: Verdict) -> str:
    """A recorded run that is judged again is the same judgment; what was measured for the gate is new."""
    origins = [each.origin for each in setting.builds]
    if not all(origins):
        return ""
    judged = ["gate", found.baseline, origins, [each.text for each in verdict.goals]]
    return blake3(repr(judged).encode()).hexdigest()[:32]
