"""Entries of a history: one measured recall with its time, its setting and what it is based on."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray


class EntryKind(StrEnum):
    """What was measured."""

    RUN = "run"
    TUNING = "tuning"
    PROBE = "probe"
    GATE = "gate"


@dataclass(frozen=True, eq=False)
class HistoryEntry:
    """One measure of one setting, at one time."""

    when: str
    """When a run began, or a probe or tuning ended: ISO 8601 in UTC, to the microsecond."""
    kind: EntryKind
    collection: str
    """The data set, or the target without a password."""
    subject: str
    """What is followed over time: an engine with its setting, or the setting that a tuning chose."""
    measure: str
    """Such as recall@10."""
    value: float
    low: float | None
    """Lower end of the 95 % confidence interval; None if there is none."""
    high: float | None
    queries: int
    verdict: str | None = None
    """PASS, FAIL or UNDECIDED; None without goals."""
    state: Mapping[str, Any] = field(default_factory=dict)
    """What may explain a change: version of the engine, rows, index, settings."""
    costs: Mapping[str, float | None] = field(default_factory=dict)
    """Such as p95_ms."""
    query_set: str | None = None
    """Fingerprint of the queries; entries with the same one are paired by query."""
    origin: str = ""
    """What was measured, whenever it is appended; empty if it is known to be new."""
    per_query: NDArray[np.float64] | None = field(default=None, repr=False)
    """The measure for every query, in the order of the query file; None if not all were asked."""

    def to_dict(self) -> dict[str, Any]:
        """The entry for JSON, without values by query."""
        return {
            "when": self.when,
            "kind": str(self.kind),
            "collection": self.collection,
            "subject": self.subject,
            "measure": self.measure,
            "value": self.value,
            "low": self.low,
            "high": self.high,
            "queries": self.queries,
            "verdict": self.verdict,
            "state": dict(self.state),
            "costs": dict(self.costs),
        }
