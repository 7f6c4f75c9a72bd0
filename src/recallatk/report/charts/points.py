"""The measured trials of a run as points between recall and cost: what every chart is drawn from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from recallatk.analysis.headline import headline_measure
from recallatk.core import Mode
from recallatk.goals import Target
from recallatk.goals.runs import goals_of
from recallatk.report.naming import cut, fitted, listed, naming
from recallatk.report.summary import number, summarise, tail_of
from recallatk.report.tables import interval, megabytes
from recallatk.report.text import printable

if TYPE_CHECKING:
    from recallatk.analysis.latency import Percentile
    from recallatk.core import Load, Mean, Run
    from recallatk.goals import Goal
    from recallatk.report.charts.kinds import Row
    from recallatk.report.naming import Naming
    from recallatk.report.summary import Line

LONGEST_LABEL, LONGEST_PARAMETERS, LONGEST_NAME = 80, 400, 48
_MODES = (Mode.LATENCY, Mode.THROUGHPUT, Mode.RATE)


@dataclass(frozen=True, eq=False)
class Curve:
    """Every measured trial as a point, and what all of them share."""

    run: Run
    lines: list[Line]
    names: Naming
    measure: str | None
    """The recall on the axis; None where none was measured."""
    tail: str
    """The latency on the axis: p95, or p50 where a sample under the first load is too small for that."""
    loads: list[Load]
    """Latency first; each is a question of its own."""
    engines: dict[str, str]
    """What each engine is called in a chart."""
    points: list[Row]
    goals: tuple[Goal, ...]
    left_out: int = 0
    """How many settings were measured beside these."""

    @property
    def wanted(self) -> tuple[float, ...]:
        """The values that targets ask of the measure on the axis."""
        return tuple(
            each.goal for each in self.goals if isinstance(each, Target) and each.name == self.measure
        )

    @property
    def main(self) -> list[Row]:
        """The points under the first load."""
        return [point for point in self.points if point["load"] == 0]


def curve_of(run: Run) -> Curve:
    """The points of a run, with the fronts among them."""
    lines, names, measure = summarise(run), naming(run), headline_measure(run)
    distinct = sorted(
        dict.fromkeys(line.trial.load for line in lines), key=lambda load: _MODES.index(load.mode)
    )
    loads = {load: place for place, load in enumerate(distinct)}
    tail = tail_of([line for line in lines if loads[line.trial.load] == 0])
    engines = dict(zip(names.engines, _short(names.engines, LONGEST_NAME), strict=True))
    labels = _short([names.label(line.trial, load=False) for line in lines], LONGEST_LABEL)
    points = [
        _point(place, line, label, engines[line.trial.engine], loads[line.trial.load], measure, tail)
        for place, (line, label) in enumerate(zip(lines, labels, strict=True))
    ]
    _mark_fronts(points)
    return Curve(run, lines, names, measure, tail, distinct, engines, points, goals_of(run).goals)


def _short(texts: list[str], width: int) -> list[str]:
    return fitted([printable(text) for text in texts], width)


def _point(place: int, line: Line, label: str, engine: str, load: int, measure: str | None, tail: str) -> Row:
    measurement, trial = line.measurement, line.trial
    built, mean = measurement.build, measurement.score.measures.get(measure or "")
    return {
        "n": place,
        "engine": engine,
        "label": label,
        "load": load,
        "loadText": str(trial.load),
        "build": _parameters(trial.build),
        "search": _parameters(trial.search),
        **_ends("recall", mean),
        **_ends("latency", line.latency_ms[tail]),
        "qps": line.qps.median,
        "qpsLow": line.qps.low,
        "qpsHigh": line.qps.high,
        "recallText": _with_interval(mean, ".4f"),
        "p50Text": _milliseconds(line.latency_ms["p50"]),
        "p95Text": _milliseconds(line.latency_ms["p95"]),
        "p99Text": _milliseconds(line.latency_ms["p99"]),
        "qpsText": number(line.qps.median, ",.0f"),
        "memoryText": f"{megabytes(built.memory_bytes)} MB",
        "buildText": f"{number(built.seconds, '.2f')} s",
    }


def _parameters(parameters: Any) -> str:
    return cut(printable(listed(parameters)), LONGEST_PARAMETERS) or "-"


def _ends(name: str, found: Mean | Percentile | None) -> Row:
    """A value with the ends of its interval, which close on it where it has none."""
    value = None if found is None else found.value
    low, high = (None, None) if found is None else (found.low, found.high)
    return {
        name: value,
        f"{name}Low": value if low is None else low,
        f"{name}High": value if high is None else high,
    }


def _with_interval(found: Mean | None, shape: str) -> str:
    ends = interval(found, shape)
    value = number(None if found is None else found.value, shape)
    return value if ends == "-" else f"{value} (95 %: {ends})"


def _milliseconds(found: Percentile) -> str:
    return "-" if found.value is None else f"{found.value:.3f} ms"


def _mark_fronts(points: list[Row]) -> None:
    """Whether a point is on the front of its load, and of its load and engine, by latency and by QPS."""
    from recallatk.analysis.pareto import front

    for axis, sign in (("latency", 1), ("qps", -1)):
        groups: dict[tuple[str, Any], list[Row]] = {}
        for point in points:
            point[f"{axis}Front"] = point[f"{axis}EngineFront"] = False
            groups.setdefault(("Front", point["load"]), []).append(point)
            groups.setdefault(("EngineFront", (point["load"], point["engine"])), []).append(point)
        for (kind, _), members in groups.items():
            costs = [None if each[axis] is None else sign * each[axis] for each in members]
            for place in front([each["recall"] for each in members], costs):
                members[place][f"{axis}{kind}"] = True
