"""What a setting may take at the most: latency, memory, size, build time; and its least queries a second."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from recallatk.bench.settings.amounts import format_bytes, format_duration, parse_bytes, parse_duration
from recallatk.errors import UsageError

if TYPE_CHECKING:
    from recallatk.core.tuned import Candidate

ACCEPTED = (
    'such as "p95 <= 5ms", "p99 <= 20ms", "memory <= 2GiB", "size <= 1GiB", "build <= 10min" or "qps >= 1000"'
)
LATENCIES = ("p50", "p90", "p95", "p99", "p99.9")
_SIZES = ("memory", "size")
_FORM = re.compile(r"([a-z]\w*(?:\.[0-9]+)?)\s*(<=|>=|≤|≥)\s*(.+)", re.DOTALL)
_SIGNS = {"≤": "<=", "≥": ">="}


@dataclass(frozen=True)
class Budget:
    """One limit: milliseconds of a latency, bytes, seconds of a build, or queries a second."""

    name: str
    """A percentile of latency, memory, size, build or qps."""
    limit: float

    @property
    def text(self) -> str:
        """As it is written."""
        return f"{self.name} {'>=' if self.name == 'qps' else '<='} {self.spelled(self.limit)}"

    def __str__(self) -> str:
        return self.text

    def spelled(self, value: float) -> str:
        """A value of its kind that reads back to the same."""
        if self.name in _SIZES:
            return str(format_bytes(int(value)))
        if self.name == "qps":
            return repr(float(value)).removesuffix(".0")
        return format_duration(value, unit="s" if self.name == "build" else "ms")

    def within(self, value: float | None) -> bool | None:
        """Whether a value keeps to it; None where it was not measured."""
        if value is None:
            return None
        return value >= self.limit if self.name == "qps" else value <= self.limit

    def of(self, candidate: Candidate) -> float | None:
        """What a setting was measured to take of it."""
        if self.name in LATENCIES:
            return candidate.latency_ms.get(self.name)
        return {
            "memory": candidate.memory_bytes,
            "size": candidate.size_bytes,
            "build": candidate.build_seconds,
            "qps": candidate.qps,
        }[self.name]


def parse_budget(text: str) -> Budget:
    """The budget that a text says."""
    found = _FORM.fullmatch(text.strip())
    if found is None or found[1] not in (*LATENCIES, *_SIZES, "build", "qps"):
        raise UsageError(f"no budget {text!r}. Accepted: {ACCEPTED}")
    name, sign, amount = found[1], _SIGNS.get(found[2], found[2]), found[3]
    wanted = ">=" if name == "qps" else "<="
    if sign != wanted:
        raise UsageError(f"budget {text!r}: {name} {sign}. Accepted: {name} {wanted}")
    try:
        return Budget(name, _limit(name, amount))
    except UsageError as problem:
        raise UsageError(f"budget {text!r}: {problem}") from None


def _limit(name: str, amount: str) -> float:
    if name in _SIZES:
        return parse_bytes(amount)
    if name != "qps":
        return parse_duration(amount, unit="s" if name == "build" else "ms")
    if not re.fullmatch(r"[0-9]+(?:\.[0-9]+)?", amount) or not float(amount) > 0:
        raise UsageError(f"{amount!r} queries a second. Accepted: a number above 0")
    return float(amount)
