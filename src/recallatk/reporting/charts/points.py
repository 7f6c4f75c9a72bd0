"""The measured trials of a run as points between recall and cost, and the selection that a page shows."""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from recallatk.analysis.headline import headline_measure, recall_cutoffs
from recallatk.analysis.pareto import front
from recallatk.core import Mode
from recallatk.goals import Target
from recallatk.goals.runs import goals_of
from recallatk.reporting.labels import cut, fitted, listed, megabytes, naming, number, with_margin
from recallatk.reporting.text import printable
from recallatk.reporting.trial_lines import tail_of, trial_lines

if TYPE_CHECKING:
    from recallatk.analysis.latency import Percentile
    from recallatk.core import Load, Mean, Run
    from recallatk.goals import Goal
    from recallatk.reporting.charts.theme import Row
    from recallatk.reporting.labels import Naming
    from recallatk.reporting.trial_lines import TrialLine

_Point = TypeVar("_Point")
LONGEST_LABEL, LONGEST_NAME = 80, 48
_LONGEST_PARAMETERS = 400
_MODES = (Mode.LATENCY, Mode.THROUGHPUT, Mode.RATE)
MOST_SHOWN = 1_000
_FRONTS = ("latencyFront", "qpsFront", "latencyEngineFront", "qpsEngineFront")


@dataclass(frozen=True, eq=False)
class Curve:
    """Every measured trial as a point, and what all of them share."""

    run: Run
    lines: list[TrialLine]
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
    def k(self) -> int | None:
        """The k of the recall on the axis."""
        return next(iter(recall_cutoffs([self.measure or ""])), None)

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

    @property
    def candidates(self) -> list[Row]:
        """The points that a verdict may choose: under the first load, and not kept from earlier settings."""
        kept = set(self.run.kept)
        planned = [point for point in self.points if self.lines[point["n"]].trial not in kept]
        first = min((point["load"] for point in planned), default=0)
        return [point for point in planned if point["load"] == first]


def curve_of(run: Run) -> Curve:
    """The points of a run, with the fronts among them."""
    lines, names, measure = trial_lines(run), naming(run), headline_measure(run)
    distinct = sorted(
        dict.fromkeys(line.trial.load for line in lines), key=lambda load: _MODES.index(load.mode)
    )
    loads = {load: place for place, load in enumerate(distinct)}
    tail = tail_of([line for line in lines if loads[line.trial.load] == 0])
    engines = dict(zip(names.engines, short_labels(names.engines, LONGEST_NAME), strict=True))
    labels = short_labels([names.label(line.trial, load=False) for line in lines], LONGEST_LABEL)
    points = [
        _point(place, line, label, engines[line.trial.engine], loads[line.trial.load], measure, tail)
        for place, (line, label) in enumerate(zip(lines, labels, strict=True))
    ]
    _mark_fronts(points)
    return Curve(run, lines, names, measure, tail, distinct, engines, points, goals_of(run).goals)


def short_labels(texts: list[str], width: int) -> list[str]:
    """Texts that fit a chart; those that would look alike get a number."""
    return fitted([printable(text) for text in texts], width)


def _point(
    place: int, line: TrialLine, label: str, engine: str, load: int, measure: str | None, tail: str
) -> Row:
    measurement, trial = line.measurement, line.trial
    built, mean = measurement.build, measurement.score.measures.get(measure or "")
    return {
        "n": place,
        "engine": engine,
        "label": label,
        "load": load,
        "loadText": str(trial.load),
        "build": parameters_text(trial.build),
        "search": parameters_text(trial.search),
        **with_ends("recall", mean),
        **with_ends("latency", line.latency_ms[tail]),
        "refused": line.refused,
        "qps": line.qps.median,
        "qpsLow": line.qps.low,
        "qpsHigh": line.qps.high,
        "recallText": with_margin(mean),
        "p50Text": number(line.latency_ms["p50"].value, ".3f", "ms"),
        "p95Text": number(line.latency_ms["p95"].value, ".3f", "ms"),
        "p99Text": number(line.latency_ms["p99"].value, ".3f", "ms"),
        "qpsText": number(line.qps.median, ",.0f"),
        "memoryText": f"{megabytes(built.memory_bytes)} MB",
        "buildText": f"{number(built.seconds, '.2f')} s",
    }


def parameters_text(parameters: Any) -> str:
    """Parameters that fit a tooltip."""
    return cut(printable(listed(parameters)), _LONGEST_PARAMETERS) or "-"


