"""Trends of a history: the entries of one setting by time, and what changed where their level changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.analysis.change_points import change_points

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from recallatk.core.history import HistoryEntry

_Z = 1.959964


@dataclass(frozen=True)
class LevelChange:
    """A level that is not what it was, with everything that changed between the two entries around it."""

    place: int
    """The first entry after the change."""
    when: str
    before: float
    after: float
    because: tuple[str, ...]
    """Such as "hnsw.ef_search: 64 to 40"; empty if nothing that was recorded changed."""

    def to_dict(self) -> dict[str, Any]:
        """The change for JSON."""
        return {
            "when": self.when,
            "before": self.before,
            "after": self.after,
            "changed": list(self.because),
        }


@dataclass(frozen=True, eq=False)
class Trend:
    """One measure of one subject over time."""

    collection: str
    subject: str
    measure: str
    entries: tuple[HistoryEntry, ...]
    """By time."""
    changes: tuple[LevelChange, ...]

    def to_dict(self) -> dict[str, Any]:
        """The trend for JSON."""
        return {
            "collection": self.collection,
            "subject": self.subject,
            "measure": self.measure,
            "entries": [each.to_dict() for each in self.entries],
            "changes": [each.to_dict() for each in self.changes],
        }


def trends_of(entries: Iterable[HistoryEntry]) -> list[Trend]:
    """One trend per collection, subject and measure, in the order in which they first appear."""
    groups: dict[tuple[str, str, str], list[HistoryEntry]] = {}
    for each in entries:
        groups.setdefault((each.collection, each.subject, each.measure), []).append(each)
    return [_trend(*key, sorted(found, key=lambda each: each.when)) for key, found in groups.items()]


def _trend(collection: str, subject: str, measure: str, entries: Sequence[HistoryEntry]) -> Trend:
    errors = [_error(each) for each in entries]
    for place in range(1, len(entries)):
        paired = _paired_error(entries[place - 1], entries[place])
        errors[place] = errors[place] if paired is None else paired
    found = change_points([each.value for each in entries], errors)
    changes = [
        LevelChange(
            each.place,
            entries[each.place].when,
            each.before,
            each.after,
            changed_state(entries[each.place - 1], entries[each.place]),
        )
        for each in found
    ]
    return Trend(collection, subject, measure, tuple(entries), tuple(changes))


def changed_state(before: HistoryEntry, after: HistoryEntry) -> tuple[str, ...]:
    """What may explain a change: every part of the recorded state that differs."""
    names = dict.fromkeys([*before.state, *after.state])
    return tuple(
        f"{name}: {_said(before.state.get(name))} to {_said(after.state.get(name))}"
        for name in names
        if before.state.get(name) != after.state.get(name)
    )


def _said(value: Any) -> str:
    if value is None:
        return "unknown"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _error(entry: HistoryEntry) -> float:
    """Standard error of an entry, from its interval; without one, the largest that so many queries allow."""
    if entry.low is not None and entry.high is not None:
        return (entry.high - entry.low) / (2 * _Z)
    return float(0.5 / max(1, entry.queries) ** 0.5)


def _paired_error(before: HistoryEntry, after: HistoryEntry) -> float | None:
    """The error of an entry with the queries of the one before: only queries that changed count."""
    if before.query_set is None or before.query_set != after.query_set:
        return None
    if before.per_query is None or after.per_query is None or len(before.per_query) != len(after.per_query):
        return None
    differences = after.per_query - before.per_query
    known = differences[np.isfinite(differences)]
    if len(known) < 2:
        return None
    return float(known.std(ddof=1) / np.sqrt(len(known) * 2))
