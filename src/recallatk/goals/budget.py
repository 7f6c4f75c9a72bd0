"""Budgets: constraints on cost, such as a latency percentile, throughput, memory, size or build time."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from recallatk.analysis.latency import PERCENTILES
from recallatk.errors import UsageError
from recallatk.units import DURATION, format_bytes, format_duration, mebibytes, parse_bytes, parse_duration

if TYPE_CHECKING:
    from recallatk.core.tuned import Candidate

LATENCIES = tuple(PERCENTILES)
_SIZES = ("memory", "size")
COSTS = (*LATENCIES, "qps", *_SIZES, "build")


@dataclass(frozen=True)
class Budget:
    """One constraint on cost, in milliseconds, bytes, seconds of building or queries per second."""

    name: str
    """A latency percentile, `memory`, `size`, `build` or `qps`."""
    limit: float

    @property
    def at_least(self) -> bool:
        """Whether more is better, as for throughput."""
        return self.name == "qps"

    @property
    def text(self) -> str:
        """The budget in the grammar of goals."""
        return self.stated(self.spelled(self.limit))

    def __str__(self) -> str:
        return self.text

    def stated(self, value: str) -> str:
        """The budget with another text for its value."""
        return f"{self.name} {'>=' if self.at_least else '<='} {value}"

    def spelled(self, value: float) -> str:
        """A value with its unit, in a form that parses back to the same value."""
        if self.name in _SIZES:
            return str(format_bytes(int(value)))
        if self.name == "qps":
            return repr(float(value)).removesuffix(".0")
        return format_duration(value, unit="s" if self.name == "build" else "ms")

    def shown(self, value: float) -> str:
        """A value with its unit, rounded for readers."""
        if self.name in LATENCIES:
            return f"{value:.3g} ms"
        if self.name == "build":
            return f"{value:,.1f} s"
        return f"{value:,.0f} queries per second" if self.name == "qps" else mebibytes(value)

    def within(self, value: float | None) -> bool | None:
        """Whether a value stays within the budget; None if not measured."""
        if value is None:
            return None
        return value >= self.limit if self.at_least else value <= self.limit

    def of(self, candidate: Candidate) -> float | None:
        """The cost of a setting in the unit of this budget; None if not measured."""
        if self.name in LATENCIES:
            return candidate.latency_ms.get(self.name)
        return {
            "memory": candidate.memory_bytes,
            "size": candidate.size_bytes,
            "build": candidate.build_seconds,
            "qps": candidate.qps,
        }[self.name]


def read_budget(name: str, sign: str, amount: str) -> Budget:
    """Parse a budget from the name of a cost, `>=` or `<=`, and an amount with its unit."""
    require_sense(name, sign)
    return Budget(name, limit_of(name, amount))


def require_sense(name: str, sign: str) -> None:
    """Refuse a comparison that a worse cost would pass."""
    wanted = ">=" if name == "qps" else "<="
    if sign != wanted:
        raise UsageError(f"{name} {sign}. Accepted: {name} {wanted}")


def limit_of(name: str, amount: str) -> float:
    """An amount of a cost in its unit."""
    if name in _SIZES:
        return parse_bytes(amount)
    if name != "qps":
        unit = "s" if name == "build" else "ms"
        if re.fullmatch(r"[0-9]+(?:\.[0-9]+)?", amount):
            raise UsageError(f"{amount} has no unit. Did you mean {amount}{unit}? Accepted: {DURATION}")
        return parse_duration(amount, unit=unit)
    if not re.fullmatch(r"[0-9]+(?:\.[0-9]+)?", amount) or not float(amount) > 0:
        raise UsageError(f"{amount!r} queries per second. Accepted: a number above 0")
    return float(amount)
