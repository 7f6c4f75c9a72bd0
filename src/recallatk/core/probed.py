"""Probes of existing collections: what they report about themselves, and the recall that was found."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from recallatk.core.data import Metric
    from recallatk.core.drifted import Shifts
    from recallatk.core.judgments import Verdict
    from recallatk.core.measured import Mean


@dataclass(frozen=True)
class Discovery:
    """What a collection reports about itself; None where it cannot be known."""

    target: str
    """The target, without a password."""
    engine: str
    rows: int | None
    dimension: int | None
    metric: Metric | None
    index: str | None
    """Definition of the index; None if there is none."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Search settings in force."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """Metadata columns and their types."""
    exact: str | None = None
    """What the engine's own exact search compares, such as "vector(384)"; None if it has none."""
    quantized: bool = False
    """Whether stored vectors are less precise than those that were inserted, as far as known."""
    notes: tuple[str, ...] = ()
    """What a reader must know, such as rows without a vector."""


@dataclass(frozen=True)
class ProbeCounts:
    """What became of the queries."""

    asked: int = 0
    """Queries sent to the collection."""
    scored: int = 0
    """Queries in the mean."""
    exact: int = 0
    """Queries with exact neighbors."""
    discarded: int = 0
    """Pairs with a write between answer and exact search."""
    refused: int = 0
    """Queries whose filter the collection cannot run natively."""
    no_eligible: int = 0
    """Queries whose filter no row passes: they have no recall."""
    short: int = 0
    """Answers with fewer rows than asked for, although there are more."""
    cut_ties: int = 0
    """Queries tied at rank k with more rows than were compared."""
    index_known: int = 0
    """Calls that the engine told whether they used the index."""
    index_used: int = 0


@dataclass(frozen=True)
class ProbeSegment:
    """Recall of a group of queries."""

    name: str
    recall: Mean

    def to_dict(self) -> dict[str, Any]:
        """The group for JSON."""
        mean = self.recall
        return {
            "segment": self.name,
            "recall": mean.value,
            "low": mean.low,
            "high": mean.high,
            "queries": mean.n,
        }


class NextStep(NamedTuple):
    """What helps after a probe."""

    advice: str
    command: str = ""
    """To paste; empty if the advice says all."""


@dataclass(frozen=True, eq=False)
class Probed:
    """Recall of an existing collection, with what it is based on."""

    target: str
    """Without a password."""
    engine: str
    rows: int | None
    dimension: int | None
    metric: Metric
    index: str | None
    settings: Mapping[str, Any]
    """Search settings in force, and those of this probe."""
    k: int
    recall: Mean
    bound: float | None
    """Recall is at least this, with 95 % confidence."""
    verdict: Verdict
    counts: ProbeCounts
    truth_source: str
    """Where the exact neighbors come from, and what that means."""
    latency_ms: Mapping[str, float | None]
    """Percentiles as this client saw them; None for those that need more calls."""
    sampled: bool = False
    """Whether rows of the collection served as queries."""
    any_time: bool = False
    """Whether interval and bound hold although the probe stopped when it was decided."""
    more_queries: int | None = None
    """About how many more queries would decide an undecided target; None if that is not known."""
    agreement: float | None = None
    """Recall of the engine's exact search against the other source of truth, on a sample of queries."""
    proxy_worth: float | None = None
    """About how many exact queries would give as narrow an interval without the proxy; None without one."""
    notes: tuple[str, ...] = ()
    refusals: tuple[str, ...] = ()
    """Reasons why filters were refused."""
    next_steps: tuple[NextStep, ...] = ()
    """What to do where a target is missed or answers are short."""
    per_query: Mapping[str, NDArray[np.float64]] = field(default_factory=dict, repr=False)
    """`recall`, `strict` and `latency_ms` of every query asked, in the order asked."""
    query_ids: tuple[Any, ...] = field(default=(), repr=False)
    """Ids of the scored queries, in the same order."""
    columns: pa.Table | None = field(default=None, repr=False)
    """Columns of the scored queries, in the same order."""
    by: Mapping[str, tuple[ProbeSegment, ...]] = field(default_factory=dict)
    """Recall by query columns, and by `filter` and `selectivity` where queries have filters."""

    @property
    def index_used(self) -> float | None:
        """Share of calls that used the index; None if the engine does not tell."""
        known = self.counts.index_known
        return self.counts.index_used / known if known else None

    def to_dict(self) -> dict[str, Any]:
        """The probe for JSON."""
        counts, recall = self.counts, self.recall
        return {
            "target": self.target,
            "engine": self.engine,
            "rows": self.rows,
            "dimension": self.dimension,
            "metric": str(self.metric),
            "index": self.index,
            "k": self.k,
            "queries": recall.n,
            "asked": counts.asked,
            "exact_queries": counts.exact,
            "recall": {
                "value": recall.value,
                "low": recall.low,
                "high": recall.high,
                "bound": self.bound,
                "ids": recall.ids,
                "any_time": self.any_time,
            },
            "verdict": self.verdict.to_dict(),
            "more_queries": self.more_queries,
            "truth_source": self.truth_source,
            "exact_agreement": self.agreement,
            "proxy_worth": self.proxy_worth,
            "sampled_rows_as_queries": self.sampled,
            "discarded": counts.discarded,
            "refused": counts.refused,
            "no_eligible": counts.no_eligible,
            "short": counts.short,
            "cut_ties": counts.cut_ties,
            "index_used": self.index_used,
            "latency_ms": dict(self.latency_ms),
            "settings": {name: str(value) for name, value in self.settings.items()},
            "by": {name: [each.to_dict() for each in found] for name, found in self.by.items()},
            "notes": list(self.notes),
            "next_steps": [each._asdict() for each in self.next_steps],
        }