def with_ends(name: str, found: Mean | Percentile | None) -> Row:
    """A value with the ends of its interval, which close on it where it has none."""
    value = None if found is None else found.value
    low, high = (None, None) if found is None else (found.low, found.high)
    return {
        name: value,
        f"{name}Low": value if low is None else low,
        f"{name}High": value if high is None else high,
    }


def _mark_fronts(points: list[Row]) -> None:
    """Whether a point is on the front of its load, and of its load and engine, by latency and by QPS."""
    for axis in ("latency", "qps"):
        groups: dict[tuple[str, Any], list[Row]] = {}
        for point in points:
            groups.setdefault(("Front", point["load"]), []).append(point)
            groups.setdefault(("EngineFront", (point["load"], point["engine"])), []).append(point)
        for (kind, _), members in groups.items():
            mark_front(members, axis, f"{axis}{kind}", gain=axis == "qps")


def mark_front(points: list[Row], axis: str, flag: str, *, gain: bool = False, loss: bool = False) -> None:
    """Flag the points that are on the Pareto front of recall and an axis.

    Args:
        points: those that are compared with each other.
        axis: the field of the cost.
        flag: the field that says whether a point is on the front.
        gain: more is better on the axis.
        loss: less is better of what stands for recall.
    """
    recalls, costs = _signed(points, "recall", loss), _signed(points, axis, gain)
    best = set(front(recalls, costs, [each.get("refused", 0) for each in points]))
    for place, point in enumerate(points):
        point[flag] = place in best


def _signed(points: list[Row], field: str, negative: bool) -> list[float | None]:
    return [-each[field] if negative and each[field] is not None else each[field] for each in points]


def shortened(curve: Curve, always: int | None = None) -> tuple[Curve, int | None]:
    """The curve with at most a thousand points: the fronts, and those nearest to them.

    Args:
        curve: every setting that was measured.
        always: a point that is kept in any case.

    Returns:
        The curve, its points numbered anew, and the new number of the point that is always kept.
    """
    if len(curve.points) <= MOST_SHOWN:
        return curve, always
    ranked = _ranked(curve)
    if always is not None:
        ranked = [always, *(each for each in ranked if each != always)]
    places = sorted(ranked[:MOST_SHOWN])
    loads = {load: number for number, load in enumerate(sorted({curve.points[n]["load"] for n in places}))}
    points = [
        {**curve.points[place], "n": number, "load": loads[curve.points[place]["load"]]}
        for number, place in enumerate(places)
    ]
    part = replace(
        curve,
        lines=[curve.lines[place] for place in places],
        points=points,
        loads=[curve.loads[load] for load in loads],
        left_out=len(curve.points) - len(places),
    )
    return part, None if always is None else places.index(always)


def _ranked(curve: Curve) -> list[int]:
    """Every point: the fronts, evenly thinned, then the others by how much dearer than a front they are."""
    best = [each for each in curve.points if any(each[name] for name in _FRONTS)]
    best.sort(key=lambda each: (each["load"], each["recall"] or 0.0))
    first = [each["n"] for each in thinned(best, MOST_SHOWN)]
    dearer = _dearer(curve.points)
    others = sorted(set(range(len(curve.points))).difference(first), key=lambda n: (dearer[n], n))
    return [*first, *others]


def thinned(points: list[_Point], most: int) -> list[_Point]:
    """At most this many points, spread evenly, with both ends."""
    if len(points) <= most:
        return points
    step = (len(points) - 1) / (most - 1)
    return [points[round(place * step)] for place in range(most)]


def _dearer(points: list[Row]) -> list[float]:
    """Ratio of each point's latency to the front's at its recall, under the same load."""
    fronts: dict[int, list[tuple[float, float]]] = {}
    for each in points:
        if each["latencyFront"]:
            fronts.setdefault(each["load"], []).append((each["recall"], each["latency"]))
    for found in fronts.values():
        found.sort()
    return [_times(each, fronts.get(each["load"], [])) for each in points]


def _times(point: Row, front: list[tuple[float, float]]) -> float:
    if not point["latency"] or point["recall"] is None:
        return math.inf
    place = bisect_left(front, point["recall"], key=lambda each: each[0])
    cheapest = front[place][1] if place < len(front) else 0.0
    return float(point["latency"] / cheapest) if cheapest else math.inf
