"""One line of numbers per measurement: what every form of report shows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from recallatk.analysis.headline import headline_measure
from recallatk.core import Mode

if TYPE_CHECKING:
    from recallatk.analysis.latency import Lateness, Percentile, Spread
    from recallatk.core import Load, Measurement, Run, Trial


@dataclass(frozen=True, eq=False)
class Line:
    """One measured trial, its recall and its price."""

    measurement: Measurement
    latency_ms: dict[str, Percentile]
    qps: Spread
    lateness: Lateness | None
    """How far the sending was behind, for an open loop."""
    asked: int
    """How many different queries were asked."""
    front: bool = False
    """No other trial under the same load is as good in recall and cost and better in one."""

    @property
    def trial(self) -> Trial:
        """What was measured."""
        return self.measurement.trial

    @property
    def not_asked(self) -> int:
        """How many queries there was no time for."""
        return len(self.measurement.answers) - self.asked

    @property
    def changed(self) -> int:
        """How many calls got another answer than their query's first."""
        return 0 if self.measurement.others is None else len(self.measurement.others)

    def value(self, measure: str | None) -> float | None:
        """The mean of a measure; None where it was not measured."""
        found = self.measurement.score.measures.get(measure or "")
        return None if found is None else found.value


def summarise(run: Run) -> list[Line]:
    """Every measurement of a run, in its order."""
    lines = [_line(measurement) for measurement in run.measurements]
    measure = headline_measure(run)
    loads = dict.fromkeys(line.trial.load for line in lines)
    best = {place for load in loads for place in _best(lines, load, measure)}
    return [replace(line, front=place in best) for place, line in enumerate(lines)]


def measure_names(run: Run) -> list[str]:
    """Every measure of the run, in the order in which they come up."""
    return list(dict.fromkeys(name for each in run.measurements for name in each.score.measures))


def tail_of(lines: list[Line]) -> str:
    """The latency that recall is weighed against: p95, or p50 where a sample is too small for that."""
    return "p95" if all(line.latency_ms["p95"].value is not None for line in lines) else "p50"


def price(lines: list[Line], load: Load) -> str:
    """What recall is weighed against under a load, in words."""
    if load.mode is Mode.LATENCY:
        return tail_of([line for line in lines if line.trial.load == load])
    if load.mode is Mode.THROUGHPUT:
        return "QPS"
    return "p99" if load.p99_ms is None else "highest rate"


def _cost(line: Line, tail: str) -> float | None:
    load = line.trial.load
    if load.mode is Mode.LATENCY:
        return line.latency_ms[tail].value
    if load.mode is Mode.RATE and load.p99_ms is None:
        return line.latency_ms["p99"].value
    gain = line.qps.median if load.mode is Mode.THROUGHPUT else line.measurement.highest_rate
    return None if gain is None else -gain


def _best(lines: list[Line], load: Load, measure: str | None) -> list[int]:
    """Other loads are other questions: only trials under the same one compete."""
    from recallatk.analysis.pareto import front

    places = [place for place, line in enumerate(lines) if line.trial.load == load]
    members = [lines[place] for place in places]
    tail = tail_of(members)
    found = front([line.value(measure) for line in members], [_cost(line, tail) for line in members])
    return [places[each] for each in found]


def _line(measurement: Measurement) -> Line:

    from recallatk.analysis.latency import keeping_up, percentiles, qps

    calls, load = measurement.calls, measurement.trial.load
    closed = load.mode is not Mode.RATE
    return Line(
        measurement=measurement,
        latency_ms=percentiles(calls),
        qps=qps(calls, one_client=closed and load.clients == 1),
        lateness=None if closed else keeping_up(calls),
        asked=int(measurement.asked.sum()),
    )


def number(value: float | None, shape: str) -> str:
    """A number in a shape, or a dash for what was not measured."""
    return "-" if value is None else format(value, shape)
