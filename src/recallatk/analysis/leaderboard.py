"""Ranks of costs that share a place where their intervals overlap."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class RankedCost:
    """A cost with the ends of its interval; None for an end that was not measured."""

    value: float
    low: float | None
    high: float | None

    def to_dict(self) -> dict[str, Any]:
        """The cost for JSON."""
        return {"value": self.value, "low": self.low, "high": self.high}


def shared_ranks(costs: Sequence[RankedCost], *, gain: bool = False) -> list[int]:
    """1 plus the number of others that are surely better, so that ranks tell only what intervals tell.

    One is surely better than another if its worse end is better than the better end of the other. An end
    that was not measured makes nothing sure.

    Args:
        costs: one per setting.
        gain: more is better.
    """
    return [1 + sum(_surely_better(other, each, gain) for other in costs) for each in costs]


def in_rank_order(costs: Sequence[RankedCost], *, gain: bool = False) -> list[int]:
    """The places of the costs by rising rank, and by value within a rank."""
    ranks = shared_ranks(costs, gain=gain)
    sign = -1 if gain else 1
    return sorted(range(len(costs)), key=lambda place: (ranks[place], sign * costs[place].value, place))


def worst_of(costs: Sequence[RankedCost], *, gain: bool = False) -> RankedCost:
    """The worst cost of several builds of one setting."""
    return min(costs, key=lambda each: each.value) if gain else max(costs, key=lambda each: each.value)


def _surely_better(one: RankedCost, other: RankedCost, gain: bool) -> bool:
    if gain:
        return one.low is not None and other.high is not None and one.low > other.high
    return one.high is not None and other.low is not None and one.high < other.low
