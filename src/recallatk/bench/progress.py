"""Progress of a run, with an estimate of the time left."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from recallatk.bench.plan import PlannedBuild
    from recallatk.core import Failure, Measurement, Trial


# Viewers show only a few; a run may have thousands, each with all of its calls.
_LATEST = 8


class Pace:
    """Seconds that builds and blocks took, and how many of them are left."""

    def __init__(self) -> None:
        self.builds_left = self.blocks_left = 0
        self.build_seconds: list[float] = []
        self.block_seconds: list[float] = []
        self.since = time.monotonic()

    def plan(self, builds: list[PlannedBuild], missing: set[Trial], rounds: int) -> None:
        """Count builds and blocks of the missing trials."""
        wanted = [[trial for trial in each.trials if trial in missing] for each in builds]
        self.builds_left = sum(bool(each) for each in wanted)
        self.blocks_left = rounds * sum(map(len, wanted))

    def step(self, *, build: bool) -> None:
        """Record that one build, or one block, is done."""
        now = time.monotonic()
        (self.build_seconds if build else self.block_seconds).append(now - self.since)
        self.since = now
        if build:
            self.builds_left = max(0, self.builds_left - 1)
        else:
            self.blocks_left = max(0, self.blocks_left - 1)

    def left(self) -> float | None:
        """Estimated seconds left at the mean pace; None before the first step."""
        parts = ((self.builds_left, self.build_seconds), (self.blocks_left, self.block_seconds))
        if any(count and not taken for count, taken in parts):
            return None
        return sum(count * sum(taken) / len(taken) for count, taken in parts if count)


@dataclass
class Progress:
    """Finished trials, the current trial, and an estimate of the time left."""

    trials: int
    """Number of trials in the plan."""
    done: int = 0
    """Number of trials measured or failed, including those before a resume."""
    failed: int = 0
    """Number of failed trials."""
    phase: str = "preparing"
    trial: Trial | None = None
    p95_ms: float | None = None
    """p95 of the last block."""
    latest: deque[Measurement | Failure] = field(default_factory=lambda: deque(maxlen=_LATEST))
    """Outcomes of the last trials of this session, newest last."""
    pace: Pace = field(default_factory=Pace)

    def add(self, outcome: Measurement | Failure) -> None:
        """Add the outcome of a trial."""
        self.latest.append(outcome)
        self.done += 1

    @property
    def seconds_left(self) -> float | None:
        """Estimated seconds left; None before the first step."""
        return self.pace.left()


if TYPE_CHECKING:
    Watch = Callable[[Progress], None]
