"""Answers at a step to its numbers: measures with intervals, stale and short answers, latencies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from recallatk.analysis.compared import Compared
from recallatk.analysis.distribution import mean_of
from recallatk.analysis.latency import percentile, percentile_interval
from recallatk.core.churned import OverlapCounts, SearchStep
from recallatk.streaming.write_overlap import seen_states

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from recallatk.analysis.measures import Measure
    from recallatk.bench.load.writes import OverlappedCalls
    from recallatk.bench.messages import Weighed
    from recallatk.bench.trial_result import Answered
    from recallatk.core.measured import Mean
    from recallatk.streaming.index_rows import IndexRows
    from recallatk.streaming.step_truths import StepTruths

    Values = dict[str, NDArray[np.float64]]


@dataclass(frozen=True, eq=False)
class StepRecord:
    """What a journal keeps of one search: values per query, counts and latencies."""

    step: int
    live: int
    changed: int
    values: Values
    latencies_ns: NDArray[np.int64]
    memory_bytes: int | None
    size_bytes: int | None
    short: int
    stale: int
    stale_queries: int
    unknown: int
    evidence: str
    unused: str = ""
    overlap: Mapping[str, Any] | None = None
    """Counts of calls, and values per query before and after the write that they overlapped."""

    def to_plain(self) -> dict[str, Any]:
        """For JSON."""
        plain = {name: getattr(self, name) for name in _PLAIN}
        plain["values"] = {name: _listed(values) for name, values in self.values.items()}
        plain["latencies_ns"] = self.latencies_ns.tolist()
        if self.overlap is not None:
            both = {name: _listed(self.overlap[name]) for name in ("before", "after")}
            plain["overlap"] = {**self.overlap, **both}
        return plain

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> StepRecord:
        """Read it back."""
        given = {name: plain[name] for name in _PLAIN}
        overlap = plain.get("overlap")
        if overlap is not None:
            both = {name: _floats(overlap[name]) for name in ("before", "after")}
            overlap = {**overlap, **both}
        values = {name: _floats(each) for name, each in plain["values"].items()}
        return cls(
            **given,
            values=values,
            latencies_ns=np.asarray(plain["latencies_ns"], np.int64),
            overlap=overlap,
        )

    def summary(self) -> SearchStep:
        """The step as it is reported."""
        lasted = self.latencies_ns
        return SearchStep(
            step=self.step,
            live=self.live,
            changed=self.changed,
            measures={name: mean_of(values, name) for name, values in self.values.items()},
            per_query=self.values,
            p50_ms=percentile(lasted, 0.5),
            p95_ms=percentile(lasted, 0.95),
            p95_interval=percentile_interval(lasted, 0.95),
            memory_bytes=self.memory_bytes,
            size_bytes=self.size_bytes,
            short=self.short,
            stale=self.stale,
            stale_queries=self.stale_queries,
            unknown=self.unknown,
            evidence=self.evidence,
            unused=self.unused,
            overlap=None if self.overlap is None else self._overlap(self.overlap),
        )

    def _overlap(self, found: Mapping[str, Any]) -> OverlapCounts:
        name = str(found["measure"])
        return OverlapCounts(
            found["alone"],
            found["one_write"],
            found["discarded"],
            _mean(found["before"], name),
            _mean(found["after"], name),
        )


_PLAIN = (
    *("step", "live", "changed", "memory_bytes", "size_bytes"),
    *("short", "stale", "stale_queries", "unknown", "evidence", "unused"),
)


def _mean(values: NDArray[np.float64], name: str) -> Mean:
    return mean_of(values, name)


def _listed(values: NDArray[np.float64]) -> list[float | None]:
    return [None if np.isnan(each) else each for each in values.tolist()]


def _floats(values: Sequence[float | None]) -> NDArray[np.float64]:
    return np.asarray([np.nan if each is None else each for each in values], np.float64)


@dataclass(frozen=True, eq=False)
class StepScorer:
    """Scores answers of an index against the truth of the state that they saw."""

    truths: StepTruths
    measures: tuple[Measure, ...]
    rows: IndexRows
    k: int

    def quiet(
        self, answered: Answered, order: NDArray[np.int64], state: int, weight: Weighed, **facts: Any
    ) -> StepRecord:
        """Answers while nothing was written, in the order in which the queries were sent."""
        numbers = np.empty_like(answered.rows)
        numbers[order] = answered.rows
        truth = self.truths.of(state)
        compared = Compared(truth, self.rows.answers(numbers, state))
        stale = self.rows.stale(numbers, state)
        return StepRecord(
            values={str(each): each.per_query(compared) for each in self.measures},
            latencies_ns=answered.latencies_ns,
            memory_bytes=weight.memory_bytes,
            size_bytes=weight.size_bytes,
            short=self._short(numbers, np.full(len(numbers), self.truths.live[state])),
            stale=int(stale.sum()),
            stale_queries=int(stale.any(axis=1).sum()),
            unknown=int(self.rows.foreign(numbers).sum()),
            evidence=answered.evidence,
            unused=answered.unused,
            **facts,
        )

    def during_writes(
        self, calls: OverlappedCalls, states: Sequence[int], weight: Weighed, queries: int, **facts: Any
    ) -> StepRecord:
        """Answers while another thread wrote; `states` are those before the first and after each write."""
        state_of = np.asarray(states)
        seen = seen_states(calls.began_ns, calls.ended_ns, calls.write_began_ns, calls.write_ended_ns)
        kept = ~seen.discarded
        before, after = state_of[seen.first[kept]], state_of[seen.last[kept]]
        numbers, asked = calls.rows[kept], calls.queries[kept]
        one = seen.beside_one[kept]
        scored = [self._at_states(numbers, asked, states) for states in (before, after)]
        better = {name: np.fmax(scored[0][name], scored[1][name]) for name in scored[0]}
        name = str(self.measures[0])
        stale = self.rows.stale(numbers, before) & self.rows.stale(numbers, after)
        live = np.minimum(
            *(np.asarray([self.truths.live.get(each, 0) for each in of.tolist()]) for of in (before, after))
        )
        overlap = {
            "alone": int(seen.alone.sum()),
            "one_write": int(seen.beside_one.sum()),
            "discarded": int(seen.discarded.sum()),
            "measure": name,
            "before": _by_query(scored[0][name][one], asked[one], queries),
            "after": _by_query(scored[1][name][one], asked[one], queries),
        }
        return StepRecord(
            values={each: _by_query(values, asked, queries) for each, values in better.items()},
            latencies_ns=calls.ended_ns - calls.began_ns,
            memory_bytes=weight.memory_bytes,
            size_bytes=weight.size_bytes,
            short=self._short(numbers, live),
            stale=int(stale.sum()),
            stale_queries=len(np.unique(asked[stale.any(axis=1)])),
            unknown=int(self.rows.foreign(numbers).sum()),
            evidence="",
            overlap=overlap,
            **facts,
        )

    def _at_states(
        self, numbers: NDArray[np.int64], asked: NDArray[np.int64], states: NDArray[np.int64]
    ) -> Values:
        """Measures of each call against the truth of its state."""
        found: Values = {str(each): np.full(len(asked), np.nan) for each in self.measures}
        for state in np.unique(states).tolist():
            mine = np.flatnonzero(states == state)
            if state not in self.truths.live:
                continue  # nothing was live there
            truth = self.truths.of(state).take(asked[mine])
            compared = Compared(truth, self.rows.answers(numbers[mine], state))
            for each in self.measures:
                found[str(each)][mine] = each.per_query(compared)
        return found

    def _short(self, numbers: NDArray[np.int64], live: NDArray[np.int64]) -> int:
        return int(((numbers >= 0).sum(axis=1) < np.minimum(self.k, live)).sum())


def _by_query(values: NDArray[np.float64], asked: NDArray[np.int64], queries: int) -> NDArray[np.float64]:
    """The mean of each query's calls; NaN for queries without any."""
    known = ~np.isnan(values)
    counts = np.bincount(asked[known], minlength=queries)
    sums = np.bincount(asked[known], values[known], minlength=queries)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.where(counts > 0, sums / counts, np.nan))
