"""Limits on what is asked of a collection that production uses too: time per call, calls per second."""

from __future__ import annotations

import time
from dataclasses import dataclass


@dataclass(frozen=True)
class ProbeLimits:
    """What a probe may ask of a collection."""

    seconds: float = 30.0
    """Time limit of a single statement or call."""
    connect_seconds: float = 10.0


class RateLimit:
    """At most so many calls per second, evenly spaced.

    Args:
        rate: calls per second; None for no limit.
    """

    def __init__(self, rate: float | None) -> None:
        self.gap = 0.0 if rate is None else 1.0 / rate
        self.due = 0.0

    def wait(self) -> None:
        """Return when the next call may start."""
        now = time.monotonic()
        if now < self.due:
            time.sleep(self.due - now)
            now = self.due
        # Calls that took longer than the gap are not made up for.
        self.due = max(now, self.due) + self.gap
