"""The curve of a tuning: its settings as points, with the choice and what else has a name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from recallatk.errors import RecallError
from recallatk.goals import Budget, Target, parse_goal
from recallatk.goals.target import is_loss
from recallatk.reporting.charts.curve import CostAxis, draw, titled
from recallatk.reporting.charts.points import (
    LONGEST_LABEL,
    LONGEST_NAME,
    mark_front,
    parameters_text,
    short_labels,
    with_ends,
)
from recallatk.reporting.charts.theme import INK
from recallatk.reporting.labels import Naming, number, with_margin
from recallatk.reporting.tuned_file import price_of_tuning
from recallatk.reporting.tuned_words import MIB, held, marks_of, measure_of, trial_of

if TYPE_CHECKING:
    from recallatk.core.tuned import Candidate, Tuned
    from recallatk.reporting.charts.theme import Chart, Row

AXES = {
    "p95": "p95 latency (ms)",
    "qps": "Queries per second",
    "memory": "Memory (MiB)",
    "build": "Build time (s)",
    "cost": "Cost per million queries",
}
# A limit further away than this factor would squeeze the points into a corner.
_FAR = 2.5
_SAID = {
    "markText": "Called",
    "engine": "Engine",
    "build": "Build",
    "search": "Search",
    "recallText": "Measured",
    "boundText": "Bound",
    "queriesText": "Queries",
    "p50Text": "p50",
    "p95Text": "p95",
    "qpsText": "QPS",
    "memoryText": "Memory",
    "buildText": "Build time",
}


@dataclass(frozen=True, eq=False)
class TunedCurve:
    """Every setting that the outcome holds, the front first and by rising recall."""

    tuned: Tuned
    candidates: list[Candidate]
    names: Naming
    measure: str | None
    """That of the first target; None where nothing was measured."""
    engines: dict[str, str]
    points: list[Row]
    wanted: tuple[float, ...]
    """What the first target asks of that measure."""
    limit: float | None
    """What a budget allows of the cost on the axis, in its unit."""

    @property
    def ringed(self) -> int | None:
        """The number of the choice, or of what comes nearest."""
        wanted = self.tuned.choice or self.tuned.nearest
        trials = [trial_of(each) for each in self.candidates]
        return None if wanted is None else trials.index(trial_of(wanted))


def tuned_curve(tuned: Tuned) -> TunedCurve:
    """The points of a tuning: its front, the choice, the runner-up, the knee and the nearest miss."""
    candidates, measure = held(tuned), measure_of(tuned)
    names = Naming(trial_of(each) for each in candidates)
    engines = dict(zip(names.engines, short_labels(names.engines, LONGEST_NAME), strict=True))
    labels = short_labels([names.label(trial_of(each)) for each in candidates], LONGEST_LABEL)
    points = [
        _point(tuned, place, each, label, engines[each.engine], measure)
        for place, (each, label) in enumerate(zip(candidates, labels, strict=True))
    ]
    _mark_engine_fronts(points, tuned.prefer, loss=is_loss(measure or ""))
    return TunedCurve(tuned, candidates, names, measure, engines, points, _wanted(tuned), _limit(tuned))


def cost_of(tuned: Tuned, candidate: Candidate) -> float | None:
    """The cost on the axis, in its unit."""
    price, memory, prefer = price_of_tuning(tuned), candidate.memory_bytes, tuned.prefer
    found = {
        "qps": candidate.qps,
        "memory": None if memory is None else memory / MIB,
        "build": candidate.build_seconds,
        "cost": None if price is None else price.per_million(candidate.qps),
    }
    return found[prefer] if prefer in found else candidate.latency_ms.get(prefer)


def _point(
    tuned: Tuned, place: int, candidate: Candidate, label: str, engine: str, measure: str | None
) -> Row:
    mean = candidate.measures.get(measure or "")
    cost, memory = cost_of(tuned, candidate), candidate.memory_bytes
    mark = ", ".join(marks_of(tuned, candidate))
    return {
        "n": place,
        "engine": engine,
        "label": label,
        "mark": mark,
        "markText": mark or "-",
        "load": 0,
        "build": parameters_text(candidate.build),
        "search": parameters_text(candidate.search),
        **with_ends("recall", mean),
        **dict.fromkeys(("cost", "costLow", "costHigh"), cost),
        "costFront": trial_of(candidate) in {trial_of(each) for each in tuned.front},
        "recallText": with_margin(mean),
        "boundText": number(candidate.bound, ".4f"),
        "queriesText": f"{candidate.queries:,}",
        **{f"{name}Text": number(candidate.latency_ms.get(name), ".3f", "ms") for name in ("p50", "p95")},
        "qpsText": number(candidate.qps, ",.0f"),
        "memoryText": number(None if memory is None else memory / MIB, ",.1f", "MiB"),
        "buildText": number(candidate.build_seconds, ",.1f", "s"),
    }


def _mark_engine_fronts(points: list[Row], prefer: str, *, loss: bool) -> None:
    """Whether a point is on the front of its engine, among those that are shown."""
    for engine in {point["engine"] for point in points}:
        members = [point for point in points if point["engine"] == engine]
        mark_front(members, "cost", "costEngineFront", gain=prefer == "qps", loss=loss)


def _wanted(tuned: Tuned) -> tuple[float, ...]:
    """What the first target asks of its measure: of a percentile, the share of queries that reach it."""
    goal = _parsed(tuned.targets[0]) if tuned.targets else None
    return (goal.goal,) if isinstance(goal, Target) else ()


def _limit(tuned: Tuned) -> float | None:
    limits = [goal for goal in map(_parsed, tuned.budgets) if isinstance(goal, Budget)]
    limit = next((each.limit for each in limits if each.name == tuned.prefer), None)
    return limit / MIB if limit is not None and tuned.prefer == "memory" else limit


def _parsed(text: str) -> Target | Budget | None:
    """The goal of a text from a file; None where it states none."""
    try:
        return parse_goal(text)
    except RecallError:
        return None


def tuned_chart(curve: TunedCurve) -> Chart | None:
    """The curve that the choice was made on; None where nothing was measured."""
    prefer = curve.tuned.prefer
    title = AXES.get(prefer, f"{prefer} latency (ms)")
    said = (
        f"{titled(curve.measure or 'recall')} of every setting measured at full size against {title}, with "
        "95 % intervals; the band behind the points is the Pareto front, dashed lines are goals."
    )
    axis = CostAxis("cost", title, curve.limit if limit_is_near(curve) else None)
    return draw(curve, axis, said, curve.ringed, said=_SAID, more=_named(curve), follows=False)


def limit_is_near(curve: TunedCurve) -> bool:
    """Whether there is a limit to the cost that can be drawn beside the points."""
    costs: list[float] = [point["cost"] for point in _drawn(curve)]
    if curve.limit is None or not costs:
        return False
    return min(costs) / _FAR <= curve.limit <= max(costs) * _FAR


def _drawn(curve: TunedCurve) -> list[Row]:
    return [point for point in curve.points if point["recall"] is not None and point["cost"]]


def _named(curve: TunedCurve) -> list[Any]:
    """Labels of the marked points, on the side where no better setting can be."""
    import altair as alt

    drawn = _drawn(curve)
    if not drawn:
        return []
    ends = [point["recall"] for point in drawn]
    near = min(ends) + 0.15 * (max(ends) - min(ends))
    up: dict[str, Any] = {
        "dy": 17 if curve.tuned.prefer == "qps" else -14,
        "color": INK,
        "fontWeight": 600,
        "fontSize": 12,
    }
    sides: dict[bool, dict[str, Any]] = {
        True: {"align": "left", "dx": 6},
        False: {"align": "right", "dx": -6},
    }
    named = {point["recall"] <= near for point in drawn if point["mark"]}
    return [
        alt.Chart()
        .transform_filter(f"datum.mark && datum.recall {'<=' if low else '>'} {near!r}")
        .mark_text(**side, **up)
        .encode(text="mark:N")
        .properties(name=f"names{side['align']}")
        for low, side in sides.items()
        # Vega-Lite warns about layers without rows.
        if low in named
    ]
