"""The result of tuning: the setting to run, its validation, and everything tried."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from recallatk.display import renderer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from recallatk.core.judgments import GoalResult, Verdict
    from recallatk.core.measured import Caution, Mean
    from recallatk.core.trials import Parameters

FEW_HELD_OUT = "few-held-out"
"""Kind of the caution on a target that was validated on few queries."""


@dataclass(frozen=True)
class Candidate:
    """One setting with its measurements; None where not measured."""

    engine: str
    build: Parameters
    search: Parameters
    measures: Mapping[str, Mean] = field(default_factory=dict)
    """Means over the tuning queries sent to it."""
    bound: float | None = None
    """Lower confidence bound of the first target's measure."""
    latency_ms: Mapping[str, float | None] = field(default_factory=dict)
    qps: float | None = None
    memory_bytes: int | None = None
    size_bytes: int | None = None
    build_seconds: float | None = None
    version: str | None = None
    queries: int = 0
    """Number of tuning queries sent to it."""
    targets: tuple[GoalResult, ...] = field(default=(), compare=False)
    """Outcome of each target over those queries; empty if read from a file."""


@dataclass(frozen=True)
class Attempt:
    """A build or setting that was tried or skipped, with the verdict."""

    engine: str
    build: Parameters
    search: Parameters | None
    """Search parameters; None for the build itself."""
    rows: int
    """Number of corpus rows; on a sample, the verdict only filters."""
    verdict: str
    """passed, failed, undecided, skipped, crashed, over budget."""
    why: str = ""
    bound: float | None = None
    p95_ms: float | None = None
    """p95 of the final timing; None if not timed there, because other latencies are not comparable."""
    seconds: float = 0.0


@dataclass(frozen=True)
class ChoiceQuality:
    """One measure of judged relevance of the choice and of exact search, over judged held-out queries."""

    measure: str
    exact: Mean
    choice: Mean
    lost: float
    """Exact search minus the choice, over the same queries."""
    low: float | None
    """Ends of the 95 % interval of that difference; None with too few queries."""
    high: float | None


@dataclass(frozen=True)
class ChurnedEffort:
    """One search setting of the choice's build, before and after a runbook."""

    search: Parameters
    first: Mean
    """The first target's measure at the first search."""
    last: Mean
    """The same at the last search."""
    outcome: str | None
    """PASS, FAIL or UNDECIDED: the targets at the last search; None if the replay failed."""


@dataclass(frozen=True)
class Price:
    """Cost of more recall along the front."""

    low: float
    high: float
    ratio: float
    """The cost at `high` over the cost at `low`."""


@dataclass(frozen=True)
class Tuned:
    """The outcome of tuning."""

    targets: tuple[str, ...]
    budgets: tuple[str, ...]
    prefer: str
    """The cost that was minimized: p95, qps, memory, build, or cost per query."""
    met: bool
    """Whether the choice meets every target on held-out queries and stays within every budget."""
    choice: Candidate | None
    """The setting to run; None if no setting meets the goals."""
    validated: Mapping[str, Mean]
    """Means of the choice on the held-out queries."""
    looks: int
    """Number of validations that led to the choice: one, and one for every rejected setting."""
    nearest: Candidate | None = None
    """The closest setting, if none meets the goals."""
    binding: str | None = None
    """The goal that no setting meets, and whether build, quantization or effort is the limit."""
    runner_up: Candidate | None = None
    """The best alternative that meets every target and budget, from another build if possible."""
    no_runner_up: str | None = None
    """Why a choice has no runner-up."""
    front: tuple[Candidate, ...] = ()
    """Pareto front of recall and cost over the settings of the final timing."""
    knee: Candidate | None = None
    prices: tuple[Price, ...] = ()
    worst_segment: tuple[str, Mean] | None = None
    """The segment of held-out queries with the lowest mean, and that mean."""
    attempts: tuple[Attempt, ...] = ()
    trials: int = 0
    """Number of search settings among the attempts."""
    builds: int = 0
    seconds: float = 0.0
    grid_seconds_estimate: float | None = None
    cautions: tuple[Caution, ...] = ()
    snippet: str | None = None
    """Code that builds and searches the choice."""
    verdict: Verdict | None = None
    """Outcome of every goal, for the choice or the closest setting; None in older files."""
    per_hour: float | None = None
    """Price of the machine per hour; None if not stated."""
    currency: str | None = None
    weight: str | None = None
    """Query column that all means are weighted by; None if all queries count the same."""
    effective_queries: float | None = None
    """Effective number of the tuning queries; None without weights."""
    downstream: tuple[ChoiceQuality, ...] = ()
    """Judged relevance of the choice beside exact search; empty without judgments or without a choice."""
    downstream_notes: tuple[str, ...] = ()
    """What a reader must know of the judgments, as sentences without a period."""

    churn: str | None = None
    """The runbook after which the targets were judged again, in words; None without one."""
    churned: tuple[ChurnedEffort, ...] = ()
    """The choice and more effort of its build after the runbook, in rising order of effort."""
    churn_failure: str | None = None
    """Why the replay of the runbook failed; None if it did not."""

    @property
    def lasting(self) -> Parameters | None:
        """The search of least effort that is proven to meet every target after the runbook."""
        return next((each.search for each in self.churned if each.outcome == "PASS"), None)

    def __str__(self) -> str:
        shown: str = renderer().tuned_text(self)
        return shown
