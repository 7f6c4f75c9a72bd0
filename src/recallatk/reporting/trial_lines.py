"""The numbers of each measured trial, and which trials are on the Pareto front of their load."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from recallatk.analysis.headline import headline_measure
from recallatk.core import Mode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from recallatk.analysis.latency import Lateness, Percentile, Spread
    from recallatk.core import Load, Mean, Measurement, Run, Trial


@dataclass(frozen=True, eq=False)
class TrialLine:
    """One measured trial: its recall and its costs."""

    measurement: Measurement
    latency_ms: dict[str, Percentile]
    qps: Spread
    lateness: Lateness | None
    """How late queries were sent, in an open loop."""
    asked: int
    """Number of distinct queries sent."""
    parts: dict[str, Mean] = field(default_factory=dict)
    """The headline measure of filtered and of unfiltered queries, where there are both."""
    front: bool = False
    """No other trial under the same load is as good in recall and cost and better in one."""

    @property
    def trial(self) -> Trial:
        """What was measured."""
        return self.measurement.trial

    @property
    def not_asked(self) -> int:
        """Number of queries that were never sent although the engine did not refuse their filters."""
        return len(self.measurement.answers) - self.asked - self.refused

    @property
    def refused(self) -> int:
        """Number of queries whose filters the engine refused."""
        return 0 if self.measurement.refused is None else self.measurement.refused.queries

    @property
    def changed(self) -> int:
        """Number of calls whose answer differs from the first one to the same query."""
        return 0 if self.measurement.others is None else len(self.measurement.others)

    def value(self, measure: str | None) -> float | None:
        """The mean of a measure; None where it was not measured."""
        found = self.measurement.score.measures.get(measure or "")
        return None if found is None else found.value


# Every section needs the same lines, and a run may have thousands.
_KNOWN_LINES: WeakKeyDictionary[Run, tuple[TrialLine, ...]] = WeakKeyDictionary()


def trial_lines(run: Run) -> list[TrialLine]:
    """One line per measurement, in the order of the run."""
    if run not in _KNOWN_LINES:
        measure = headline_measure(run)
        lines = [_line(measurement, measure) for measurement in run.measurements]
        best = {place for members in _by_load(lines).values() for place in _best(lines, members, measure)}
        _KNOWN_LINES[run] = tuple(replace(line, front=place in best) for place, line in enumerate(lines))
    return list(_KNOWN_LINES[run])


def _by_load(lines: Sequence[TrialLine]) -> dict[Load, list[int]]:
    """The places of the lines under each load; fronts are never compared across loads."""
    found: dict[Load, list[int]] = {}
    for place, line in enumerate(lines):
        found.setdefault(line.trial.load, []).append(place)
    return found


def measure_names(run: Run) -> list[str]:
    """Names of all measures, in order of first appearance."""
    return list(dict.fromkeys(name for each in run.measurements for name in each.score.measures))


def tail_of(lines: list[TrialLine]) -> str:
    """The latency percentile to compare by: p95, or p50 where a sample is too small for it."""
    return "p95" if all(line.latency_ms["p95"].value is not None for line in lines) else "p50"


def prices(lines: Sequence[TrialLine]) -> list[str]:
    """The costs that the fronts trade recall against, one per kind of load."""
    found = []
    for load, places in _by_load(lines).items():
        if any(lines[place].front for place in places):
            found.append(_price(load, [lines[place] for place in places]))
    return list(dict.fromkeys(found))


def _price(load: Load, members: list[TrialLine]) -> str:
    if load.mode is Mode.LATENCY:
        return tail_of(members)
    if load.mode is Mode.THROUGHPUT:
        return "QPS"
    return "p99" if load.p99_ms is None else "highest rate"


def _cost(line: TrialLine, tail: str) -> float | None:
    load = line.trial.load
    if load.mode is Mode.LATENCY:
        return line.latency_ms[tail].value
    if load.mode is Mode.RATE and load.p99_ms is None:
        return line.latency_ms["p99"].value
    gain = line.qps.median if load.mode is Mode.THROUGHPUT else line.measurement.highest_rate
    return None if gain is None else -gain


def _best(lines: list[TrialLine], places: list[int], measure: str | None) -> list[int]:
    """The Pareto front among lines under one load."""
    from recallatk.analysis.pareto import front

    members = [lines[place] for place in places]
    tail = tail_of(members)
    found = front(
        [line.value(measure) for line in members],
        [_cost(line, tail) for line in members],
        [line.refused for line in members],
    )
    return [places[each] for each in found]


def _line(measurement: Measurement, measure: str | None) -> TrialLine:
    from recallatk.analysis.latency import keeping_up, percentiles, qps

    calls, load = measurement.calls, measurement.trial.load
    closed = load.mode is not Mode.RATE
    return TrialLine(
        measurement=measurement,
        latency_ms=percentiles(calls),
        qps=qps(calls, one_client=closed and load.clients == 1),
        lateness=None if closed else keeping_up(calls),
        asked=int(measurement.asked.sum()),
        parts=_parts(measurement, measure),
    )


def _parts(measurement: Measurement, measure: str | None) -> dict[str, Mean]:
    if measurement.filters is None or measure is None:
        return {}
    from recallatk.analysis.filtered import filter_parts

    return filter_parts(measurement, measure)
