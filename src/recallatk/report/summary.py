"""One line of numbers per measurement: what every form of report shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from recallatk.analysis.latency import percentile

if TYPE_CHECKING:
    from recallatk.core import Measurement, Run

_PERCENTILES = {"p50": 0.50, "p95": 0.95, "p99": 0.99}


@dataclass(frozen=True)
class Line:
    """One trial, its recall and its price."""

    trial: str
    search: str
    recall: dict[str, float | None]
    strict: dict[str, float | None]
    latency_ms: dict[str, float | None]
    qps: float | None
    build_seconds: float | None
    memory_bytes: int | None
    size_bytes: int | None


def summarise(run: Run) -> list[Line]:
    """Every measurement of a run, in its order."""
    return [_line(measurement) for measurement in run.measurements]


def _line(measurement: Measurement) -> Line:
    calls, built = measurement.latencies_ns, measurement.build
    total_seconds = float(calls.sum()) / 1e9
    measures = measurement.score.measures
    return Line(
        trial=str(measurement.trial),
        search=", ".join(f"{name}={value}" for name, value in measurement.trial.search),
        recall={name: mean.value for name, mean in measures.items()},
        strict={name: mean.ids for name, mean in measures.items()},
        latency_ms={name: percentile(calls, share) for name, share in _PERCENTILES.items()},
        qps=calls.size / total_seconds if total_seconds else None,
        build_seconds=built.seconds,
        memory_bytes=built.memory_bytes,
        size_bytes=built.size_bytes,
    )


def header_and_rows(run: Run) -> tuple[list[str], list[list[str]]]:
    """The cells of the table as text; what was not measured is a dash."""
    lines = summarise(run)
    measures = list(lines[0].recall) if lines else []
    header = ["search", *measures, "p50 ms", "p95 ms", "p99 ms", "QPS", "build s", "memory MB"]
    rows = [
        [
            line.search or "-",
            *(number(line.recall[name], ".4f") for name in measures),
            *(number(line.latency_ms[name], ".3f") for name in _PERCENTILES),
            number(line.qps, ",.0f"),
            number(line.build_seconds, ".2f"),
            number(None if line.memory_bytes is None else line.memory_bytes / 1e6, ".1f"),
        ]
        for line in lines
    ]
    return header, rows


def number(value: float | None, shape: str) -> str:
    """A number in a shape, or a dash for what was not measured."""
    return "-" if value is None else format(value, shape)


def title(run: Run) -> str:
    """What was measured on what."""
    trial = run.measurements[0].trial
    build = ", ".join(f"{name}={value}" for name, value in trial.build)
    return f"{trial.engine}({build}) on {run.dataset}, {run.metric}"


def notes(run: Run) -> list[str]:
    """What a reader needs to judge the numbers: what was timed, on what, and what was odd."""
    first = run.measurements[0]
    said = _sample_notes(run)
    said += [
        f"Timed: {run.timed}.",
        f"Queries: {first.score.queries:,}, rounds: {len(first.latencies_ns)}. "
        f"Engine: {first.build.version or first.build.engine}. "
        f"Machine: {run.environment.get('processor')}, {run.environment.get('cores')} cores.",
        f"Index answered: {first.exercised}.",
    ]
    said += _interval_notes(run)
    said += _tie_notes(summarise(run))
    for line, measurement in zip(summarise(run), run.measurements, strict=True):
        odd = {kind: count for kind, count in measurement.score.anomalies.items() if count}
        if odd:
            listed = ", ".join(f"{kind} {count:,}" for kind, count in odd.items())
            said.append(f"Odd answers at {line.search}: {listed}.")
    return said


def _sample_notes(run: Run) -> list[str]:
    if run.sampled_from is None:
        return []
    return [
        f"The corpus is a sample of {run.sampled_from:,} rows: fewer rows are easier to search, and "
        "recall on them does not carry over to all."
    ]


def _interval_notes(run: Run) -> list[str]:
    """How sure each recall is; nothing for a run that was saved without intervals."""
    said = []
    for name in run.measurements[0].score.measures:
        means = [each.score.measures[name] for each in run.measurements]
        if all(mean.low is not None for mean in means):
            listed = ", ".join(f"{number(mean.low, '.4f')} to {number(mean.high, '.4f')}" for mean in means)
            said.append(f"{name}, 95 % intervals over queries: {listed}.")
    return said


def _tie_notes(lines: list[Line]) -> list[str]:
    """The strict-id values of every measure that ties at the boundary change."""
    said = []
    for name in lines[0].recall:
        pairs = [(line.recall[name], line.strict[name]) for line in lines]
        if any(value != strict for value, strict in pairs):
            listed = ", ".join(number(strict, ".4f") for _, strict in pairs)
            said.append(f"{name} by strict ids, cutting ties by row number: {listed}.")
    return said
