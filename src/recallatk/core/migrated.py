"""Migrations: what a new embedding of the same rows changes, and what it costs."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from recallatk.core.data import Metric
    from recallatk.core.judgments import Verdict
    from recallatk.core.measured import Mean
    from recallatk.core.tuned import Tuned


class SpaceChange(StrEnum):
    """How the new vectors follow from the old ones."""

    SAME = "the same vectors"
    STORED = "the same vectors, stored with another precision"
    SCALED = "the same directions, with other norms"
    CUT = "the leading dimensions of the old vectors (Matryoshka)"
    ROTATED = "the old vectors, rotated"
    OTHER = "vectors of another space"


@dataclass(frozen=True)
class EmbeddingSide:
    """One embedding of the rows."""

    name: str
    rows: int
    dimension: int
    dtype: str
    metric: Metric
    models: tuple[str, ...] = ()

    @property
    def bytes_per_row(self) -> int:
        """Bytes of one vector as it is stored."""
        size = {"float16": 2, "float32": 4, "float64": 8, "int8": 1, "uint8": 1}[self.dtype]
        return self.dimension * size

    def to_dict(self) -> dict[str, Any]:
        """The side for JSON."""
        return {
            "name": self.name,
            "rows": self.rows,
            "dimension": self.dimension,
            "dtype": self.dtype,
            "metric": str(self.metric),
            "models": list(self.models),
            "bytes_per_row": self.bytes_per_row,
        }


@dataclass(frozen=True)
class NeighborOverlap:
    """How many exact neighbors of the old embedding are those of the new one."""

    k: int
    mean: Mean
    unlike: float
    """Share of queries without any common neighbor."""

    def to_dict(self) -> dict[str, Any]:
        """The overlap for JSON."""
        mean = self.mean
        return {
            "k": self.k,
            "overlap": mean.value,
            "low": mean.low,
            "high": mean.high,
            "queries": mean.n,
            "no_common_neighbor": self.unlike,
        }


@dataclass(frozen=True)
class RelevanceChange:
    """One judged measure of exact search in both embeddings."""

    measure: str
    old: Mean
    new: Mean
    difference: float
    """New minus old, over the same queries."""
    low: float | None
    high: float | None

    def to_dict(self) -> dict[str, Any]:
        """The change for JSON."""
        return {
            "measure": self.measure,
            "old": self.old.value,
            "new": self.new.value,
            "difference": self.difference,
            "low": self.low,
            "high": self.high,
            "queries": self.old.n,
        }


@dataclass(frozen=True)
class MixedSpaces:
    """Rows of the new embedding that another model made than the rest."""

    share: float | None
    """None if it cannot be told."""
    low: float | None = None
    high: float | None = None
    looked: int = 0
    """Number of rows looked at."""
    ids: tuple[Any, ...] = ()
    """Some of the rows found."""
    why: str = ""
    """Why it cannot be told."""

    @property
    def found(self) -> bool:
        """Whether there are such rows."""
        return bool(self.share)

    def to_dict(self) -> dict[str, Any]:
        """The finding for JSON."""
        return {
            "share": self.share,
            "low": self.low,
            "high": self.high,
            "rows_looked_at": self.looked,
            "ids": list(self.ids),
            "why": self.why or None,
        }


@dataclass(frozen=True)
class CostChange:
    """One cost of both embeddings."""

    name: str
    unit: str
    old: float | None
    new: float | None

    @property
    def ratio(self) -> float | None:
        """New over old; None if one is not known."""
        return self.new / self.old if self.old and self.new is not None else None

    def to_dict(self) -> dict[str, Any]:
        """The cost for JSON."""
        return {"cost": self.name, "unit": self.unit, "old": self.old, "new": self.new, "ratio": self.ratio}


@dataclass(frozen=True, eq=False)
class Migrated:
    """A comparison of two embeddings of the same rows."""

    old: EmbeddingSide
    new: EmbeddingSide
    change: SpaceChange
    overlaps: tuple[NeighborOverlap, ...]
    rows_as_queries: bool
    mixed: MixedSpaces
    costs: tuple[CostChange, ...]
    advice: tuple[str, ...]
    """The recommendation, in sentences."""
    relevance: tuple[RelevanceChange, ...] = ()
    tuned: Mapping[str, Tuned] = field(default_factory=dict)
    """The settings of `old` and `new` at the same target; empty without a target."""
    verdict: Verdict | None = None
    """Whether a setting of the new embedding meets the target; None without one."""
    notes: tuple[str, ...] = ()

    @property
    def outcome(self) -> str | None:
        """PASS, FAIL or UNDECIDED of the new embedding; None without a target."""
        return None if self.verdict is None else self.verdict.outcome

    def to_dict(self) -> dict[str, Any]:
        """The comparison for JSON."""
        return {
            "old": self.old.to_dict(),
            "new": self.new.to_dict(),
            "change": str(self.change),
            "overlap": [each.to_dict() for each in self.overlaps],
            "rows_as_queries": self.rows_as_queries,
            "mixed_spaces": self.mixed.to_dict(),
            "relevance": [each.to_dict() for each in self.relevance],
            "settings": {name: _setting(each) for name, each in self.tuned.items()},
            "costs": [each.to_dict() for each in self.costs],
            "verdict": None if self.verdict is None else self.verdict.to_dict(),
            "recommendation": list(self.advice),
            "notes": list(self.notes),
        }


def _setting(tuned: Tuned) -> dict[str, Any]:
    chosen = tuned.choice
    return {
        "met": tuned.met,
        "engine": None if chosen is None else chosen.engine,
        "build": {} if chosen is None else dict(chosen.build),
        "search": {} if chosen is None else dict(chosen.search),
        "binding": tuned.binding,
    }