@dataclass(frozen=True, eq=False)
class WatchLook:
    """One look at the collection: a probe, or the reason why there is none."""

    when: str
    """Start of the look, ISO 8601 in UTC."""
    probed: Probed | None
    problem: str = ""
    """Why there is no probe."""
    wait: float = 0.0
    """Seconds until the next look."""
    shifts: Shifts | None = None
    """The triggers, where they decide whether to probe."""

    @property
    def skipped(self) -> bool:
        """Whether no trigger fired, so that there was no probe."""
        return self.probed is None and not self.problem

    @property
    def outcome(self) -> str | None:
        """PASS, FAIL or UNDECIDED; None without goals or without a probe."""
        return None if self.probed is None else self.probed.verdict.outcome


@dataclass(frozen=True)
class EffortLook:
    """One setting that a tuning of an existing collection tried."""

    search: Mapping[str, Any]
    queries: int
    """Queries asked before it was decided."""
    mean: float
    p50_ms: float | None
    passed: bool


@dataclass(frozen=True, eq=False)
class EffortBucket:
    """The least effort for the queries of one filter selectivity."""

    name: str
    queries: int
    search: Mapping[str, Any]
    """The chosen search parameters; empty if there are none."""
    recall: Mean | None
    """Of the first target, on the held-out queries of the bucket."""
    why: str
    """Why no setting is chosen; empty if one is."""

    @property
    def met(self) -> bool:
        """Whether a setting meets the targets."""
        return not self.why

    def to_dict(self) -> dict[str, Any]:
        """The bucket for JSON."""
        return {
            "selectivity": self.name,
            "queries": self.queries,
            "met": self.met,
            "why": self.why,
            "search": dict(self.search),
            "recall": _mean(self.recall),
        }


def _mean(mean: Mean | None, **more: Any) -> dict[str, Any] | None:
    if mean is None:
        return None
    return {"value": mean.value, "low": mean.low, "high": mean.high, "n": mean.n, **more}


@dataclass(frozen=True, eq=False)
class TunedEffort:
    """The least effort with which an existing collection meets its targets."""

    target: str
    engine: str
    goals: tuple[str, ...]
    met: bool
    why: str
    """Why no setting is chosen; empty if one is."""
    search: Mapping[str, Any]
    """The chosen search parameters; empty if there are none."""
    snippet: str
    """Text to paste."""
    k: int
    recall: Mean | None
    """Of the first target, on the held-out queries."""
    bound: float | None
    latency_ms: Mapping[str, float | None]
    """On the held-out queries, as this client saw it."""
    truth_source: str
    looks: tuple[EffortLook, ...] = ()
    """Every setting tried, by ascending effort."""
    sent: int = 0
    """Queries sent in all."""
    validations: int = 0
    buckets: tuple[EffortBucket, ...] = ()
    """One setting per filter selectivity, where one setting cannot serve all."""

    @property
    def served(self) -> bool:
        """Whether one setting, or one per selectivity, meets the targets for all queries."""
        return self.met or (bool(self.buckets) and all(each.met for each in self.buckets))

    def to_dict(self) -> dict[str, Any]:
        """The tuning for JSON."""
        return {
            "target": self.target,
            "engine": self.engine,
            "goals": list(self.goals),
            "met": self.met,
            "why": self.why,
            "search": dict(self.search),
            "snippet": self.snippet,
            "k": self.k,
            "recall": _mean(self.recall, bound=self.bound),
            "latency_ms": dict(self.latency_ms),
            "truth_source": self.truth_source,
            "tried": [
                {
                    "search": dict(each.search),
                    "queries": each.queries,
                    "mean": each.mean,
                    "p50_ms": each.p50_ms,
                    "passed": each.passed,
                }
                for each in self.looks
            ],
            "queries_sent": self.sent,
            "validations": self.validations,
            "by_selectivity": [each.to_dict() for each in self.buckets],
        }
