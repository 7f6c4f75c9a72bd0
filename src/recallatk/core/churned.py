"""The result of a replayed runbook: one curve of recall over steps for each setting."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from recallatk.core.judgments import Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray

    from recallatk.core.measured import Mean
    from recallatk.core.trials import Parameters


# Notes on changes that have no time.
NO_MAINTENANCE, DURING_SEARCHES = "no maintenance of its own", "during searches"


class Operation(StrEnum):
    """What a step of a runbook does."""

    INSERT = "insert"
    DELETE = "delete"
    REPLACE = "replace"
    """Rows get other vectors: the old ones are deleted and the new ones inserted."""
    SEARCH = "search"
    MAINTAIN = "maintain"
    """The engine's own maintenance, such as vacuum, optimize or merge."""
    REBUILD = "rebuild"
    """A new build from the live rows."""

    @property
    def recovers(self) -> bool:
        """Whether recall may come back after it, with the same rows."""
        return self in (Operation.MAINTAIN, Operation.REBUILD)


@dataclass(frozen=True)
class AppliedChange:
    """A change of the index, with what it took."""

    step: int
    operation: Operation
    deleted: int
    inserted: int
    seconds: float | None
    """None if the engine has no such operation, or if it was timed as part of concurrent searches."""
    note: str = ""


@dataclass(frozen=True)
class OverlapCounts:
    """Calls of a search that ran while another thread wrote."""

    alone: int
    """Calls that overlapped no write: scored against the one state that there was."""
    one_write: int
    """Calls that overlapped one write: scored against the states before and after it."""
    discarded: int
    """Calls that overlapped several writes: not scored."""
    before: Mean
    """Recall of the calls that overlapped one write against the state before it."""
    after: Mean
    """The same against the state after it."""


@dataclass(frozen=True, eq=False)
class SearchStep:
    """All queries at one step, against the truth of that step."""

    step: int
    live: int
    """Rows that were live."""
    changed: int
    """Rows deleted or inserted since the first search."""
    measures: Mapping[str, Mean]
    per_query: Mapping[str, NDArray[np.float64]] = field(repr=False)
    p50_ms: float | None
    p95_ms: float | None
    p95_interval: tuple[float | None, float | None]
    memory_bytes: int | None
    size_bytes: int | None
    short: int
    """Queries with fewer rows than there are."""
    stale: int
    """Deleted rows among the answers."""
    stale_queries: int
    """Queries with a deleted row among the answers."""
    unknown: int
    """Rows among the answers that never were in the index."""
    evidence: str = ""
    """What shows that the index answered; empty with searches during writes."""
    unused: str = ""
    """Why nothing shows it: the engine may have scanned. Empty with evidence."""
    overlap: OverlapCounts | None = None
    """With searches during writes, how the calls overlapped them."""


@dataclass(frozen=True)
class Recovery:
    """What maintenance or a rebuild did to recall, and what it took."""

    operation: Operation
    step: int
    seconds: float | None
    gain: Mean
    """Recall after it minus recall before it, over the same queries and rows."""


@dataclass(frozen=True)
class CurveFailure:
    """Where and why an engine stopped."""

    step: int | None
    """None for the build."""
    kind: str
    message: str


@dataclass(frozen=True, eq=False)
class ChurnCurve:
    """One setting over all steps of a runbook."""

    engine: str
    build: Parameters
    search: Parameters
    measure: str
    """The measure that decay, recovery and charts are of."""
    version: str | None = None
    build_seconds: float | None = None
    searches: tuple[SearchStep, ...] = ()
    changes: tuple[AppliedChange, ...] = ()
    decay: Mean | None = None
    """Recall at the last search before any recovery minus recall at the first one; None without two."""
    recoveries: tuple[Recovery, ...] = ()
    failure: CurveFailure | None = None
    resumed: tuple[int, ...] = ()
    """Steps before which the index was built again and replayed, because the command was resumed."""
    verdict: Verdict = field(default_factory=Verdict)
    """The goals at the last search before any recovery."""

    @property
    def label(self) -> str:
        """Engine and search parameters."""
        said = ", ".join(f"{name}={value}" for name, value in self.search)
        return f"{self.engine}[{said}]" if said else self.engine

    @property
    def churned(self) -> tuple[SearchStep, ...]:
        """The searches before maintenance or a rebuild at the end."""
        after = [each.step for each in self.recoveries]
        return tuple(each for each in self.searches if not after or each.step < min(after))


@dataclass(frozen=True, eq=False)
class Churned:
    """A runbook replayed on several settings."""

    dataset: str
    metric: str
    runbook: str
    """What the runbook does, in words."""
    steps: int
    queries: int
    at: tuple[int, ...]
    curves: tuple[ChurnCurve, ...]
    concurrent: bool = False
    """Whether searches ran while another thread wrote."""
    truth_seconds: float | None = None
    fingerprints: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, Any] = field(default_factory=dict)

    @property
    def outcome(self) -> str | None:
        """FAIL if a goal is missed, UNDECIDED if one is, PASS if all are met; None without goals."""
        found = {each.verdict.outcome for each in self.curves} - {None}
        for outcome in ("FAIL", "UNDECIDED", "PASS"):
            if outcome in found:
                return outcome
        return None
