"""Drift: what changed between two snapshots, and the recall on the current queries."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from recallatk.core.judgments import Verdict
    from recallatk.core.measured import Mean
    from recallatk.core.probed import Probed


@dataclass(frozen=True)
class Trigger:
    """One cheap number that may be a reason to measure recall; never a verdict."""

    part: str
    """`queries` or `corpus`."""
    name: str
    number: float
    most: float
    """It fires above this."""
    least: float | None = None
    """Or below this, for ratios and differences."""
    low: float | None = None
    high: float | None = None
    """The 95 % interval; None for what was counted over all rows."""
    p: float | None = None
    """Holm-adjusted over all tested triggers; None for what was counted."""
    said: str = ""
    """The number in words."""

    @property
    def beyond(self) -> bool:
        """Whether the number is beyond its threshold."""
        return self.number > self.most or (self.least is not None and self.number < self.least)

    @property
    def fired(self) -> bool:
        """Whether the number is beyond its threshold, and more than chance makes it."""
        return self.beyond and (self.p is None or self.p <= ALARMS)

    def to_dict(self) -> dict[str, Any]:
        """The trigger for JSON."""
        return {
            "part": self.part,
            "trigger": self.name,
            "number": self.number,
            "low": self.low,
            "high": self.high,
            "least": self.least,
            "most": self.most,
            "p": self.p,
            "fired": self.fired,
            "said": self.said,
        }


ALARMS = 0.05
"""The share of undrifted snapshots on which any trigger at all may fire."""


@dataclass(frozen=True)
class SnapshotSize:
    """What a snapshot holds."""

    name: str
    queries: int | None
    rows: int | None
    dimension: int

    def to_dict(self) -> dict[str, Any]:
        """The snapshot for JSON."""
        return {
            "name": self.name,
            "queries": self.queries,
            "rows": self.rows,
            "dimension": self.dimension,
        }


@dataclass(frozen=True, eq=False)
class Shifts:
    """All triggers between two snapshots."""

    baseline: SnapshotSize
    current: SnapshotSize
    triggers: tuple[Trigger, ...]
    notes: tuple[str, ...] = ()
    """What was not compared, and why."""

    @property
    def fired(self) -> tuple[Trigger, ...]:
        """The triggers that fired."""
        return tuple(each for each in self.triggers if each.fired)

    def to_dict(self) -> dict[str, Any]:
        """The triggers for JSON."""
        return {
            "baseline": self.baseline.to_dict(),
            "current": self.current.to_dict(),
            "triggers": [each.to_dict() for each in self.triggers],
            "fired": [f"{each.part}: {each.name}" for each in self.fired],
            "notes": list(self.notes),
        }


@dataclass(frozen=True, eq=False)
class RecallTest:
    """Recall on the current queries: a probe, or a run that measured them."""

    source: str
    """What was measured: the target without a password, or the run."""
    measure: str
    recall: Mean
    verdict: Verdict
    probed: Probed | None = field(default=None, repr=False)
    """The probe; None for a run."""

    def to_dict(self) -> dict[str, Any]:
        """The test for JSON."""
        return {
            "source": self.source,
            "measure": self.measure,
            "value": self.recall.value,
            "low": self.recall.low,
            "high": self.recall.high,
            "queries": self.recall.n,
            "probe": None if self.probed is None else self.probed.to_dict(),
        }


@dataclass(frozen=True, eq=False)
class Drifted:
    """Triggers and recall side by side: only recall decides."""

    shifts: Shifts
    tested: RecallTest | None = None
    """None without a collection and without a run to measure recall on."""
    next_step: str = ""
    """The command that measures recall, where nothing did."""

    @property
    def outcome(self) -> str | None:
        """PASS, FAIL or UNDECIDED of the recall test; None without goals or without a test."""
        return None if self.tested is None else self.tested.verdict.outcome

    def to_dict(self) -> dict[str, Any]:
        """The whole for JSON."""
        verdict = None if self.tested is None else self.tested.verdict.to_dict()
        recall = None if self.tested is None else self.tested.to_dict()
        return {**self.shifts.to_dict(), "recall": recall, "verdict": verdict}
