"""The tables of a report: one line per trial, the Pareto front first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from recallatk.analysis.headline import headline_measure
from recallatk.core import Mode
from recallatk.report.naming import fitted
from recallatk.report.summary import measure_names, number

if TYPE_CHECKING:
    from collections.abc import Callable

    from recallatk.analysis.latency import Percentile, Spread
    from recallatk.core import Load, Mean, Run
    from recallatk.report.naming import Naming
    from recallatk.report.summary import Line

_MODES = (Mode.LATENCY, Mode.THROUGHPUT, Mode.RATE)
_MODE_TITLES = {
    Mode.LATENCY: "Latency: one client, one query at a time",
    Mode.THROUGHPUT: "Throughput: every client sends on when it has its answer",
    Mode.RATE: "Rate: queries arrive when they do, and wait where the ones before are not answered",
}
_PERCENTILES, _ALL_PERCENTILES = ("p50", "p95", "p99"), ("p50", "p90", "p95", "p99", "p99.9")
_CELL = 40
FRONT = "*"


@dataclass(frozen=True)
class Table:
    """Cells as text, not yet escaped; what was not measured is a dash."""

    title: str
    header: list[str]
    rows: list[list[str]]
    words: int
    """How many columns, from the left, are words and not numbers."""


class _Column(NamedTuple):
    name: str
    cell: Callable[[Line], str]
    words: bool = False


def tables(
    run: Run, lines: list[Line], names: Naming, *, wide: bool = False, by: str = "mode"
) -> list[Table]:
    """One table per load mode that was measured, latency first; or one per load."""
    made = []
    for mode in _MODES:
        groups: dict[str, list[Line]] = {}
        for line in lines:
            if line.trial.load.mode is mode:
                title = str(line.trial.load) if by == "load" else _MODE_TITLES[mode]
                groups.setdefault(title, []).append(line)
        made += [_table(run, members, names, title, wide=wide) for title, members in groups.items()]
    return made


def _table(run: Run, lines: list[Line], names: Naming, title: str, *, wide: bool) -> Table:
    loads = list(dict.fromkeys(line.trial.load for line in lines))
    columns = _words(lines, names) + _load_columns(loads)
    for measure in measure_names(run):
        columns += _measure_columns(measure, wide=wide)
    columns += _time_columns(loads, wide=wide) + _build_columns(wide=wide)
    ordered = in_order(lines, headline_measure(run))
    cells = [_cells(column, ordered, wide=wide) for column in columns]
    return Table(
        title=title,
        header=[column.name for column in columns],
        rows=[list(row) for row in zip(*cells, strict=True)],
        words=sum(column.words for column in columns),
    )


def in_order(lines: list[Line], measure: str | None) -> list[Line]:
    """The Pareto front by rising recall, then the others likewise; what has no recall comes last."""

    def place(line: Line) -> tuple[bool, bool, float]:
        recall = line.value(measure)
        return not line.front, recall is None, recall or 0.0

    return sorted(lines, key=place)


def _cells(column: _Column, lines: list[Line], *, wide: bool) -> list[str]:
    texts = [column.cell(line) for line in lines]
    return fitted(texts, _CELL) if column.words and not wide else texts


def _words(lines: list[Line], names: Naming) -> list[_Column]:
    columns = [_Column("", lambda line: FRONT if line.front else "", True)]
    if len(names.engines) > 1:
        columns.append(_Column("engine", lambda line: line.trial.engine, True))
    if any(names.build(line.trial) for line in lines):
        columns.append(_Column("build", lambda line: names.build(line.trial) or "-", True))
    columns.append(_Column("search", lambda line: names.search(line.trial) or "-", True))
    if names.repeats:
        columns.append(_Column("repeat", lambda line: str(line.trial.repeat + 1)))
    return columns


def _load_columns(loads: list[Load]) -> list[_Column]:
    columns = []
    if any(load.mode is not Mode.LATENCY for load in loads):
        columns.append(_Column("clients", lambda line: number(line.measurement.calls.clients, "d")))
    if any(load.mode is Mode.THROUGHPUT for load in loads):
        columns += [
            _Column("batch", lambda line: str(line.trial.load.batch)),
            _Column("via", lambda line: str(line.trial.load.via)),
        ]
    if any(load.rate is not None for load in loads):
        columns.append(_Column("rate/s", lambda line: number(line.trial.load.rate, ",.4g")))
    if any(load.p99_ms is not None for load in loads):
        columns += [
            _Column("p99 limit ms", lambda line: number(line.trial.load.p99_ms, "g")),
            _Column("highest rate/s", lambda line: number(line.measurement.highest_rate, ",.0f")),
        ]
    if len({load.seconds for load in loads}) > 1:
        columns.append(_Column("seconds", lambda line: number(line.trial.load.seconds, "g")))
    return columns


def _measure_columns(measure: str, *, wide: bool) -> list[_Column]:
    columns = [_Column(measure, lambda line: number(line.value(measure), ".4f"))]
    if wide:
        columns.append(
            _Column("95 %", lambda line: interval(line.measurement.score.measures.get(measure), ".4f"))
        )
    return columns


def _time_columns(loads: list[Load], *, wide: bool) -> list[_Column]:
    columns = []
    for name in _ALL_PERCENTILES if wide else _PERCENTILES:
        columns += _percentile_columns(name, wide=wide)
    if any(load.mode is Mode.RATE for load in loads):
        columns.append(_Column("late", _late))
    return [
        *columns,
        _Column("QPS", lambda line: number(line.qps.median, ",.0f")),
        _Column("over rounds", lambda line: interval(line.qps, ",.0f")),
    ]


def _percentile_columns(name: str, *, wide: bool) -> list[_Column]:
    columns = [_Column(f"{name} ms", lambda line: number(line.latency_ms[name].value, ".3f"))]
    if wide:
        columns.append(_Column("95 %", lambda line: interval(line.latency_ms[name], ".3f")))
    return columns


def _late(line: Line) -> str:
    return number(None if line.lateness is None else line.lateness.share, ".1%")


def _build_columns(*, wide: bool) -> list[_Column]:
    columns = [
        _Column("build s", lambda line: number(line.measurement.build.seconds, ".2f")),
        _Column("memory MB", lambda line: megabytes(line.measurement.build.memory_bytes)),
        _Column("size MB", lambda line: megabytes(line.measurement.build.size_bytes)),
    ]
    if wide:
        columns += [
            _Column("build CPU s", lambda line: number(line.measurement.build.cpu_seconds, ".2f")),
            _Column("peak MB", lambda line: megabytes(line.measurement.build.peak_bytes)),
        ]
    return columns


def interval(found: Mean | Percentile | Spread | None, shape: str) -> str:
    """The lower and the upper end, or a dash where there is no interval."""
    if found is None or found.low is None or found.high is None:
        return "-"
    return f"{format(found.low, shape)} to {format(found.high, shape)}"


def megabytes(count: int | None) -> str:
    """Bytes in millions."""
    return number(None if count is None else count / 1e6, ".1f")
