"""What tuning found: the setting to run, what it was proved to do, and everything that was tried."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from recallatk.core.judgments import GoalResult, Verdict
    from recallatk.core.measured import Caution, Mean
    from recallatk.core.trials import Parameters


@dataclass(frozen=True)
class Candidate:
    """One setting with what it was measured to do; None where it was not."""

    engine: str
    build: Parameters
    search: Parameters
    measures: Mapping[str, Mean] = field(default_factory=dict)
    """Over the queries that were asked of it while choosing."""
    bound: float | None = None
    """What the first target's measure is at least, with the confidence of a decision."""
    latency_ms: Mapping[str, float | None] = field(default_factory=dict)
    qps: float | None = None
    memory_bytes: int | None = None
    size_bytes: int | None = None
    build_seconds: float | None = None
    version: str | None = None
    queries: int = 0
    """How many queries it was asked."""
    targets: tuple[GoalResult, ...] = field(default=(), compare=False)
    """Each target with its outcome over those queries; empty when read from a file."""


@dataclass(frozen=True)
class Attempt:
    """One thing that was tried or skipped, and what came of it."""

    engine: str
    build: Parameters
    search: Parameters | None
    """None for a build as a whole."""
    rows: int
    """Of how many corpus rows; fewer than all is a filter, never a verdict."""
    verdict: str
    """passed, failed, undecided, skipped, crashed, over budget."""
    why: str = ""
    bound: float | None = None
    p95_ms: float | None = None
    """As in the final timing; None for what was no part of it, which no other latency compares with."""
    seconds: float = 0.0


@dataclass(frozen=True)
class Price:
    """What more recall costs along the front."""

    low: float
    high: float
    ratio: float
    """The cost at `high` over the cost at `low`."""


@dataclass(frozen=True)
class Tuned:
    """The outcome of a tuning."""

    targets: tuple[str, ...]
    budgets: tuple[str, ...]
    prefer: str
    met: bool
    """Whether the choice keeps every target on queries that it was not chosen by, within every budget."""
    choice: Candidate | None
    """The setting to run; where nothing meets the target, None."""
    validated: Mapping[str, Mean]
    """Of the choice, on the held-out queries."""
    looks: int
    """How often the held-out queries were looked at."""
    nearest: Candidate | None = None
    """Where nothing meets the target: what comes nearest."""
    binding: str | None = None
    """Which target or budget stands in the way, and whether build, codes or effort is the limit."""
    runner_up: Candidate | None = None
    """The best other setting known to keep every target and budget, of another build if there is one."""
    no_runner_up: str | None = None
    """Why there is none, where there is a choice."""
    front: tuple[Candidate, ...] = ()
    """The settings of the final timing that no other beats in both recall and cost."""
    knee: Candidate | None = None
    prices: tuple[Price, ...] = ()
    worst_segment: tuple[str, Mean] | None = None
    """The segment of the held-out queries that does worst, with its own mean."""
    attempts: tuple[Attempt, ...] = ()
    trials: int = 0
    """How many settings were asked anything: as many as attempts name."""
    builds: int = 0
    seconds: float = 0.0
    grid_seconds_estimate: float | None = None
    cautions: tuple[Caution, ...] = ()
    snippet: str | None = None
    """The choice as code to paste."""
    verdict: Verdict | None = None
    """The outcome of every goal, of the choice or of what comes nearest; None in older files."""
