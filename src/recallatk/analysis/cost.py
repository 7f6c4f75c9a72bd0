"""Cost of queries: the price of a machine per hour, divided by the queries that it answers in an hour."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from recallatk.errors import UsageError

_PRICE = re.compile(
    r"(?P<before>[^\d\s./,+-]*)\s*(?P<amount>\d+(?:\.\d+)?)\s*(?P<after>[^\d\s./,+-]*)\s*/\s*(?P<unit>\w+)"
)
_HOURS = {"h": 1.0, "hour": 1.0, "hr": 1.0, "d": 24.0, "day": 24.0, "month": 730.0, "mo": 730.0}


@dataclass(frozen=True)
class MachinePrice:
    """Hourly price of a machine."""

    per_hour: float
    currency: str | None = None
    """Currency as the user wrote it; None if there was none."""

    def per_million(self, qps: float | None) -> float | None:
        """Cost of a million queries at a throughput in queries per second; None without one."""
        return self.per_hour / 3600 * 1e6 / qps if qps else None

    def said(self, qps: float | None) -> str | None:
        """The same in words."""
        cost = self.per_million(qps)
        currency = f" {self.currency}" if self.currency else ""
        return None if cost is None else f"{cost:.3g}{currency} per million queries"

    @property
    def unit(self) -> str:
        """Column heading for costs."""
        return f"{self.currency}/1M queries" if self.currency else "cost/1M queries"


def parse_price(text: str) -> MachinePrice:
    """Parse a price such as `0.34/h`, `0.34USD/h` or `$250/month`."""
    found = _PRICE.fullmatch(text.strip())
    hours = _HOURS.get(found["unit"].lower()) if found else None
    if found is None or hours is None or not float(found["amount"]) > 0:
        raise UsageError(f"no price {text!r}. Accepted: an amount per hour, such as 0.34/h or 0.34USD/h")
    return MachinePrice(float(found["amount"]) / hours, found["before"] or found["after"] or None)


def price_of(settings: Mapping[str, Any]) -> MachinePrice | None:
    """Price in the recorded settings of a run; None if none was given."""
    table = settings.get("cost")
    amount = table.get("per_hour") if isinstance(table, Mapping) else None
    if not isinstance(table, Mapping) or not isinstance(amount, int | float) or not amount > 0:
        return None
    return MachinePrice(float(amount), table.get("currency"))
