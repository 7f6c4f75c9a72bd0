"""What a comparison of sides found: values, costs and changed queries of each pair of settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from recallatk.analysis.measures import recorded_measure
from recallatk.display import renderer
from recallatk.errors import RecallError
from recallatk.units import counted

if TYPE_CHECKING:
    from recallatk.analysis.comparison import Difference
    from recallatk.analysis.cost_ratios import CostRatio


@dataclass(frozen=True)
class ComparedValue:
    """One measure of two settings, over all queries or those of a segment."""

    measure: str
    segment: str
    """Such as `lang=de`; empty for all queries."""
    first: float
    second: float
    difference: Difference
    """The second minus the first; its adjusted p value is over all values of the report."""
    paired: bool = True
    """Whether it is query by query."""
    builds: tuple[int, int] = (1, 1)

    @property
    def verdict(self) -> str:
        """`better`, `worse` or `no significant difference`, of the second setting."""
        if not self.difference.significant:
            return "no significant difference"
        lower = not self.measure.startswith("p5(") and recorded_measure(self.measure).lower_is_better
        return "better" if (self.difference.difference > 0) != lower else "worse"


@dataclass(frozen=True)
class ChangedQuery:
    """A query whose recall differs."""

    query: str
    """The user's id, or the row number."""
    text: str | None
    first: float
    second: float


@dataclass(frozen=True)
class ComparedSettings:
    """One setting of the first side and one of the second."""

    first: str
    second: str
    """The settings in words; equal where the same setting was measured twice."""
    headline: str | None
    values: tuple[ComparedValue, ...]
    costs: tuple[CostRatio, ...]
    changed: tuple[ChangedQuery, ...] = ()
    """The queries whose headline recall changed most."""
    lost: int = 0
    """Number of queries whose headline recall fell."""
    gained: int = 0
    versions: tuple[str, str] | None = None
    """Versions of the engine's library, if they differ."""


@dataclass(frozen=True)
class SideComparison:
    """A side compared with the first one."""

    first: str
    second: str
    pairs: tuple[ComparedSettings, ...]
    only_first: tuple[str, ...] = ()
    """Settings that the other side lacks."""
    only_second: tuple[str, ...] = ()
    different: tuple[str, ...] = ()
    """What differs, where the sides are compared without pairing queries."""
    environment: tuple[tuple[str, str, str], ...] = ()
    """Facts about the machine and the software that differ: name, first, second."""
    notes: tuple[str, ...] = ()

    @property
    def significant(self) -> bool:
        """Whether any value differs significantly."""
        return any(value.difference.significant for pair in self.pairs for value in pair.values)


@dataclass(frozen=True)
class ComparedResults:
    """The first result compared with every other one."""

    comparisons: tuple[SideComparison, ...]

    def __str__(self) -> str:
        shown: str = renderer().comparison_text(self)
        return shown

    def to_dict(self) -> dict[str, Any]:
        """The comparison for JSON, as `recallatk compare --json` prints it."""
        described: dict[str, Any] = renderer().comparison_dict(self)
        return described


def conclusion(found: ComparedSettings) -> str:
    """The headline difference of two settings in a sentence."""
    value = next((each for each in found.values if each.measure == found.headline), None)
    value = value or next(iter(found.values), None)
    if value is None:
        raise RecallError(f"{found.second}: no query has values")
    each = value.difference
    over = counted(each.n, "query", "queries")
    if value.paired and not each.differing:
        return f"No difference in {value.measure}: {value.first:.4f} in both, equal for each of {over}."
    ends = ""
    if each.low is not None and each.high is not None:
        ends = f" (95 % interval {each.low:+.4f} to {each.high:+.4f})"
    how = f"over {over}" if value.paired else "unpaired"
    said = f"{value.first:.4f} → {value.second:.4f}, {each.difference:+.4f}{ends} {how}"
    if not each.significant:
        return f"No significant difference in {value.measure}: {said}."
    return f"{value.measure} is {value.verdict}: {said}."
