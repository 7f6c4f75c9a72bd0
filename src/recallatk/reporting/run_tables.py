"""The tables of a run: one row per trial, the Pareto front first, and one per build."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from recallatk.analysis.cost import price_of
from recallatk.analysis.headline import headline_measure
from recallatk.core import Mode
from recallatk.reporting.charts.breakdowns import builds
from recallatk.reporting.document import Table
from recallatk.reporting.labels import cut, fitted, interval, megabytes, number, weighted_by, with_margin
from recallatk.reporting.text import printable
from recallatk.reporting.trial_lines import measure_names

if TYPE_CHECKING:
    from collections.abc import Callable

    from recallatk.core import Load, Run
    from recallatk.reporting.charts.points import Curve
    from recallatk.reporting.labels import Naming
    from recallatk.reporting.trial_lines import TrialLine

_MODES = (Mode.LATENCY, Mode.THROUGHPUT, Mode.RATE)
_MODE_TITLES = {
    Mode.LATENCY: "Latency: one client, one query at a time",
    Mode.THROUGHPUT: "Throughput: closed loop, each client sends its next query after an answer",
    Mode.RATE: "Rate: open loop, Poisson arrivals; latency includes the time in the queue",
}
_PERCENTILES, _ALL_PERCENTILES = ("p50", "p95", "p99"), ("p50", "p90", "p95", "p99", "p99.9")
LONGEST_CELL = 40
_ROUNDS = "over rounds"
FRONT = "*"
UNWEIGHTED = "unweighted"


class Column(NamedTuple):
    """One column of a table: its name and the cell of each trial."""

    name: str
    cell: Callable[[TrialLine], str]
    words: bool = False


def tables(
    run: Run, lines: list[TrialLine], names: Naming, *, wide: bool = False, by: str = "mode"
) -> list[Table]:
    """One table per load mode that was measured, latency first; or one per load."""
    return [_table(run, members, names, title, wide=wide) for title, members in grouped(lines, by=by).items()]


def grouped(lines: list[TrialLine], *, by: str) -> dict[str, list[TrialLine]]:
    """Lines by the title of their table."""
    groups: dict[str, list[TrialLine]] = {}
    for mode in _MODES:
        for line in lines:
            if line.trial.load.mode is mode:
                title = str(line.trial.load) if by == "load" else _MODE_TITLES[mode]
                groups.setdefault(title, []).append(line)
    return groups


def _table(run: Run, lines: list[TrialLine], names: Naming, title: str, *, wide: bool) -> Table:
    ordered = in_order(lines, headline_measure(run))
    columns = columns_of(run, ordered, names, wide=wide)
    return filled(title, columns, [cells_of(column, ordered, wide=wide) for column in columns])


def filled(title: str, columns: list[Column], cells: list[list[str]]) -> Table:
    """Cells by column as a table."""
    return Table(
        title=title,
        header=[column.name for column in columns],
        rows=[list(row) for row in zip(*cells, strict=True)],
        words=sum(column.words for column in columns),
    )


def columns_of(
    run: Run, lines: list[TrialLine], names: Naming, *, wide: bool, rounds: bool = True
) -> list[Column]:
    """The columns of a table of trials.

    Args:
        run: what was measured.
        lines: the trials of the table.
        names: how they are told apart.
        wide: with the ends of every interval and more percentiles.
        rounds: with the range of the throughput over rounds.
    """
    loads = list(dict.fromkeys(line.trial.load for line in lines))
    weighted = any(line.measurement.score.weights is not None for line in lines)
    columns = _words(lines, names) + _load_columns(loads)
    headline = headline_measure(run)
    for measure in measure_names(run):
        columns += _measure_columns(measure, wide=wide)
        if weighted and (wide or measure == headline):
            columns.append(_unweighted(measure))
        columns += _part_columns(lines) if measure == headline else []
    if any(line.refused for line in lines):
        columns.append(Column("refused", lambda line: f"{line.refused:,}"))
    columns += _time_columns(loads, wide=wide) + _cost_columns(run) + _build_columns(wide=wide)
    return [column for column in columns if rounds or column.name != _ROUNDS]


def in_order(lines: list[TrialLine], measure: str | None) -> list[TrialLine]:
    """The Pareto front by rising recall, then the others likewise; trials without recall come last."""

    def place(line: TrialLine) -> tuple[bool, bool, float]:
        recall = line.value(measure)
        return not line.front, recall is None, recall or 0.0

    return sorted(lines, key=place)


def cells_of(column: Column, lines: list[TrialLine], *, wide: bool) -> list[str]:
    """The cells of a column, long labels truncated unless the table is wide."""
    texts = [column.cell(line) for line in lines]
    return fitted(texts, LONGEST_CELL) if column.words and not wide else texts


def _words(lines: list[TrialLine], names: Naming) -> list[Column]:
    columns = [Column("", lambda line: FRONT if line.front else "", True)]
    if len(names.engines) > 1:
        columns.append(Column("engine", lambda line: line.trial.engine, True))
    if any(names.build(line.trial) for line in lines):
        columns.append(Column("build", lambda line: names.build(line.trial) or "-", True))
    columns.append(Column("search", lambda line: names.search(line.trial) or "-", True))
    if names.repeats:
        columns.append(Column("repeat", lambda line: str(line.trial.repeat + 1)))
    return columns


def _load_columns(loads: list[Load]) -> list[Column]:
    columns = []
    if any(load.mode is not Mode.LATENCY for load in loads):
        columns.append(Column("clients", lambda line: number(line.measurement.calls.clients, "d")))
    if any(load.mode is Mode.THROUGHPUT for load in loads):
        columns += [
            Column("batch", lambda line: str(line.trial.load.batch)),
            Column("via", lambda line: str(line.trial.load.via)),
        ]
    if any(load.rate is not None for load in loads):
        columns.append(Column("rate/s", lambda line: number(line.trial.load.rate, ",.4g")))
    if any(load.p99_ms is not None for load in loads):
        columns += [
            Column("p99 limit ms", lambda line: number(line.trial.load.p99_ms, "g")),
            Column("highest rate/s", lambda line: number(line.measurement.highest_rate, ",.0f")),
        ]
    if len({load.seconds for load in loads}) > 1:
        columns.append(Column("seconds", lambda line: number(line.trial.load.seconds, "g")))
    return columns


def _measure_columns(measure: str, *, wide: bool) -> list[Column]:
    if not wide:
        return [Column(measure, lambda line: with_margin(line.measurement.score.measures.get(measure)))]
    return [
        Column(measure, lambda line: number(line.value(measure), ".4f")),
        Column("95 %", lambda line: interval(line.measurement.score.measures.get(measure), ".4f")),
    ]


def _unweighted(measure: str) -> Column:
    def cell(line: TrialLine) -> str:
        mean = line.measurement.score.measures.get(measure)
        return number(None if mean is None else mean.unweighted, ".3f")

    return Column(UNWEIGHTED, cell)


def _part_columns(lines: list[TrialLine]) -> list[Column]:
    """The headline measure of filtered and of unfiltered queries, where there are both."""
    names = list(dict.fromkeys(name for line in lines for name in line.parts))
    return [Column(name, partial(_part, name)) for name in names]


def _part(name: str, line: TrialLine) -> str:
    return with_margin(line.parts.get(name))


def _time_columns(loads: list[Load], *, wide: bool) -> list[Column]:
    columns = []
    for name in _ALL_PERCENTILES if wide else _PERCENTILES:
        columns += _percentile_columns(name, wide=wide)
    if any(load.mode is Mode.RATE for load in loads):
        columns.append(Column("late", _late))
    return [
        *columns,
        Column("QPS", lambda line: number(line.qps.median, ",.0f")),
        Column(_ROUNDS, lambda line: interval(line.qps, ",.0f")),
    ]


def _percentile_columns(name: str, *, wide: bool) -> list[Column]:
    columns = [Column(f"{name} ms", lambda line: number(line.latency_ms[name].value, ".3f"))]
    if wide:
        columns.append(Column("95 %", lambda line: interval(line.latency_ms[name], ".3f")))
    return columns


def _late(line: TrialLine) -> str:
    return number(None if line.lateness is None else line.lateness.share, ".1%")


def _cost_columns(run: Run) -> list[Column]:
    price = price_of(run.settings)
    if price is None:
        return []
    return [Column(price.unit, lambda line: number(price.per_million(line.qps.median), ".3g"))]


def _build_columns(*, wide: bool) -> list[Column]:
    columns = [
        Column("build s", lambda line: number(line.measurement.build.seconds, ".2f")),
        Column("memory MB", lambda line: megabytes(line.measurement.build.memory_bytes)),
        Column("size MB", lambda line: megabytes(line.measurement.build.size_bytes)),
    ]
    if wide:
        columns += [
            Column("build CPU s", lambda line: number(line.measurement.build.cpu_seconds, ".2f")),
            Column("peak MB", lambda line: megabytes(line.measurement.build.peak_bytes)),
        ]
    return columns


def setting_order(curve: Curve) -> list[int]:
    """The points of each load, its front by rising recall before the others."""
    return [
        point["n"]
        for point in sorted(
            curve.points, key=lambda each: (each["load"], not each["latencyFront"], each["recall"] or 0.0)
        )
    ]


def settings_table(curve: Curve) -> Table:
    """One row per measured setting, in the order of `setting_order`."""
    several = len(curve.loads) > 1
    weights = next((line.measurement.score.weights for line in curve.lines), None)
    header = ["Setting", *(["Load"] if several else []), "Front", curve.measure or "recall"]
    if weights is not None:
        header[-1:] = [f"{header[-1]}, {weighted_by(weights)}", "Unweighted"]
    parts = [column.name for column in _part_columns(curve.lines)]
    header += [name.capitalize() for name in parts]
    refused = any(line.refused for line in curve.lines)
    header += ["Refused"] if refused else []
    header += [f"{name} (ms)" for name in ("p50", "p95", "p99")]
    price = price_of(curve.run.settings)
    header += ["QPS", *([price.unit] if price else []), "Build (s)", "Memory (MB)", "Size (MB)"]
    rows = []
    for place in setting_order(curve):
        point, line = curve.points[place], curve.lines[place]
        built = line.measurement.build
        rows.append(
            [
                point["label"],
                *([printable(point["loadText"])] if several else []),
                "front" if point["latencyFront"] else "",
                point["recallText"],
                *([] if weights is None else [_unweighted(curve.measure or "").cell(line)]),
                *(_part(name, line) for name in parts),
                *([f"{line.refused:,}"] if refused else []),
                *(number(line.latency_ms[name].value, ".3f") for name in ("p50", "p95", "p99")),
                number(line.qps.median, ",.0f"),
                *([number(price.per_million(line.qps.median), ".3g")] if price else []),
                number(built.seconds, ".2f"),
                megabytes(built.memory_bytes),
                megabytes(built.size_bytes),
            ]
        )
    return Table("All settings", header, rows, 3 if several else 2)


def cost_table(curve: Curve) -> Table:
    """One row per index that was built."""
    rows = [
        [
            row["whole"],
            cut(printable(row["version"] or "-"), 120),
            str(row["threads"]),
            number(row["seconds"], ".2f"),
            *(number(row[name], ".1f") for name in ("memory", "peak", "size")),
        ]
        for row in builds(curve)
    ]
    header = ["Index", "Library", "Threads", "Build (s)", "Memory (MB)", "Peak (MB)", "Size (MB)"]
    title = "Every index of the settings above" if curve.left_out else "Every index that was built"
    return Table(title, header, rows, 2)
