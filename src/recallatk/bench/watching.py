"""How far a run is, for whoever shows it."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from recallatk.bench.plan import PlannedBuild
    from recallatk.core import Failure, Measurement, Trial


# Whoever looks is shown a few; a run may have thousands, each with all of its calls.
_LATEST = 8


class Pace:
    """What builds and blocks took, and how many of them are left."""

    def __init__(self) -> None:
        self.builds_left = self.blocks_left = 0
        self.build_seconds: list[float] = []
        self.block_seconds: list[float] = []
        self.since = time.monotonic()

    def plan(self, builds: list[PlannedBuild], missing: set[Trial], rounds: int) -> None:
        """Count what is to be done."""
        wanted = [[trial for trial in each.trials if trial in missing] for each in builds]
        self.builds_left = sum(bool(each) for each in wanted)
        self.blocks_left = rounds * sum(map(len, wanted))

    def step(self, *, build: bool) -> None:
        """One build, or one block, is done."""
        now = time.monotonic()
        (self.build_seconds if build else self.block_seconds).append(now - self.since)
        self.since = now
        if build:
            self.builds_left = max(0, self.builds_left - 1)
        else:
            self.blocks_left = max(0, self.blocks_left - 1)

    def left(self) -> float | None:
        """Seconds for what is left, at the mean pace."""
        parts = ((self.builds_left, self.build_seconds), (self.blocks_left, self.block_seconds))
        if any(count and not taken for count, taken in parts):
            return None
        return sum(count * sum(taken) / len(taken) for count, taken in parts if count)


@dataclass
class Progress:
    """What is done, what is going on, and how long the rest may take."""

    trials: int
    """How many there are."""
    done: int = 0
    """How many are measured or have failed, earlier runs included."""
    failed: int = 0
    """How many of these have failed."""
    phase: str = "preparing"
    trial: Trial | None = None
    p95_ms: float | None = None
    """Of the block before."""
    latest: deque[Measurement | Failure] = field(default_factory=lambda: deque(maxlen=_LATEST))
    """What came of the last trials, the newest at the end; nothing of earlier runs."""
    pace: Pace = field(default_factory=Pace)

    def add(self, outcome: Measurement | Failure) -> None:
        """Take in what came of a trial."""
        self.latest.append(outcome)
        self.done += 1

    @property
    def seconds_left(self) -> float | None:
        """An estimate from what was done so far; None before there is anything to go by."""
        return self.pace.left()


if TYPE_CHECKING:
    Watch = Callable[[Progress], None]
